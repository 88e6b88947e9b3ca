package release

import (
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// TestAddLicence: a file's own licence precedes that of its origin, and one in the file beside it both; without
// any, none is asserted. A missing file is an error.
func TestAddLicence(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFiles(t, dir, map[string]string{
		"a.c": "/* SPDX-License-Identifier: MIT OR 0BSD */\n", "b.c": "int b;\n", "blob.c": "char b[] = {1};\n",
		"blob.c.license": "SPDX-License-Identifier: GPL-2.0-only\n",
	})
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
