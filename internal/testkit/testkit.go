// Package testkit is what tests of several packages share. Packages in its folder are for one subject each.
package testkit

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Context returns a context that ends with the test, and a minute before the time of its package's tests does. What a
// test starts has no shorter limit: how long it takes depends on what else the computer does.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	if test, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, limited := test.Deadline(); limited {
			ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Minute))
		}
	}
	t.Cleanup(cancel)
	return ctx
}

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

// Link links an assembly source by a linker script, and returns the folder with o.elf and o.map. It skips the test if
// the compiler is not installed.
func Link(t testing.TB, cc, script, source string, flags ...string) (dir string) {
	t.Helper()
	if _, err := exec.LookPath(cc); err != nil {
		t.Skip("no " + cc)
	}
	dir = t.TempDir()
	Must(t, os.WriteFile(filepath.Join(dir, "o.S"), []byte(source), 0o644))
	Must(t, os.WriteFile(filepath.Join(dir, "o.ld"), []byte(script), 0o644))
	cmd := exec.Command(cc, append([]string{
		"-nostdlib", "-static", "-Wl,--build-id=md5,-Map=o.map", "-To.ld", "-o", "o.elf", "o.S",
	}, flags...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}
