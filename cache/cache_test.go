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

var (
	must       = testkit.Must
	writeFile  = testkit.WriteFile
	wantError  = testkit.WantError
	wantEqual  = testkit.WantEqual
	wantResult = testkit.WantResult
	wantLen    = testkit.WantLen
	wantIs     = testkit.WantIs
	last       = testkit.Last
)

// newCache returns an empty cache, which ends with the test.
func newCache(t *testing.T) *Cache { return New(t.TempDir(), Options{}) }

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
	c := newCache(t)
	k := cachekey.New("test v1").Key()
	files := []tarfile.File{{Name: "a", Data: []byte("hello")}}
	must(t, c.Put(k, files))
	good := testkit.ReadFile(t, c.path(k))
	for i := 0; i < len(good); i += 7 {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		for _, b := range [][]byte{bad, good[:i]} {
			writeFile(t, c.path(k), string(b))
			if _, ok := c.Get(k); ok {
				t.Fatalf("damaged at byte %d of %d, but returned", i, len(good))
			}
			wantError(t, last(os.Stat(c.path(k))), "")
		}
	}
}

func TestEntryThatClimbsOutIsRefused(t *testing.T) {
	data, err := writeEntry([]tarfile.File{{Name: "../x", Data: []byte("x")}})
	must(t, err)
	wantError(t, last(parseEntry(data[32:])), "")
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	k := cachekey.New("test v1").Key()
	must(t, New(dir, Options{}).Put(k, entry()))
	v := New(dir, Options{Verify: true})
	if _, ok := v.Get(k); ok {
		t.Error("verify mode hit")
	}
	must(t, v.Put(k, entry()))
	other := entry()
	other[2].Data[17] ^= 1
	if err := v.Put(k, other); err == nil || !strings.HasSuffix(err.Error(), "a different src/main.o") {
		t.Errorf("got %v", err)
	}
	wantError(t, v.Put(k, entry()[:2]), "")
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
	wantResult(t, filepath.Join(home, "boardsmith"))(DefaultDir())
	t.Setenv("BOARDSMITH_HOME", home)
	wantResult(t, filepath.Join(home, "cache"))(DefaultDir())
}

func TestPutWhereThereIsNoRoom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	c := New(file, Options{}) // a file where the folder should be
	wantError(t, c.Put(cachekey.New("x").Key(), entry()), "")
	if _, ok := c.Get(cachekey.New("x").Key()); ok {
		t.Error("a hit")
	}
}
