package corpus_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
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
		testkit.WriteFile(t, names[i/2], files[i+1])
	}
	archive = filepath.Join("testdata", "corpus", "FuzzX.tar.gz")
	testkit.Must(t, os.MkdirAll(filepath.Dir(archive), 0o755))
	return archive, corpus.Pack(archive, names...)
}

const version = "go test fuzz v1\n"

func TestAddDecodesArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	testkit.Must(t, testkit.Last(pack(t,
		"a", version+`[]byte("\x00\"\\)(\xff")`+"\n"+`bool(true)`+"\n",
		"b", version+`string("é\n")`+"\nbyte('\\'')\nbyte('ÿ')\nbyte('\\u0080')\nbyte('\\x01')\n",
	)))
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
				testkit.Must(t, err)
				data := testkit.ReadFile(t, archive)
				testkit.WriteFile(t, archive, string(data[:len(data)-c.cut]))
			}
			if f := added(t); f.fatal == "" {
				t.Errorf("no failure, seeds %q", f.seeds)
			}
		})
	}
}

func TestPackKeepsOldFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, files := range [][]string{{"b", "two"}, {"a", "one"}, {"b", "two", "c", "three"}} {
		testkit.Must(t, testkit.Last(pack(t, files...)))
	}
	archive, err := pack(t, "a", "another")
	testkit.WantError(t, err, "", "another file of this name")
	stepwise := testkit.ReadFile(t, archive)
	t.Chdir(t.TempDir())
	testkit.Must(t, testkit.Last(pack(t, "c", "three", "b", "two", "a", "one")))
	testkit.WantEqual(t, stepwise, testkit.ReadFile(t, archive), "packed in other steps")
}

// TestTargetsAddTheirArchives searches this repository for archives whose fuzz target does not begin with Add.
func TestTargetsAddTheirArchives(t *testing.T) {
	archives := 0
	for _, depth := range []string{"*", "*/*"} {
		found, err := filepath.Glob("../../../" + depth + "/testdata/corpus/*.tar.gz")
		testkit.Must(t, err)
		archives += len(found)
		for _, archive := range found {
			files, err := filepath.Glob(filepath.Join(filepath.Dir(archive), "../../*_test.go"))
			testkit.Must(t, err)
			name := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
			begin := []byte("func " + name + "(f *testing.F) {\n\tcorpus.Add(f)\n")
			if !slices.ContainsFunc(files, func(file string) bool { return bytes.Contains(testkit.ReadFile(t, file), begin) }) {
				t.Errorf("%s: %s does not begin with corpus.Add(f)", archive, name)
			}
		}
	}
	if archives == 0 {
		t.Error("no archive found")
	}
}
