package atomicfolder

import (
	"os"
	"path/filepath"
	"testing"
)

// TestForeign finds a file that is not listed, also a link and one in a folder below.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	must(t, Write(t.Context(), dir, []File{{"a/b", nil}, {"c", nil}}, nil))
	for want, listed := range map[string]map[string]string{
		"": {"a/b": "", "c": "", "d": ""}, "a/b": {"c": "", "b": ""}, "c": {"a/b": ""},
	} {
		if got, err := Foreign(dir, listed); err != nil || got != want {
			t.Errorf("%v: %q, %v", listed, got, err)
		}
	}
	if _, err := Foreign(filepath.Join(dir, "none"), nil); err == nil {
		t.Error("no error of a folder that is not there")
	}
}

// TestChanged finds what is not as the list of the folder names it: another file, other bytes, a link.
func TestChanged(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"":             func(string) error { return nil },
		"a/b":          func(dir string) error { return os.WriteFile(filepath.Join(dir, "a", "b"), []byte("2"), 0o644) },
		"a/new":        func(dir string) error { return os.WriteFile(filepath.Join(dir, "a", "new"), nil, 0o644) },
		SumsFile + ".": func(dir string) error { return os.WriteFile(filepath.Join(dir, SumsFile+"."), nil, 0o644) },
		"c": func(dir string) error {
			path := filepath.Join(dir, "c")
			if err := os.Rename(path, dir+".c"); err != nil {
				return err
			}
			return os.Symlink(dir+".c", path)
		},
	} {
		dir := filepath.Join(t.TempDir(), "folder")
		files := []File{{"c", []byte("3")}, {"a/b", []byte("1")}}
		must(t, Write(t.Context(), dir, append(files, Sums(files)), nil))
		if err := change(dir); err != nil {
			t.Skip(err)
		}
		listed, err := Listed(dir)
		if err != nil || len(listed) != 3 {
			t.Fatal(listed, err)
		}
		if got, err := Changed(dir, listed); err != nil || got != name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if listed, err := Listed(t.TempDir()); listed != nil || err != nil {
		t.Errorf("a folder without a list: %v, %v", listed, err)
	}
}
