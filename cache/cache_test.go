package cache

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/files/tarfile"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

var must = testkit.Must

func entry() []tarfile.File {
	return []tarfile.File{
		{Name: "crt/libcrt.a", Data: []byte("archive")},
		{Name: "src/empty.o", Data: []byte{}},
		{Name: "src/main.o", Data: bytes.Repeat([]byte{0, 255}, 3000)},
	}
}

func TestGetAfterPut(t *testing.T) {
	c := New(filepath.Join(t.TempDir(), "not", "there", "yet"), Options{})
	k := cachekey.New("test v1").Add("cc", "gcc").Key()
	if _, ok := c.Get(k); ok {
		t.Fatal("an empty cache returned an entry")
	}
	must(t, c.Put(k, entry()))
	got, ok := c.Get(k)
	if !ok || !reflect.DeepEqual(got, entry()) {
		t.Fatalf("got %v %q", ok, got)
	}
	if _, ok := c.Get(cachekey.New("test v1").Add("cc", "clang").Key()); ok {
		t.Error("another key returned the entry")
	}
}

// TestDamage flips each byte of a stored entry and truncates it at each length: Get must never return it.
func TestDamage(t *testing.T) {
	c := New(t.TempDir(), Options{})
	k := cachekey.New("test v1").Key()
	files := []tarfile.File{{Name: "a", Data: []byte("hello")}}
	must(t, c.Put(k, files))
	good, err := os.ReadFile(c.path(k))
	must(t, err)
	for i := 0; i < len(good); i += 7 {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		for _, b := range [][]byte{bad, good[:i]} {
			must(t, os.WriteFile(c.path(k), b, 0o644))
			if _, ok := c.Get(k); ok {
				t.Fatalf("damaged at byte %d of %d, but returned", i, len(good))
			}
			if _, err := os.Stat(c.path(k)); err == nil {
				t.Fatalf("damaged at byte %d, but not removed", i)
			}
		}
	}
}

func TestEntryThatClimbsOutIsRefused(t *testing.T) {
	data, err := writeEntry([]tarfile.File{{Name: "../x", Data: []byte("x")}})
	must(t, err)
	if f, err := parseEntry(data[32:]); err == nil {
		t.Fatalf("took %q", f)
	}
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	k := cachekey.New("test v1").Key()
	must(t, New(dir, Options{}).Put(k, entry()))
	v := New(dir, Options{Verify: true})
	if _, ok := v.Get(k); ok {
		t.Error("verify mode hit")
	}
	if err := v.Put(k, entry()); err != nil {
		t.Errorf("the same again: %v", err)
	}
	other := entry()
	other[2].Data[17] ^= 1
	if err := v.Put(k, other); err == nil || !strings.HasSuffix(err.Error(), "a different src/main.o") {
		t.Errorf("got %v", err)
	}
	if err := v.Put(k, entry()[:2]); err == nil {
		t.Errorf("a file less: %v", err)
	}
	more := append(entry(), tarfile.File{Name: "src/more.o"})
	if err := v.Put(k, more); err == nil || !strings.HasSuffix(err.Error(), "a different src/more.o") {
		t.Errorf("a file more: %v", err)
	}
}

func TestDefaultDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("LocalAppData", home) // the same on Windows
	t.Setenv("HOME", home)
	t.Setenv("BOARDSMITH_HOME", "")
	if runtime.GOOS == "darwin" {
		home = filepath.Join(home, "Library", "Caches")
	}
	if d, err := DefaultDir(); err != nil || d != filepath.Join(home, "boardsmith") {
		t.Errorf("got %q, %v", d, err)
	}
	t.Setenv("BOARDSMITH_HOME", home)
	if d, err := DefaultDir(); err != nil || d != filepath.Join(home, "cache") {
		t.Errorf("got %q, %v", d, err)
	}
}

func TestPutWhereThereIsNoRoom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o644))
	c := New(file, Options{}) // a file where the folder should be
	if err := c.Put(cachekey.New("x").Key(), entry()); err == nil {
		t.Error("no error")
	}
	if _, ok := c.Get(cachekey.New("x").Key()); ok {
		t.Error("a hit")
	}
}
