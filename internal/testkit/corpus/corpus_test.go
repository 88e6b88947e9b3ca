package corpus_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/corpus"
)

// A target is a fuzz target that records its seeds, and how it failed.
type target struct {
	testing.TB
	seeds [][]any
	fatal string
}

func (f *target) Add(args ...any) { f.seeds = append(f.seeds, args) }
func (f *target) Name() string    { return "FuzzX" }
func (f *target) Fatal(args ...any) {
	f.fatal = args[0].(error).Error()
	panic(f)
}

func (f *target) Fatalf(format string, _ ...any) {
	f.fatal = format
	panic(f)
}

// added returns the target after Add in the working folder.
func added(t *testing.T) (f *target) {
	f = &target{TB: t}
	defer func() {
		if failed := recover(); failed != nil && failed != f {
			panic(failed)
		}
	}()
	corpus.Add(f)
	return f
}

// pack packs files, given as pairs of name and contents, into the archive of target FuzzX.
func pack(t *testing.T, files ...string) (archive string, err error) {
	t.Helper()
	dir := t.TempDir()
	var names []string
	for i := 0; i < len(files); i += 2 {
		names = append(names, filepath.Join(dir, files[i]))
		write(t, names[i/2], files[i+1])
	}
	archive = filepath.Join("testdata", "corpus", "FuzzX.tar.gz")
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		t.Fatal(err)
	}
	return archive, corpus.Pack(archive, names...)
}

func write(t *testing.T, name, data string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

const version = "go test fuzz v1\n"

func TestAddDecodesArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := pack(t,
		"a", version+`[]byte("\x00\"\\)(\xff")`+"\n"+`bool(true)`+"\n",
		"b", version+`string("é\n")`+"\nbyte('\\'')\nbyte('ÿ')\nbyte('\\u0080')\nbyte('\\x01')\n",
	); err != nil {
		t.Fatal(err)
	}
	want := [][]any{
		{[]byte("\x00\"\\)(\xff"), true},
		{"é\n", byte('\''), byte(0xff), byte(0x80), byte(1)},
	}
	if f := added(t); f.fatal != "" || !reflect.DeepEqual(f.seeds, want) {
		t.Errorf("%s: added %q, want %q", f.fatal, f.seeds, want)
	}
}

func TestAddFailsWithoutInputs(t *testing.T) {
	for name, c := range map[string]struct {
		files []string // nil: no archive
		cut   int      // so many bytes are missing at the end
	}{
		"missing":      {},
		"empty":        {[]string{}, 0},
		"truncated":    {[]string{"a", version + "bool(true)\n"}, 1},
		"no version":   {[]string{"a", "bool(true)\n"}, 0},
		"no argument":  {[]string{"a", version}, 0},
		"another type": {[]string{"a", version + "int(1)\n"}, 0},
		"no value":     {[]string{"a", version + "byte()\n"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if c.files != nil {
				archive, err := pack(t, c.files...)
				if err != nil {
					t.Fatal(err)
				}
				data, err := os.ReadFile(archive)
				if err != nil {
					t.Fatal(err)
				}
				write(t, archive, string(data[:len(data)-c.cut]))
			}
			if f := added(t); f.fatal == "" {
				t.Errorf("no failure, seeds %q", f.seeds)
			}
		})
	}
}

// TestReadDetectsDamage changes each byte of an archive, and cuts it anywhere: the files are the same or an error.
func TestReadDetectsDamage(t *testing.T) {
	t.Chdir(t.TempDir())
	archive, err := pack(t, "a", strings.Repeat("one", 300), "b", "two", "c", "")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	want, err := corpus.Read(archive)
	if err != nil || len(want) != 3 {
		t.Fatalf("%q, %v", want, err)
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 0x41
		write(t, archive, string(changed))
		if got, err := corpus.Read(archive); err == nil && !maps.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("byte %d changed: %q", i, got)
		}
		write(t, archive, string(whole[:i]))
		if got, err := corpus.Read(archive); err == nil {
			t.Errorf("cut after %d of %d bytes: %q", i, len(whole), got)
		}
	}
}

func TestPackKeepsOldFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, files := range [][]string{{"b", "two"}, {"a", "one"}, {"b", "two", "c", "three"}} {
		if _, err := pack(t, files...); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := pack(t, "a", "another")
	if err == nil || !strings.Contains(err.Error(), "another file of this name") {
		t.Errorf("a second file a: %v", err)
	}
	stepwise, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if _, err := pack(t, "c", "three", "b", "two", "a", "one"); err != nil {
		t.Fatal(err)
	}
	if atOnce, err := os.ReadFile(archive); err != nil || !bytes.Equal(stepwise, atOnce) {
		t.Errorf("%x\npacked in other steps:\n%x, %v", stepwise, atOnce, err)
	}
}

// TestTargetsAddTheirArchives searches this repository for archives whose fuzz target does not begin with Add.
func TestTargetsAddTheirArchives(t *testing.T) {
	archives := 0
	for _, depth := range []string{"*", "*/*"} {
		found, err := filepath.Glob("../../../" + depth + "/testdata/corpus/*.tar.gz")
		if err != nil {
			t.Fatal(err)
		}
		archives += len(found)
		for _, archive := range found {
			name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
			if !beginsWithAdd(t, filepath.Join(filepath.Dir(archive), "../.."), name) {
				t.Errorf("%s: %s does not begin with corpus.Add(f)", archive, name)
			}
		}
	}
	if archives == 0 {
		t.Error("no archive found")
	}
}

func beginsWithAdd(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("func "+name+"(f *testing.F) {\n\tcorpus.Add(f)\n")) {
			return true
		}
	}
	return false
}
