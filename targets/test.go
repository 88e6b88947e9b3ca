// This file is the long check of everything.

package targets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/drawn"
	"github.com/moby/sys/atomicwriter"
)

// testLimit and fullLimit end a run that hangs; good ones take 9 and 40 minutes on two cores. One of test:soak has none.
const (
	testLimit = 45 * time.Minute
	fullLimit = 120 * time.Minute
)

// fuzzTimes are how long each fuzz target runs where FUZZTIME does not say it.
var fuzzTimes = map[string]string{drawn.Full: "15s", drawn.Soak: "10m"}

func (s *session) test(ctx context.Context) error {
	var t tally
	if err := s.testAll(ctx, &t, ""); err != nil {
		return err
	}
	return s.conclude(&t)
}

func (s *session) testSoak(ctx context.Context) error {
	var t tally
	if err := s.testAll(ctx, &t, drawn.Soak); err != nil {
		return err
	}
	return s.conclude(&t)
}

func (s *session) testFull(ctx context.Context) error {
	var t tally
	start, commit := time.Now(), s.commit(ctx) // before the tests, which write a page of docs
	if err := s.testAll(ctx, &t, drawn.Full); err != nil {
		return err
	}
	switch {
	case !s.inBoardsmith():
	case t.failed > 0:
		s.out.notef("%s is not written: it is a report of runs without a failure", reportFile)
	case !isClean(commit):
		s.out.notef("%s is not written: the tree was not a commit's, but %s", reportFile, commit)
	default:
		if err := s.writeReport(ctx, &t, commit, time.Since(start)); err != nil {
			return err
		}
	}
	return s.conclude(&t)
}

// testAll runs every check into t. A level of package drawn adds what takes long.
func (s *session) testAll(ctx context.Context, t *tally, level string) error {
	each := "-timeout=0" // of one package
	if limit := map[string]time.Duration{"": testLimit, drawn.Full: fullLimit}[level]; limit > 0 {
		each = fmt.Sprintf("-timeout=%v", limit-time.Minute)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the tests took longer than %v", limit))
		defer cancel()
	}
	seed, err := s.testSeed()
	if err != nil {
		return err
	}
	env := []string{"SEED=" + seed, drawn.Variable + "=" + level}
	steps := []func(context.Context, *tally) error{
		func(ctx context.Context, t *tally) error { return s.runChecks(ctx, s.lintChecks(), t) },
		func(ctx context.Context, t *tally) error {
			raceEnv, race := s.raceDetector()
			args := append(race, "-count=1", "-vet=off", each, // lint has vetted them
				"-shuffle="+seed, "./...")
			return s.goTest(ctx, t, append(raceEnv, env...), args...)
		},
	}
	if s.inBoardsmith() {
		if err := s.setupForTests(ctx); err != nil {
			return err
		}
		steps = append(steps, func(ctx context.Context, t *tally) error { return s.cTests(ctx, t, env) }, s.testRuntimeFigures)
	}
	if level != "" {
		steps = append(steps, func(ctx context.Context, t *tally) error { return s.fuzz(ctx, t, fuzzTimes[level]) })
	}
	if level != "" && s.inBoardsmith() {
		steps = append(steps, s.windowsTests, s.briefDebians)
	}
	for _, step := range steps {
		if err := step(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// testSeed decides the order of the Go tests, which must not matter, and what they draw. It is the same in every run
// unless SEED names another one, or "random"; it is printed so that a run can be repeated.
func (s *session) testSeed() (string, error) {
	seed := first(s.env("SEED"), "1")
	if seed == "random" {
		seed = fmt.Sprint(rand.Uint32())
	}
	if _, err := strconv.ParseUint(seed, 10, 63); err != nil {
		return "", failure.New(failure.Config, `SEED=random draws one`, "SEED=%s is not a number", seed)
	}
	s.out.printf("what the tests draw, their order too, is drawn by SEED=%s", seed)
	return seed, nil
}

// fuzz runs every fuzz target for FUZZTIME, or as long as usual. Each is one check.
func (s *session) fuzz(ctx context.Context, t *tally, usual string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-list=^Fuzz", "./...")
	cmd.Dir, cmd.Env = s.dir, toolEnv()
	said, err := cmd.CombinedOutput()
	if err != nil {
		s.fail(t, "list of fuzz targets", fmt.Sprintf("%s%v", said, err))
		return ctx.Err()
	}
	fuzzTime := first(s.env("FUZZTIME"), usual)
	checks := fuzzChecks(string(said), fuzzTime)
	if s.inBoardsmith() {
		c, err := cFuzzCheck(fuzzTime)
		if err != nil {
			return err
		}
		checks = append(checks, c)
	}
	for _, c := range checks {
		if err := s.runChecks(ctx, []check{c}, t); err != nil {
			return err
		}
	}
	return nil
}

// fuzzChecks reads what go test -list prints: the names of a package's targets, then "ok" and the package.
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
				all = append(all, check{name: short(words[1]) + "." + n + " for " + fuzzTime, argv: []string{
					"go", "test", "-run=^$", "-fuzz=^" + n + "$", "-fuzztime=" + fuzzTime, "-fuzzminimizetime=20x", words[1],
				}})
			}
			names = nil
		}
	}
	return all
}

// cFuzzCheck is the RPC server in C under libFuzzer.
func cFuzzCheck(fuzzTime string) (check, error) {
	d, err := time.ParseDuration(fuzzTime)
	if err != nil {
		return check{}, failure.New(failure.Config, "", "FUZZTIME=%s: %w", fuzzTime, err)
	}
	return check{
		name: "crt.fuzz_server for " + fuzzTime, needs: "clang",
		argv: []string{"make", "-C", "crt", "fuzz", fmt.Sprintf("FUZZTIME=%d", int(d.Seconds()))},
	}, nil
}

// setupForTests installs what is missing where that needs no question; else the tests that need it are skipped, and
// say so.
func (s *session) setupForTests(ctx context.Context) error {
	err := s.setup(ctx)
	if failure.Of(err) != failure.ToolMissing || ctx.Err() != nil {
		return err
	}
	s.out.notef("%v", err)
	s.out.notef("hint: %s; what needs it is skipped now", failure.Next(err))
	return nil
}

// raceDetector returns the environment and the flag with which boardsmith's own tests run under the race detector: most of
// their time is that of compilers and emulators, which it does not slow down. It needs a C compiler.
func (s *session) raceDetector() (env, args []string) {
	if !s.inBoardsmith() {
		return nil, nil
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		s.out.notef("the tests run without the race detector: gcc is not installed")
		return nil, nil
	}
	return []string{"CGO_ENABLED=1"}, []string{"-race"}
}

func (s *session) cTests(ctx context.Context, t *tally, env []string) error {
	if found := probe(ctx, cmocka); !found.here {
		s.skip(t, "crt", found.why)
		return ctx.Err()
	}
	return s.cTest(ctx, t, env, "make", "-C", "crt", "test")
}

// reportFile is what a full run leaves, to be committed.
const reportFile = "docs/report/README.md"

func (s *session) writeReport(ctx context.Context, t *tally, commit string, spent time.Duration) error {
	bench, err := s.measure(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Report of a full test run\n\nWritten by `go tool mage test:full`; nothing in it is edited by hand.\n\n")
	fmt.Fprintf(&b, "| | |\n|---|---|\n| commit | %s |\n| day | %s |\n| system | %s, %s/%s, %d cores |\n| took | %.0f s |\n| result | **%d passed, 0 failed, %d skipped** |\n\n",
		commit, time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		spent.Seconds(), t.passed, t.skipped)
	fmt.Fprintf(&b, "## Tests\n\n```\n%s\n```\n\n", strings.Join(t.sections, "\n"))
	var skips []string
	for _, name := range t.order {
		skips = append(skips, name+": "+t.skips[name])
	}
	writeList(&b, "Skipped", skips)
	fmt.Fprintf(&b, "## Speed\n\n```\n%s```\n\n## Tools\n\n```\n", bench)
	all, err := look(ctx)
	if err != nil {
		return err
	}
	for _, f := range all {
		fmt.Fprintf(&b, "%-14s %s\n", f.name, first(f.version, f.why))
	}
	b.WriteString("```\n")
	writeSystems(&b, t.systems, all)
	file := s.rel(filepath.FromSlash(reportFile))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := atomicwriter.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return err
	}
	s.out.printf("wrote %s", reportFile)
	return nil
}

func writeList(b *strings.Builder, title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "## %s\n\n", title)
	for _, i := range items {
		fmt.Fprintf(b, "* %s\n", i)
	}
	b.WriteString("\n")
}

// writeSystems writes a table with a column for each other system: its tools, and what became of each check.
func writeSystems(b *strings.Builder, systems []systemReport, tools []finding) {
	if len(systems) == 0 {
		return
	}
	row := func(name string, cell func(systemReport) string) {
		fmt.Fprintf(b, "| %s |", name)
		for _, sys := range systems {
			fmt.Fprintf(b, " %s |", strings.ReplaceAll(cell(sys), "|", `\|`))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## Other systems\n\nEach was made bare, by debootstrap; Go was all that it was given.\n\n")
	row("", func(sys systemReport) string { return sys.name })
	row("---", func(systemReport) string { return "---" })
	for _, c := range briefChecks {
		row("`"+c.name+"`", func(sys systemReport) string { return sys.results[c.name] })
	}
	for _, f := range tools {
		row(f.name, func(sys systemReport) string { return first(sys.tools[f.name], sys.absent()) })
	}
}

// absent is what to say of a tool without a version.
func (r systemReport) absent() string {
	if r.tools == nil {
		return "not asked"
	}
	return "missing"
}

// isClean says whether commit's answer names a commit and nothing that differs from it.
func isClean(commit string) bool {
	return !strings.HasSuffix(commit, "-dirty") && !strings.Contains(commit, " ")
}

// commit is the checked-out commit, marked if files differ from it, files that git does not know among them.
func (s *session) commit(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12")
	cmd.Dir = s.dir
	said, err := cmd.Output()
	if err != nil {
		return "not known (" + err.Error() + ")"
	}
	commit := strings.TrimSpace(string(said))
	status := exec.CommandContext(ctx, "git", "status", "--porcelain")
	status.Dir = s.dir
	if said, err := status.Output(); (err != nil || len(said) > 0) && isClean(commit) {
		commit += "-dirty"
	}
	return commit
}
