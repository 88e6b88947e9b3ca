// This file runs Go tests as Windows programs, if a Wine is installed that can run them.

package develop

import (
	"context"
	"os"
	"os/exec"
	"strings"
)

// windowsPackages are the packages whose tests need no compiler, emulator or programmer.
var windowsPackages = []string{
	"./boards", "./cache", "./examples/samples", "./executor", "./failure", "./flasher", "./internal/faultimage",
	"./internal/framing", "./internal/paramblob", "./internal/tvmrpc", "./internal/allocation", "./mlf", "./ndarray",
	"./rpc", "./rpc/fault", "./transport",
}

// windowsTests is part of test:full. Wine handles locked files and links differently from Windows, so the tests of
// these check boardsmith's actions, not their effect.
func (r *repository) windowsTests(ctx context.Context, t *tally) error {
	const name = "Go tests as Windows programs, under Wine"
	wine, err := findWine()
	if err != nil {
		r.skip(t, name, "no wine64 is installed (Debian 13's serves, the 8.0 of Debian 12 runs no Go program)")
		return nil
	}
	prefix, err := os.MkdirTemp("", "boardsmith-wine-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(prefix)
	c := check{
		name: name, argv: []string{"go", "test", "-short", "-count=1", "-exec=" + wine},
		env: []string{"GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0", "WINEPREFIX=" + prefix, "WINEDEBUG=-all"},
	}
	first := c
	first.argv = append(c.argv[:len(c.argv):len(c.argv)], "./failure")
	if printed, err := r.runCheck(ctx, first); err != nil && strings.Contains(printed, ".dll not found") {
		r.skip(t, name, wine+" runs no Go program")
		return ctx.Err()
	}
	c.argv = append(c.argv, windowsPackages...)
	return r.runChecks(ctx, []check{c}, t)
}

// findWine returns the loader of 64-bit programs, which Debian does not put on PATH.
func findWine() (string, error) {
	if path, err := exec.LookPath("wine64"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/lib/wine/wine64")
}
