package cache

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sample() Entry {
	e := Entry{Device: "probe:SN/1 %", Board: "b", Image: "aa", Verified: time.Unix(1e9, 0).UTC(), Flashes: 3}
	for _, a := range []uint64{4096, 0, 2048} {
		s := e.Sector(a, 1024)
		s.Erases++
	}
	e.Sector(0, 1024).Erases++
	return e
}

func TestLedger(t *testing.T) {
	l := NewLedger(filepath.Join(t.TempDir(), "not", "there"))
	e := sample()
	if got, err := l.Load(e.Device); err != nil || got.Dirty || len(got.Sectors) != 0 || got.Device != e.Device {
		t.Fatalf("of a device never seen: %+v, %v", got, err)
	}
	if err := l.Save(e); err != nil {
		t.Fatal(err)
	}
	got, err := l.Load(e.Device)
	e.Format = ledgerFormat
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("read %+v, %v; wrote %+v", got, err, e)
	}
	if s := got.Sectors; len(s) != 3 || s[0].Addr != 0 || s[0].Erases != 2 || s[1].Addr != 2048 || s[2].Addr != 4096 {
		t.Errorf("sectors %+v", s)
	}
	list, err := l.List()
	if err != nil || len(list) != 1 || list[0].Device != e.Device {
		t.Errorf("list %+v, %v", list, err)
	}
}

// Whatever a file has become, it is taken whole or put aside.
func TestDamagedLedger(t *testing.T) {
	dir := t.TempDir()
	l := NewLedger(dir)
	e := sample()
	if err := l.Save(e); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(l.path(e.Device))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(good) - 2 { // all but the last brace and line end
		if err := os.WriteFile(l.path(e.Device), good[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := l.Load(e.Device)
		if err != nil || got.Lost == "" || got.Image != "" {
			t.Fatalf("cut at %d: %+v, %v", n, got, err)
		}
		if _, err := os.Stat(got.Lost); err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for _, swap := range [][2]string{
		{`"format": 1`, `"format": 2`},
		{`"addr": 2048`, `"addr": 100`},
		{`"erases": 2`, `"erases": -2`},
		{`"size": 1024`, `"size": 0`},
		{`SN/1`, `SN/2`},
		{`"dirty"`, `"dusty"`},
	} {
		if err := os.WriteFile(l.path(e.Device), []byte(strings.Replace(string(good), swap[0], swap[1], 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := l.Load(e.Device); err != nil || got.Lost == "" {
			t.Errorf("%s was taken: %+v, %v", swap[1], got, err)
		}
	}
}
