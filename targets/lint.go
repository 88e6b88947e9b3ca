// This file checks sources without running them.

package targets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

// A check is a command that must succeed, in the working folder or one below it.
type check struct {
	name   string
	argv   []string
	env    []string // added to the environment
	silent bool     // any line of standard output is a failure too: the tool lists what is wrong and exits with 0
	needs  string   // a program without which the check is skipped; "" for none
}

// lintChecks are the checks of boardsmith's own repository; a user's gets those that need no tool but go.
func (s *session) lintChecks() []check {
	if !s.inBoardsmith() {
		return []check{
			{name: "vet", argv: []string{"go", "vet", "./..."}},
			{name: "gofmt", argv: []string{"gofmt", "-l", "."}, silent: true, needs: "gofmt"},
		}
	}
	all := []check{ // the longest one first
		{name: "cppcheck and MISRA", argv: []string{"make", "-C", "crt", "lint"}, needs: "cppcheck"},
	}
	for _, system := range []string{"linux", "darwin", "windows"} {
		all = append(all, check{
			name: "vet for " + system, argv: []string{"go", "vet", "./..."},
			env: []string{"GOOS=" + system, "CGO_ENABLED=0"},
		})
	}
	tool := func(name string, args ...string) []string {
		return append([]string{"go", "tool", "-modfile=tools/go.mod", name}, args...)
	}
	return append(all,
		check{name: "vet of the magefile", argv: []string{"go", "vet", "-tags=mage", "."}},
		check{name: "vet of the tools", argv: []string{"go", "vet", "-C", "tools", "./..."}},
		check{name: "staticcheck", argv: tool("staticcheck", "./...")},
		check{name: "gofumpt", argv: tool("gofumpt", "-l", "."), silent: true},
		check{name: "the runtime by every compiler", argv: []string{"make", "-C", "crt", "compilers"}, needs: "gcc"},
	)
}

func (s *session) lint(ctx context.Context) error {
	var t tally
	if err := s.runChecks(ctx, s.lintChecks(), &t); err != nil {
		return err
	}
	return s.conclude(&t)
}

// runChecks runs the checks into t, as many at once as there are processors, and prints each as it ends. It returns an error
// only if the user stopped it.
func (s *session) runChecks(ctx context.Context, checks []check, t *tally) error {
	checks = slices.DeleteFunc(checks, func(c check) bool {
		if c.needs == "" {
			return false
		}
		_, err := exec.LookPath(c.needs)
		if err != nil {
			s.skip(t, c.name, c.needs+" is not installed")
		}
		return err != nil
	})
	if len(checks) == 0 {
		return ctx.Err()
	}
	what, total := "checks", len(checks)
	if total == 1 {
		what, total = checks[0].name, 0 // not to be counted
	}
	p := s.out.lasts(what, total)
	defer p.end()
	type outcome struct {
		check
		said string
		err  error
		took time.Duration
	}
	next, ended := make(chan check, len(checks)), make(chan outcome)
	for _, c := range checks {
		next <- c
	}
	close(next)
	for range min(runtime.NumCPU(), len(checks)) {
		go func() {
			for c := range next {
				start := time.Now()
				said, err := s.runCheck(ctx, c)
				ended <- outcome{c, said, err, time.Since(start)}
			}
		}()
	}
	for range checks {
		o := <-ended
		p.add(1)
		switch {
		case ctx.Err() != nil: // what it says is that it was stopped
		case o.err != nil:
			s.fail(t, o.name, fmt.Sprintf("%s%v\nto repeat: %s", o.said, o.err, o.typed()))
		default:
			s.pass(t, o.name, o.took)
		}
	}
	return ctx.Err()
}

// runCheck runs one and returns what it said.
func (s *session) runCheck(ctx context.Context, c check) (said string, err error) {
	path, err := exec.LookPath(c.argv[0])
	if err != nil {
		return "", err
	}
	out, errs, err := command.Command{Path: path, Args: c.argv[1:], Dir: s.dir, Env: append(toolEnv(), c.env...)}.Capture(ctx)
	var ended *command.Error
	if errors.As(err, &ended) {
		err = ended.Err // what it printed is in said
	}
	if err == nil && c.silent && strings.TrimSpace(out) != "" { // on the other stream go may say what it downloads
		err = errors.New("the files above differ from what it would write")
	}
	return out + errs, err
}

// typed is the check as one would type it.
func (c check) typed() string {
	return strings.Join(append(c.env[:len(c.env):len(c.env)], c.argv...), " ")
}

// toolEnv is the environment without the inputs of this run: the tests choose their own.
func toolEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !isInput[name] && !strings.HasPrefix(name, "MAGEFILE_") {
			env = append(env, v)
		}
	}
	return env
}

// isInput are the variables that the targets read.
var isInput = map[string]bool{
	"BOARD": true, "MODEL": true, "PROJECT": true, "TEMPLATE": true, "OPTIONS": true, "TARGET": true, "TIMEOUT": true,
	"INPUT": true, "OUTPUT": true, "REPEAT": true, "VERBOSE": true, "JSON": true, "FORCE": true, "DRYRUN": true,
	"CHECK": true, "MODULE": true, "SEED": true, "FUZZTIME": true, "BOARDSMITH_PATH": true, "BOARDSMITH_LEDGER": true,
	"DEVICE": true, "FLASHER": true, "IMAGE": true, "WAIT": true, "SAVE": true, "NAME": true, "CACHE_MIB": true,
	"RELEASE": true,
}

// A tally counts what was checked, and keeps what is needed to say so at the end.
type tally struct {
	passed, failed, skipped int
	failures                []string          // names
	skips                   map[string]string // name to reason
	order                   []string          // names of skips
	sections                []string          // one line each, for the report
	systems                 []systemReport    // other systems that were tried
}

func (s *session) pass(t *tally, name string, d time.Duration) {
	t.passed++
	line := fmt.Sprintf("%-48s %11s %6.1f s", name, "", d.Seconds())
	s.out.printf("%-7s %s", verdict(true), line)
	t.sections = append(t.sections, line)
}

func (s *session) fail(t *tally, name, why string) {
	t.failed++
	t.failures = append(t.failures, name)
	s.out.printf("FAILED  %s\n%s", name, strings.TrimRight(why, "\n"))
	s.out.line(record{"status": "failed", "name": name, "class": failure.Internal, "error": why})
}

func (s *session) skip(t *tally, name, reason string) {
	t.skipped++
	if t.skips == nil {
		t.skips = map[string]string{}
	}
	if _, twice := t.skips[name]; !twice {
		t.order = append(t.order, name)
	}
	t.skips[name] = reason
	s.out.printf("skipped %s: %s", name, reason)
}

// conclude prints the closing line, and makes an error of failures.
func (s *session) conclude(t *tally) error {
	for _, name := range t.failures {
		s.out.printf("failed: %s", name)
	}
	s.out.printf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
	if t.failed > 0 {
		return failure.New(failure.Internal, "", "%d of %d checks failed", t.failed, t.failed+t.passed)
	}
	s.out.line(record{"status": "done", "passed": t.passed, "failed": t.failed, "skipped": t.skipped})
	return nil
}

// rel is a path below the repository for messages.
func (s *session) rel(path ...string) string {
	return filepath.Join(append([]string{s.dir}, path...)...)
}
