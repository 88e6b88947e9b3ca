// This file runs test programs and counts their results: those of go test from its JSON, those of cmocka from its
// lines.

package develop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/console"
)

// A testEvent is one line of go test -json.
type testEvent struct {
	Action     string
	Package    string
	ImportPath string // set in events of a build
	Test       string
	Output     string
	Elapsed    float64
}

// A goTests reads the events of one go test run into a tally.
type goTests struct {
	r      *repository
	t      *tally
	output map[string][]string // by package and test, until the test ends
	counts map[string]int      // tests by package
	broken map[string]bool     // packages, and tests by package and name, that contain a failed test
}

func newGoTests(r *repository, t *tally) *goTests {
	return &goTests{r: r, t: t, output: map[string][]string{}, counts: map[string]int{}, broken: map[string]bool{}}
}

// maxKept is the maximum number of output lines kept for each test.
const maxKept = 400

// event counts one event.
func (g *goTests) event(e testEvent) {
	pkg := e.Package
	if pkg == "" {
		pkg = e.ImportPath
	}
	key := pkg + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if len(g.output[key]) < maxKept {
			g.output[key] = append(g.output[key], e.Output)
		}
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	if e.Test == "" {
		g.packageEnd(e, key)
	} else {
		g.testEnd(e, key)
	}
	delete(g.output, key)
}

func (g *goTests) testEnd(e testEvent, key string) {
	g.counts[e.Package]++
	name := short(e.Package) + "." + e.Test
	if !strings.Contains(e.Test, "/") {
		g.t.times = append(g.t.times, testTime{name, e.Elapsed})
	}
	switch e.Action {
	case "pass":
		g.t.passed++
	case "skip":
		g.r.skip(g.t, name, skipReason(g.output[key]))
	case "fail":
		counted := g.broken[key] // it failed because a subtest failed
		g.broken[e.Package], g.broken[e.Package+" "+path.Dir(e.Test)] = true, true
		if counted {
			return
		}
		g.r.fail(g.t, name, strings.Join(g.output[key], ""))
	}
}

// packageEnd prints the result of a package. A package that failed without a failed test did not build, or crashed.
func (g *goTests) packageEnd(e testEvent, key string) {
	name := short(e.Package)
	if e.Action == "fail" && !g.broken[e.Package] {
		printed := g.output[key]
		for k, lines := range g.output { // the output of the build, and of tests that did not end
			if strings.HasPrefix(k, e.Package+" ") && k != key || strings.HasPrefix(k, e.Package+".test") {
				printed = append(printed, lines...)
			}
		}
		g.r.fail(g.t, name, strings.Join(printed, ""))
		return
	}
	if g.counts[e.Package] > 0 {
		line := fmt.Sprintf("%-48s %4d tests %6.1f s", name, g.counts[e.Package], e.Elapsed)
		g.r.Printf("%-7s %s", verdict(e.Action != "fail"), line)
		g.t.sections = append(g.t.sections, line)
	}
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

// short returns a package's path within its module.
func short(pkg string) string {
	if rest, ok := strings.CutPrefix(pkg, "github.com/boardsmith/boardsmith/"); ok {
		return rest
	}
	return pkg
}

// goTest runs go test with these arguments and counts its tests into t.
func (r *repository) goTest(ctx context.Context, t *tally, env []string, args ...string) error {
	return r.goTestEvents(ctx, t, env, func(testEvent) {}, args...)
}

// goTestEvents is goTest for a caller that reads the events, too.
func (r *repository) goTestEvents(
	ctx context.Context, t *tally, env []string, each func(testEvent), args ...string,
) error {
	g := newGoTests(r, t)
	argv := append([]string{"go", "test", "-json"}, args...)
	return r.tests(ctx, t, strings.Join(argv, " "), argv, env, func(line string) {
		var e testEvent
		if json.Unmarshal([]byte(line), &e) != nil {
			fmt.Fprintln(r.Console, line) // a line of go itself
			return
		}
		each(e)
		g.event(e)
	})
}

// A cmockaTests reads the output of programs that use cmocka.
type cmockaTests struct {
	r       *repository
	t       *tally
	running string   // the test that is running
	printed []string // lines since its start
	count   int
}

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
