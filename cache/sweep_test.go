package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/files/tarfile"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// childDir names the environment variable with the cache folder of a child process.
const childDir = "CACHE_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := useForEver(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func key(n int) cachekey.Key { return cachekey.New("test v1").Add("n", fmt.Sprint(n)).Key() }

// content derives an entry's content from its key, so that any process can check it.
func content(n int) []tarfile.File {
	return []tarfile.File{{Name: "a", Data: bytes.Repeat([]byte(fmt.Sprint(n)), 40*(n+1))}, {Name: "b", Data: nil}}
}

func keep(t *testing.T, c *Cache, n int) {
	t.Helper()
	must(t, c.Put(key(n), content(n)))
}

// usedAgo sets the last use of a file to so long ago.
func usedAgo(t *testing.T, path string, ago time.Duration) {
	t.Helper()
	then := time.Now().Add(-ago)
	must(t, os.Chtimes(path, then, then))
}

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	c := newCache(t)
	for n := range 5 {
		keep(t, c, n)
		usedAgo(t, c.path(key(n)), time.Duration(10-n)*time.Minute)
	}
	if _, ok := c.Get(key(0)); !ok { // marks it as used last
		t.Fatal("the entry is missing")
	}
	all, err := c.List()
	if err != nil || len(all) != 5 || all[0].Key != key(0) || all[4].Key != key(1) {
		t.Fatalf("list: %v, %v", all, err)
	}
	limit := all[0].Bytes + all[1].Bytes + all[2].Bytes
	s, err := c.GC(limit)
	if err != nil || s.Entries != 3 || s.Bytes != limit || s.Removed != 2 || s.Freed != all[3].Bytes+all[4].Bytes {
		t.Errorf("%+v, %v", s, err)
	}
	for n, want := range []bool{true, false, false, true, true} {
		if _, ok := c.Get(key(n)); ok != want {
			t.Errorf("entry %d: %v, want %v", n, ok, want)
		}
	}
	if s, err := c.GC(0); err != nil || s.Entries != 0 || s.Removed != 3 {
		t.Errorf("to nothing: %+v, %v", s, err)
	}
	wantResult(t, Sweep{}, "of no cache")(New(filepath.Join(t.TempDir(), "none"), Options{}).GC(0))
}

// Every sweepEvery-th stored entry starts a sweep, even if each is stored through another Cache value.
func TestSweepsAreRare(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, builtFolder, ".tmp-1") // a sweep removes it
	writeFile(t, left, "")
	usedAgo(t, left, 2*leftover)
	for n := range sweepEvery {
		must(t, last(os.Stat(left)))
		keep(t, New(dir, Options{Limit: 10 << 10}), n)
	}
	wantError(t, last(os.Stat(left)), "")
	if all, err := New(dir, Options{}).List(); err != nil || len(all) == 0 || len(all) == sweepEvery {
		t.Errorf("%d entries, %v", len(all), err)
	}
	keep(t, New(dir, Options{Limit: 1}), 0)
	if all, err := New(dir, Options{}).List(); err != nil || len(all) < 2 {
		t.Errorf("swept after one more: %d entries, %v", len(all), err)
	}
}

func TestVerifyRemovesDamage(t *testing.T) {
	c := newCache(t)
	for n := range 3 {
		keep(t, c, n)
	}
	must(t, os.Truncate(c.path(key(1)), 100))
	bad := 0
	s, err := c.Verify(func(e EntryInfo, good bool) error {
		if !good {
			bad++
		}
		if good == (e.Key == key(1)) {
			t.Errorf("%x: %v", e.Key, good)
		}
		return nil
	})
	if err != nil || s.Entries != 2 || s.Removed != 1 || bad != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = c.Verify(nil); err != nil || s.Entries != 2 || s.Removed != 0 {
		t.Errorf("again: %+v, %v", s, err)
	}
}

// A file that a killed process left is removed after an hour and is never an entry.
func TestLeftovers(t *testing.T) {
	c := newCache(t)
	keep(t, c, 1)
	old, young := filepath.Join(filepath.Dir(c.path(key(1))), ".tmp-1"),
		filepath.Join(filepath.Dir(c.path(key(1))), ".tmp-2")
	for _, name := range []string{old, young} {
		writeFile(t, name, "half")
	}
	usedAgo(t, old, 2*leftover)
	if s, err := c.GC(defaultLimit); err != nil || s.Entries != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	wantError(t, last(os.Stat(old)), "")
	must(t, last(os.Stat(young)))
}

const (
	processes = 8
	manyKeys  = 60
)

// TestManyProcesses fills, reads, sweeps and verifies one cache from eight processes, some of which it kills.
func TestManyProcesses(t *testing.T) {
	lasts := 3 * time.Second
	if drawn.InFull() {
		lasts = time.Minute
	}
	if testing.Short() {
		lasts = time.Second
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), lasts+time.Minute)
	defer cancel()
	type process struct {
		cmd  *exec.Cmd
		said *bytes.Buffer
	}
	start := func() process {
		p := process{exec.CommandContext(ctx, os.Args[0]), &bytes.Buffer{}}
		p.cmd.Env = append(os.Environ(), childDir+"="+dir)
		p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
		must(t, p.cmd.Start())
		return p
	}
	end := func(p process) {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // killed
		if p.said.Len() > 0 {
			t.Errorf("a process reported: %s", p.said)
		}
	}
	all := make([]process, processes)
	for i := range all {
		all[i] = start()
	}
	kills := 0
	for until := time.Now().Add(lasts); time.Now().Before(until); kills++ {
		time.Sleep(100 * time.Millisecond)
		i := rand.IntN(processes)
		end(all[i])
		all[i] = start()
	}
	for _, p := range all {
		end(p)
	}
	c := New(dir, Options{})
	s, err := c.Verify(nil)
	if err != nil || s.Removed > 0 {
		t.Errorf("%+v, %v", s, err)
	}
	for n := range manyKeys {
		must(t, errors.Join(right(c, n), rightImage(c, n)))
	}
	t.Logf("%d processes were killed, %d entries are left", kills, s.Entries)
	if s.Entries == 0 {
		t.Error("no entries: the test did nothing")
	}
}

// right returns an error if an entry exists with the wrong content.
func right(c *Cache, n int) error {
	got, ok := c.Get(key(n))
	if !ok {
		return nil
	}
	for i, f := range content(n) {
		if len(got) != 2 || got[i].Name != f.Name || !bytes.Equal(got[i].Data, f.Data) {
			return fmt.Errorf("entry %d is another's", n)
		}
	}
	return nil
}

// useForEver uses a cache at random until it is killed or finds an error.
func useForEver(dir string) error {
	c := New(dir, Options{})
	for {
		n := rand.IntN(manyKeys)
		var err error
		switch rand.IntN(16) {
		case 0:
			_, err = c.GC(int64(rand.IntN(200 << 10)))
		case 1:
			var s Sweep
			if s, err = c.Verify(nil); s.Removed > 0 {
				err = fmt.Errorf("%d damaged entries", s.Removed)
			}
		case 2, 3, 4, 5:
			err = c.Put(key(n), content(n))
		case 6, 7:
			err = c.PutImage(imageLabel(n), content(n)[0].Data)
		case 8, 9:
			err = rightImage(c, n)
		default:
			err = right(c, n)
		}
		if err != nil && !os.IsNotExist(err) {
			return err
		}
	}
}
