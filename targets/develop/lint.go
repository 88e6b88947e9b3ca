// This file lists the checks besides those of Go's tests.

package develop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
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

// fuzzChecks returns a check for each fuzz target, for the given time: those of go test -list, which prints the names
// of a package's targets, then "ok" and the package, and the RPC server in C with libFuzzer.
func (r *repository) fuzzChecks(ctx context.Context, fuzzTime string) ([]check, error) {
	d, err := time.ParseDuration(fuzzTime)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "FUZZTIME=%s: %w", fuzzTime, err)
	}
	list := check{name: "list of fuzz targets", argv: []string{"go", "test", "-list=^Fuzz", "./..."}}
	printed, err := r.runCheck(ctx, list, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", list.typed(), err, printed)
	}

	all := []check{{
		name: "crt.fuzz_server for " + fuzzTime, needs: []string{"clang"},
		argv: []string{"make", "-C", "crt", "fuzz", fmt.Sprintf("FUZZTIME=%.0f", d.Seconds())},
	}}
	var names []string
	for line := range strings.Lines(printed) {
		words := strings.Fields(line)
		switch {
		case len(words) == 1 && strings.HasPrefix(line, "Fuzz"):
			names = append(names, words[0])
		case len(words) > 1 && words[0] == "ok":
			for _, n := range names {
				all = append(all, check{
					name: short(words[1]) + "." + n + " for " + fuzzTime, ignore: foundNothing,
					argv: []string{
						"go", "test", "-run=^$", "-fuzz=^" + n + "$", "-fuzztime=" + fuzzTime, "-fuzzminimizetime=20x",
						"-parallel=1", words[1],
					},
				})
			}
			names = nil
		}
	}
	return all, nil
}

var fuzzTimeOver = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \(\d+\.\d+s\)\n    context deadline exceeded\nFAIL$`)

// foundNothing reports whether fuzzing ended only because its time was over, which Go 1.26 sometimes reports as a
// failure (golang/go#75804).
func foundNothing(output string) bool {
	return fuzzTimeOver.MatchString(output) && !strings.Contains(output, "Failing input written to")
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
