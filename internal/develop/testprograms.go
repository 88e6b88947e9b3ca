// This file runs test programs and counts their results: those of go test as gotestsum prints them, those of cmocka
// from its lines.

package develop

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/command"
)

// A goTests reads what gotestsum prints: while the tests run, a line for each package and the output of failed tests;
// then a summary of the skipped and the failed tests, each with its output, and the number of tests.
type goTests struct {
	r           *repository
	t           *tally
	state, name string   // of the entry of the summary that is being read: SKIP or FAIL; "" outside of entries
	isTest      bool     // the entry is a test, not a package
	printed     []string // its output
	failed      []string // names of entries of failed tests, and of tests that contain one
	others      int      // tests that did not pass
}

var (
	entryRE   = regexp.MustCompile(`^=== (SKIP|FAIL): (\S+) (\S*) \(.*\)$`)
	sectionRE = regexp.MustCompile(`^(?:=== (?:Skipped|Failed|Errors)|DONE (\d+) tests.*)$`)
	packageRE = regexp.MustCompile(`^(?:PASS|FAIL)  \S+ \(\S+\)`)
)

// line reads one line.
func (g *goTests) line(text string) {
	if m := entryRE.FindStringSubmatch(text); m != nil {
		g.entryEnd()
		g.state, g.name, g.isTest = m[1], strings.TrimSuffix(m[2]+"."+m[3], "."), m[3] != ""
		if g.isTest {
			g.others++
		}
		return
	}
	m := sectionRE.FindStringSubmatch(text)
	switch {
	case m != nil:
		g.entryEnd()
		if m[1] != "" {
			total, _ := strconv.Atoi(m[1])
			g.t.passed += total - g.others
		}
	case g.state != "":
		g.printed = append(g.printed, text)
	default:
		fmt.Fprintln(g.r.Console, text)
		if packageRE.MatchString(text) {
			g.t.sections = append(g.t.sections, text)
		}
	}
}

// entryEnd counts the entry that was read. The failure of a test that contains a failed test does not count.
func (g *goTests) entryEnd() {
	switch {
	case g.state == "SKIP":
		g.r.skip(g.t, g.name, skipReason(g.printed))
	case g.state == "FAIL" && !slices.Contains(g.failed, g.name):
		why := strings.Join(g.printed, "\n")
		g.r.failShown(g.t, g.name, why)
		if !g.isTest { // the output of a test was shown when it ended
			fmt.Fprintln(g.r.Console, why)
		}
	}
	if g.state == "FAIL" {
		g.failed = append(g.failed, g.name, path.Dir(g.name))
	}
	g.state, g.printed = "", nil
}

func verdict(good bool) string {
	if good {
		return "ok"
	}
	return "FAILED"
}

// logRE matches the first line that a test logs: its file and line. Further lines are indented deeper.
var logRE = regexp.MustCompile(`^ {4}(\S+\.go):\d+: `)

// transcriptFile is the source file in which testscript logs what a script did, after the reason why it was skipped.
const transcriptFile = "testscript.go"

// skipReason returns the argument of t.Skip: the first line of the last log entry, or of the one before a script's
// transcript.
func skipReason(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if m := logRE.FindStringSubmatch(line); m != nil && m[1] != transcriptFile {
			return cmp.Or(strings.TrimSpace(strings.TrimPrefix(line, m[0])), "no reason given")
		}
	}
	return "no reason given"
}

// gotestsum returns the command that runs gotestsum, at the version of tools/go.mod.
func gotestsum(args ...string) []string {
	return append([]string{"go", "tool", "-modfile=tools/go.mod", "gotestsum"}, args...)
}

// goTest runs go test with these arguments and counts its tests into t.
func (r *repository) goTest(ctx context.Context, t *tally, env []string, args ...string) error {
	return r.goTestLines(ctx, t, env, "pkgname-and-test-fails", func(string) {}, args...)
}

// goTestLines is goTest with a format of gotestsum for what is printed while the tests run, for a caller that reads
// these lines, too.
func (r *repository) goTestLines(
	ctx context.Context, t *tally, env []string, format string, each func(string), args ...string,
) error {
	dir, err := os.MkdirTemp("", "boardsmith-gotestsum-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	times := filepath.Join(dir, "times.json")
	argv := gotestsum("--format="+format, "--format-icons=text", "--format-hide-empty-pkg",
		"--jsonfile-timing-events="+times, "--")
	g := &goTests{r: r, t: t}
	err = r.tests(ctx, t, goTestTitle(args), append(argv, args...), env, func(line string) {
		each(line)
		g.line(line)
	})
	if err != nil {
		return err
	}
	list := check{argv: gotestsum("tool", "slowest", "--num=100000", "--jsonfile="+times)}
	printed, err := r.runCheck(ctx, list)
	if err != nil {
		r.Notef("the slowest tests are not listed: %s: %v", list.typed(), err)
		return ctx.Err()
	}
	t.addSlowest(slowest(printed))
	return nil
}

// goTestTitle returns the command without most of the packages of a long list.
func goTestTitle(args []string) string {
	const shown = 9 // flags and the first packages
	if len(args) > shown {
		args = append(args[:shown:shown], "…")
	}
	return "go test " + strings.Join(args, " ")
}

// slowestKept is the number of tests that the report lists.
const slowestKept = 40

// slowest returns the tests that gotestsum lists, without those that contain others: their time has waits for the turn
// of parallel tests.
func slowest(list string) (tests []slowTest) {
	contain := map[string]bool{}
	var all [][]string // package, test, time
	for line := range strings.Lines(list) {
		if words := strings.Fields(line); len(words) == 3 {
			all = append(all, words)
			contain[words[0]+" "+path.Dir(words[1])] = true
		}
	}
	for _, words := range all {
		if d, err := time.ParseDuration(words[2]); err == nil && !contain[words[0]+" "+words[1]] {
			tests = append(tests, slowTest{short(words[0]) + "." + words[1], d})
		}
	}
	return tests
}

// short returns a package's path within its module.
func short(pkg string) string { return strings.TrimPrefix(pkg, "github.com/boardsmith/boardsmith/") }

// A cmockaTests reads the output of programs that use cmocka.
type cmockaTests struct {
	r       *repository
	t       *tally
	running string   // the test that is running
	printed []string // lines since its start
	count   int
}

// maxKept is the maximum number of output lines kept for a test.
const maxKept = 400

var cmockaRE = regexp.MustCompile(`^\[\s*([A-Z]+)\s*\] (.*)$`)

// line reads one line. A failed test is named twice, when it ends and in a list; only the first counts.
func (c *cmockaTests) line(text string) {
	state, name := "", ""
	if m := cmockaRE.FindStringSubmatch(text); m != nil {
		state, name = m[1], "crt."+strings.TrimSpace(m[2])
	}
	switch {
	case state == "RUN":
		c.running, c.printed = name, nil
		return
	case name != c.running || name == "":
		if len(c.printed) < maxKept {
			c.printed = append(c.printed, text)
		}
		return
	}
	c.running = ""
	c.count++
	switch state {
	case "OK":
		c.t.passed++
	case "SKIPPED":
		c.r.skip(c.t, name, cmp.Or(lastOf(c.printed), "no reason given"))
	default:
		c.r.fail(c.t, name, strings.Join(c.printed, "\n"))
	}
}

func lastOf(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

// cTest runs a command that runs cmocka's test programs.
func (r *repository) cTest(ctx context.Context, t *tally, env []string, argv ...string) error {
	c := &cmockaTests{r: r, t: t}
	start, failed := time.Now(), t.failed
	var all []string
	err := r.tests(ctx, t, strings.Join(argv, " "), argv, append(env, "CMOCKA_MESSAGE_OUTPUT=STDOUT"), func(line string) {
		all = append(all, line)
		c.line(line)
	})
	if err != nil {
		return err
	}
	if c.running != "" {
		r.fail(t, c.running, "the test program ended in the middle of it\n"+strings.Join(c.printed, "\n"))
	}
	if c.count == 0 {
		r.fail(t, strings.Join(argv, " "), "no test ran\n"+strings.Join(all, "\n"))
	}
	line := fmt.Sprintf("%-48s %4d tests %6.1f s", "crt (C, under ASan and UBSan)", c.count, time.Since(start).Seconds())
	r.Printf("%-7s %s", verdict(t.failed == failed), line)
	t.sections = append(t.sections, line)
	return nil
}

// tests runs a test command and calls line with each line of its output. A command that fails without a failed test is
// a failure itself. It returns an error only if the user stopped it.
func (r *repository) tests(ctx context.Context, t *tally, name string, argv, env []string, line func(string)) error {
	program, err := exec.LookPath(argv[0])
	if err != nil {
		r.fail(t, name, err.Error())
		return nil
	}
	failed := t.failed
	p := r.Start(name, 0)
	defer p.End()
	nonempty := func(text string) {
		if text != "" {
			line(text)
		}
	}
	err = command.Command{
		Path: program, Args: argv[1:], Dir: r.Dir, Env: append(console.ToolEnv(), env...),
		Out: nonempty, Err: nonempty, Grace: 5 * time.Second,
	}.Run(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && t.failed == failed {
		r.fail(t, name, err.Error())
	}
	return nil
}
