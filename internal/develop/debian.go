// This file tests boardsmith on releases of Debian, each in a bare system made by debootstrap.

package develop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// debians are the releases that boardsmith is tested on, by their names in the archive.
var debians = []struct{ release, name string }{{"bookworm", "Debian 12"}, {"trixie", "Debian 13"}}

// debianLimit is the time to make one system, to install the tools, and to run the whole test in it.
const debianLimit = testLimit + 30*time.Minute

// errSlow is the cause of a context whose system has exceeded its time limit. The stopped check has failed; the next
// system is tested.
var errSlow = errors.New("the tests of one system took too long")

// withSystemLimit limits the tests of one system.
func withSystemLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: more than %v", errSlow, limit))
}

// stoppedFromOutside returns why all tests must end, or nil if they continue, as after the time limit of one system.
func stoppedFromOutside(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, errSlow) {
		return cause
	}
	return nil
}

// A systemReport is the results of one system, for the report.
type systemReport struct {
	name    string
	results map[string]string // by check
	tools   map[string]string // versions; nil: unknown
}

// A systemCheck is a command that must succeed in the repository of a system.
type systemCheck struct{ name, command string }

const (
	demoCheck  = "go tool mage demo"
	wholeCheck = "go tool mage test"
)

// wholeChecks are README's two commands. briefChecks try the tools of each kind of board instead of everything.
var (
	wholeChecks = []systemCheck{{demoCheck, demoCheck}, {wholeCheck, wholeCheck}}
	briefChecks = []systemCheck{
		{demoCheck, demoCheck},
		{"go tool mage setup", "go tool mage setup"},
		{"sample on lm3s6965evb", "BOARD=lm3s6965evb go tool mage build flash run"},
		{"sample on qemu_riscv32", "BOARD=qemu_riscv32 go tool mage build flash run"},
		{"make -C crt measure", "make -C crt measure"},
	}
)

// testDebian runs README's commands on each release, or on the one that RELEASE names.
func (r *repository) testDebian(ctx context.Context) error {
	if err := r.canMakeSystems(); err != nil {
		return err
	}
	var t tally
	if err := r.tryDebians(ctx, &t, r.Env("RELEASE"), wholeChecks); err != nil {
		return err
	}
	return r.conclude(&t)
}

// briefDebians tests the releases briefly, as part of test:full.
func (r *repository) briefDebians(ctx context.Context, t *tally) error {
	if err := r.canMakeSystems(); err != nil {
		r.skip(t, "other releases of Debian", err.Error())
		return nil
	}
	return r.tryDebians(ctx, t, "", briefChecks)
}

// canMakeSystems returns an error if no system can be made here.
func (r *repository) canMakeSystems() error {
	switch {
	case runtime.GOOS != "linux":
		return failure.New(failure.Config, "", "test:debian needs Linux")
	case os.Geteuid() != 0:
		return failure.New(failure.Config, `sudo env PATH="$PATH" `+failure.Target("test:debian"),
			"test:debian needs root: it makes systems with mounts of their own")
	}
	for _, tool := range []string{"debootstrap", "unshare", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			how := failure.Target("setup") + ", or: apt-get install " + tool
			return failure.New(failure.ToolMissing, how, "%s is not on PATH", tool)
		}
	}
	return nil
}

// tryDebians tests the releases one after the other, or only the one that is named. It returns an error only if no
// release can be tested or the user stopped it.
func (r *repository) tryDebians(ctx context.Context, t *tally, only string, checks []systemCheck) error {
	tried := false
	for _, d := range debians {
		if only != "" && only != d.release {
			continue
		}
		tried = true
		if err := r.tryDebian(ctx, t, d.release, d.name, checks); err != nil {
			return err
		}
	}
	if !tried {
		return failure.New(failure.Config, "", "RELEASE=%s is none that boardsmith is tested on", only)
	}
	return nil
}

func (r *repository) tryDebian(ctx context.Context, t *tally, release, name string, checks []systemCheck) error {
	ctx, cancel := withSystemLimit(ctx, debianLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "boardsmith-"+release+"-")
	if err != nil {
		return err
	}
	defer removeSystem(ctx, dir)
	start := time.Now()
	p := r.Start("making a "+name, 0)
	sys, err := r.makeSystem(ctx, release, name, dir)
	p.End()
	if err := stoppedFromOutside(ctx); err != nil {
		return err
	}
	if err != nil {
		r.fail(t, name, err.Error())
		return nil
	}
	r.pass(t, name+": made", time.Since(start))
	return r.checkSystem(ctx, t, sys, checks)
}

// checkSystem runs the checks in a system. Checks that did not run before its time limit fail.
func (r *repository) checkSystem(ctx context.Context, t *tally, sys *system, checks []systemCheck) error {
	report := systemReport{name: sys.name, results: map[string]string{}}
	for _, c := range checks {
		if err := r.trySystem(ctx, t, sys, c, &report); err != nil {
			return err
		}
	}
	report.tools = r.toolsOf(ctx, sys)
	t.systems = append(t.systems, report)
	return nil
}

var countsRE = regexp.MustCompile(`^\d+ passed, \d+ failed, \d+ skipped$`)

// trySystem runs one check in the system and shows what it prints.
func (r *repository) trySystem(ctx context.Context, t *tally, sys *system, c systemCheck, report *systemReport) error {
	start, counts := time.Now(), ""
	err := sys.run(ctx, c.command, func(line string) {
		if countsRE.MatchString(line) {
			counts = ": " + line
		}
		r.Printf("%s: %s", sys.name, line)
	})
	if err := stoppedFromOutside(ctx); err != nil {
		return err
	}
	name := sys.name + ": " + c.name + counts
	if err != nil {
		report.results[c.name] = "FAILED" + counts
		r.fail(t, name, err.Error())
		return nil
	}
	report.results[c.name] = fmt.Sprintf("%.0f s%s", time.Since(start).Seconds(), counts)
	r.pass(t, name, time.Since(start))
	return nil
}

// toolsOf returns the versions of the system's tools, or nil after its time limit.
func (r *repository) toolsOf(ctx context.Context, sys *system) map[string]string {
	versions := map[string]string{}
	_ = sys.run(ctx, "JSON=1 go tool mage doctor", func(line string) { // it fails if a tool is missing
		var r struct{ Tool, Version string }
		if json.Unmarshal([]byte(line), &r) == nil && r.Tool != "" {
			versions[r.Tool] = r.Version
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return versions
}
