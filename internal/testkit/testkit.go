// Package testkit is what tests of several packages share. Packages in its folder are for one subject each.
package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// Root returns the repository's folder, absolute.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for up := dir; ; up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			return up
		}
		if up == filepath.Dir(up) {
			t.Fatal("no go.mod above the test's folder ", dir)
		}
	}
}

// Must ends the test if there was an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
