// This file lists the checks besides those of Go's tests.

package develop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/boardsmith/boardsmith/targets/internal/toolbox"
)

// misra checks MISRA's rules too, which takes as long as the rest of lint.
var misra = check{name: "cppcheck and MISRA", argv: []string{"sh", "crt/lint.sh"}, needs: []string{"cppcheck"}}

// runtimeFigures measures the runtime on an emulated Cortex-M3, and fails if a figure exceeds its committed ceiling.
// It is shown, so that the cost of each change is visible.
var runtimeFigures = check{
	name: "crt measure", argv: []string{"make", "-s", "-C", "crt", "measure"}, shown: true,
	needs: []string{"make", "arm-none-eabi-gcc", "qemu-system-arm"},
}

// cTests is the check that runs the C tests.
func cTests(ctx context.Context) check {
	c := check{name: "C tests, under ASan and UBSan", argv: []string{"make", "-C", "crt", "test"}}
	if found := toolbox.Probe(ctx, cmocka); !found.Installed {
		c.missing = found.Reason
	}
	return c
}

func (r *repository) lint(ctx context.Context) error {
	if err := r.setupForTests(ctx); err != nil {
		return err
	}
	if err := r.runChecks(ctx, lintChecks()...); err != nil {
		return err
	}
	return r.conclude()
}

// lintChecks are the checks of lint.
func lintChecks() []check {
	all := []check{
		{name: "cppcheck", argv: []string{"sh", "crt/lint.sh", "brief"}, needs: []string{"cppcheck"}},
		{name: "the runtime by every compiler", argv: []string{"make", "-C", "crt", "compilers"}, needs: []string{"gcc"}},
		{name: "vet of the magefile", argv: []string{"go", "vet", "-tags=mage", "."}},
		{name: "vet of the tools", argv: []string{"go", "vet", "-C", "tools", "./..."}},
		{name: "staticcheck", argv: goTool("staticcheck", "./...")},
		{name: "gofumpt", argv: goTool("gofumpt", "-l", "."), silent: true},
		{name: "unreachable functions", argv: []string{"sh", "tools/unreachable.sh"}, silent: true, needs: []string{"sh"}},
		{name: "length of lines", argv: []string{"sh", "tools/columns.sh", "."}, silent: true, needs: []string{"sh"}},
		{name: "layout of the C", argv: []string{"make", "-C", "crt", "layout"}, needs: []string{"clang-format"}},
	}
	for _, system := range []string{"linux", "windows", "darwin"} {
		all = append(all, check{
			name: "vet for " + system, argv: []string{"go", "vet", "./..."},
			env: []string{"GOOS=" + system, "CGO_ENABLED=0"},
		})
	}
	return all
}

// fuzzing runs each fuzz target of Go and C once, for the given time. Its ledger is not that of docs.
func fuzzing(fuzzTime time.Duration) check {
	return check{
		name: fmt.Sprintf("fuzz targets for %v each", fuzzTime), needs: []string{"sh", "timeout"},
		argv: []string{"sh", "tools/fuzz.sh", fmt.Sprintf("%.0f", fuzzTime.Seconds()), `^crt\.|\.Fuzz`},
		env:  []string{"LEDGER=build/fuzzing.tsv"},
	}
}

// otherSystems are the checks on other systems, with a folder for Wine.
func otherSystems(dir string) []check {
	// Wine handles locked files and links differently from Windows, so the tests of these check boardsmith's actions, not
	// their effect. Debian does not put the loader of 64-bit programs on PATH.
	wine, err := exec.LookPath("wine64")
	if err != nil {
		wine = "/usr/lib/wine/wine64"
	}
	all := []check{{
		name: "Go tests as Windows programs, under Wine", needs: []string{wine},
		env: []string{"GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0", "WINEPREFIX=" + dir, "WINEDEBUG=-all"},
		argv: []string{
			"go", "test", "-short", "-count=1", "-exec=" + wine, "./boards", "./cache", "./examples/samples", "./executor",
			"./failure", "./flasher", "./device/internal/faultimage", "./internal/framing", "./internal/paramblob",
			"./internal/tvmrpc", "./internal/operatormemory", "./mlf", "./ndarray", "./rpc", "./rpc/fault", "./transport",
		},
	}}

	// A bare Debian gets the last commit, and tries the tools of each kind of board.
	noSystem := ""
	if os.Geteuid() != 0 {
		noSystem = "only root makes systems"
	}
	for _, release := range []string{"bookworm", "trixie"} {
		all = append(all, check{
			name: "Debian " + release, needs: []string{"debootstrap", "unshare", "git"}, missing: noSystem,
			argv: []string{
				"sh", "tools/debian.sh", release, "go tool mage demo", "go tool mage setup",
				"BOARD=lm3s6965evb go tool mage build flash run", "BOARD=qemu_riscv32 go tool mage build flash run",
				"make -C crt measure",
			},
		})
	}
	return all
}
