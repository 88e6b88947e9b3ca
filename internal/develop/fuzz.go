// This file runs the fuzz targets.

package develop

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/console"
)

// fuzz runs every fuzz target for FUZZTIME, or for its default time. Each target is one check.
func (r *repository) fuzz(ctx context.Context, t *tally, usual string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-list=^Fuzz", "./...")
	cmd.Dir, cmd.Env = r.Dir, console.ToolEnv()
	printed, err := cmd.CombinedOutput()
	if err != nil {
		r.fail(t, "list of fuzz targets", fmt.Sprintf("%s%v", printed, err))
		return ctx.Err()
	}
	fuzzTime := cmp.Or(r.Env("FUZZTIME"), usual)
	c, err := cFuzzCheck(fuzzTime)
	if err != nil {
		return err
	}
	for _, c := range append(fuzzChecks(string(printed), fuzzTime), c) {
		if err := r.runChecks(ctx, []check{c}, t); err != nil {
			return err
		}
	}
	return nil
}

// fuzzChecks reads the output of go test -list: the names of a package's targets, then "ok" and the package.
func fuzzChecks(list, fuzzTime string) []check {
	var all []check
	var names []string
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		switch {
		case len(words) == 1 && strings.HasPrefix(words[0], "Fuzz"):
			names = append(names, words[0])
		case len(words) > 1 && words[0] == "ok":
			for _, n := range names {
				all = append(all, check{name: short(words[1]) + "." + n + " for " + fuzzTime, ignore: foundNothing, argv: []string{
					"go", "test", "-run=^$", "-fuzz=^" + n + "$", "-fuzztime=" + fuzzTime, "-fuzzminimizetime=20x", words[1],
				}})
			}
			names = nil
		}
	}
	return all
}

var fuzzTimeOver = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \(\d+\.\d+s\)\n    context deadline exceeded\nFAIL$`)

// foundNothing reports whether fuzzing ended only because its time was over, which Go 1.26 sometimes reports as a
// failure (golang/go#75804).
func foundNothing(output string) bool {
	return fuzzTimeOver.MatchString(output) && !strings.Contains(output, "Failing input written to")
}

// cFuzzCheck fuzzes the RPC server in C with libFuzzer.
func cFuzzCheck(fuzzTime string) (check, error) {
	d, err := time.ParseDuration(fuzzTime)
	if err != nil {
		return check{}, failure.Errorf(failure.Config, "FUZZTIME=%s: %w", fuzzTime, err)
	}
	return check{
		name: "crt.fuzz_server for " + fuzzTime, needs: "clang",
		argv: []string{"make", "-C", "crt", "fuzz", fmt.Sprintf("FUZZTIME=%d", int(d.Seconds()))},
	}, nil
}
