package release

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// TestAddLicence: a file's own licence precedes that of its origin, and one in the file beside it both; without
// any, none is asserted. A missing file is an error.
func TestAddLicence(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "a.c"), []byte("/* SPDX-License-Identifier: MIT OR 0BSD */\n"), 0o644))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "b.c"), []byte("int b;\n"), 0o644))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "blob.c"), []byte("char b[] = {1};\n"), 0o644))
	beside := []byte("SPDX-License-Identifier: GPL-2.0-only\n")
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "blob.c.license"), beside, 0o644))
	files, err := workdir.Open(dir)
	testkit.Must(t, err)
	defer files.Close()
	for _, c := range []struct{ file, given, want string }{
		{"a.c", "", "MIT OR 0BSD"},
		{"a.c", "ISC", "MIT OR 0BSD"},
		{"b.c", "ISC", "ISC"},
		{"b.c", "", noLicence},
		{"blob.c", "ISC", "GPL-2.0-only"},
	} {
		o := origin{licence: c.given}
		if err := o.addLicence(files, c.file); o.licence != c.want || err != nil {
			t.Errorf("%s, given %q: %q, %v", c.file, c.given, o.licence, err)
		}
	}
	if err := new(origin).addLicence(files, "c.c"); err == nil {
		t.Error("a file that is not there has a licence")
	}
}
