package wholefolder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestWrite replaces a folder only if it may, and leaves nothing else behind.
func TestWrite(t *testing.T) {
	one := []File{{"a/b", []byte("1")}, {"c", []byte("2")}}
	two := []File{{"c", []byte("3")}}
	dir := filepath.Join(t.TempDir(), "new", "folder")
	slash := dir + string(filepath.Separator)
	never := errors.New("never")
	if err := Write(slash, one, func() error { return never }); err != nil || !Has(dir, one) || Has(dir, two) {
		t.Fatal(err)
	}
	if err := Write(dir, two, func() error { return never }); !errors.Is(err, never) || !Has(dir, one) {
		t.Error(err)
	}
	if err := Write(slash, two, func() error { return nil }); err != nil || !Has(dir, two) || Has(dir, one) {
		t.Error(err)
	}
	if HasFile(dir, "a/b") || !HasFile(dir, "c") || HasFile(filepath.Dir(dir), "folder") {
		t.Error("HasFile is wrong")
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if err := os.Symlink("c", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	if Has(dir, append(two, File{"link", []byte("3")})) {
		t.Error("a link is no file")
	}
	if err := Write(filepath.Join(dir, "c", "below"), one, nil); err == nil {
		t.Error("a folder below a file")
	}
}

// TestSwapFails: a folder that cannot be replaced stays.
func TestSwapFails(t *testing.T) {
	at := t.TempDir()
	dir, one := filepath.Join(at, "dir"), []File{{"c", []byte("1")}}
	if err := Write(dir, one, nil); err != nil {
		t.Fatal(err)
	}
	err := swap(dir, filepath.Join(at, "none"), filepath.Join(at, "old"), filepath.Join(at, "kept"))
	if err == nil || !Has(dir, one) {
		t.Errorf("%v; the folder is there: %v", err, Has(dir, one))
	}
}
