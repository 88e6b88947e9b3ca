// This file tests boardsmith on releases of Debian, each in a bare system that tools/debian.sh makes.

package develop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// debians are the releases that boardsmith is tested on, by their names in the archive.
var debians = []string{"bookworm", "trixie"}

// debianLimit is the time to make one system, to install the tools, and to run the whole test in it.
const debianLimit = testLimit + 30*time.Minute

// wholeChecks are README's two commands. briefChecks try the tools of each kind of board instead of everything.
var (
	wholeChecks = []string{"go tool mage demo", "go tool mage test"}
	briefChecks = []string{
		"go tool mage demo",
		"go tool mage setup",
		"BOARD=lm3s6965evb go tool mage build flash run",
		"BOARD=qemu_riscv32 go tool mage build flash run",
		"make -C crt measure",
		versionsCheck,
	}
)

// versionsCheck is the command whose output is in the report.
const versionsCheck = "go tool mage doctor"

// testDebian runs README's commands on each release, or on the one that RELEASE names.
func (r *repository) testDebian(ctx context.Context) error {
	releases := debians
	if only := r.Env("RELEASE"); only != "" {
		if releases = []string{only}; !slices.Contains(debians, only) {
			return failure.Errorf(failure.Config, "RELEASE=%s is none that boardsmith is tested on", only)
		}
	}
	if err := canMakeSystems(); err != nil {
		return err
	}
	var t tally
	for _, release := range releases {
		if err := r.tryDebian(ctx, &t, release, wholeChecks); err != nil {
			return err
		}
	}
	return r.conclude(&t)
}

// briefDebians tests the releases briefly, as part of test:full.
func (r *repository) briefDebians(ctx context.Context, t *tally) error {
	if err := canMakeSystems(); err != nil {
		r.skip(t, "other releases of Debian", err.Error())
		return nil
	}
	for _, release := range debians {
		if err := r.tryDebian(ctx, t, release, briefChecks); err != nil {
			return err
		}
	}
	return nil
}

// canMakeSystems returns an error if no system can be made here.
func canMakeSystems() error {
	switch {
	case runtime.GOOS != "linux":
		return failure.Errorf(failure.Config, "test:debian needs Linux")
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

var resultRE = regexp.MustCompile(`^debian: (.+): (ok|status \d+), (\d+) s$`)

// tryDebian runs the checks in a system and shows what they print. It returns an error only if the user stopped it.
func (r *repository) tryDebian(ctx context.Context, t *tally, release string, checks []string) error {
	if !isClean(r.commit(ctx)) {
		r.Notef("note: %s gets the last commit, without what was changed since", release)
	}
	limit := fmt.Sprintf("%.0f", debianLimit.Seconds())
	argv := []string{"timeout", "--foreground", "--kill-after=30", limit, "sh", "tools/debian.sh", release}
	var printed []string
	return r.tests(ctx, t, "Debian "+release, append(argv, checks...), nil, func(line string) {
		r.Printf("%s: %s", release, line)
		m := resultRE.FindStringSubmatch(line)
		if m == nil {
			printed = append(printed, line)
			return
		}
		name := release + ": " + m[1]
		if m[1] == versionsCheck {
			t.systems = append(t.systems, name+"\n"+strings.Join(printed, "\n"))
		}
		printed = nil
		if m[2] != "ok" {
			r.fail(t, name, m[2])
			return
		}
		seconds, _ := strconv.Atoi(m[3])
		r.pass(t, name, time.Duration(seconds)*time.Second)
	})
}
