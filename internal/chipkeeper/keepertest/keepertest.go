// Package keepertest builds the keeper's executable for tests that use emulated chips.
package keepertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// variable is the environment variable that names the executable.
const variable = "BOARDSMITH_KEEPER"

var (
	folder string   // folder of the executable built here; "" before
	flags  []string // to build it with
)

// Path returns the path of the executable: the value of $BOARDSMITH_KEEPER, or else the one that the first call builds.
// The variable then names it, so that this process and its children find it.
var Path = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(variable); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "keepertest")
	if err != nil {
		return "", err
	}
	folder = dir
	path := filepath.Join(dir, "boardsmith-keeper")
	if err := Build(path); err != nil {
		return "", err
	}
	return path, os.Setenv(variable, path)
})

// Build builds the executable at path.
func Build(path string) error {
	args := append([]string{"build", "-o", path}, flags...)
	cmd := exec.Command("go", append(args, "./cmd/boardsmith-keeper")...)

	// Tests run in the folders of their packages: this file leads to the repository.
	_, here, _, _ := runtime.Caller(0)
	cmd.Dir = strings.TrimSuffix(filepath.ToSlash(filepath.Dir(here)), "/internal/chipkeeper/keepertest")

	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, output)
	}
	return nil
}

// Use sets the variable, so that a test's programs find the executable.
func Use(t testing.TB) {
	t.Helper()
	if _, err := Path(); err != nil {
		t.Fatal(err)
	}
}

// Main builds the executable with these flags, runs a package's tests, and ends the process.
func Main(m *testing.M, buildFlags ...string) {
	flags = buildFlags
	code := m.Run()
	Clean()
	os.Exit(code)
}

// Clean removes the executable. Running keepers continue.
func Clean() {
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
}
