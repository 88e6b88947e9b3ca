package project

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLicenceOf reads the licence of a file of a project; a file that is not there is an error.
func TestLicenceOf(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a.c"), []byte("/* SPDX-License-Identifier: MIT OR 0BSD */\n"), 0o644))
	files, err := openTree(dir)
	must(t, err)
	defer files.close()
	if got, err := licenceOf(files, "a.c"); got != "MIT OR 0BSD" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := licenceOf(files, "b.c"); err == nil {
		t.Errorf("a file that is not there: %q", got)
	}
}
