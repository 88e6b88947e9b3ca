// This file runs go test by gotestsum, which prints, and counts the tests by their events.

package develop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/boardsmith/boardsmith/"

// short returns a package's path within its module.
func short(pkg string) string { return strings.TrimPrefix(pkg, module) }

// goTool returns the command that runs a tool at the version of tools/go.mod.
func goTool(args ...string) []string {
	return append([]string{"go", "tool", "-modfile=tools/go.mod"}, args...)
}

// goTest runs go test with these arguments and counts its tests. gotestsum prints a line for each package and the
// output of failed tests, then the skipped tests with their reasons.
func (r *repository) goTest(ctx context.Context, env []string, args ...string) error {
	dir, err := os.MkdirTemp("", "boardsmith-gotestsum-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	const shown = 9 // flags and the first packages: a list of all is long
	name := "go test " + strings.Join(args[:min(shown, len(args))], " ")
	events := filepath.Join(dir, "events.json")
	argv := goTool("gotestsum", "--format=pkgname-and-test-fails", "--format-icons=text", "--format-hide-empty-pkg",
		"--jsonfile-timing-events="+events, "--")
	_, err = r.runCheck(ctx, check{name: name, argv: append(argv, args...), env: env}, func(line string) {
		fmt.Fprintln(r.Console, line)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}

	failed, countErr := r.countTests(events)
	if err = errors.Join(err, countErr); err != nil && failed == 0 {
		r.fail(name, err.Error())
	}
	return nil
}

// An event is the end of a test or, without Test, of a package.
type event struct {
	Action, Package, Test string
	Elapsed               float64 // seconds
}

// countTests counts the events of a file and returns how many tests failed.
func (r *repository) countTests(file string) (failed int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()

	r.mu.Lock()
	var names []string
	var slow []slowTest
	for events := json.NewDecoder(f); ; {
		var e event
		if err = events.Decode(&e); err != nil {
			break
		}

		// go test reports a test after those that it contains: its own failure and time are theirs.
		name, parts := short(e.Package), short(e.Package)+"."
		if e.Test != "" {
			name += "." + e.Test
			parts = name + "/"
		}
		isPart := func(name string) bool { return strings.HasPrefix(name, parts) }
		switch {
		case e.Action == "fail" && !slices.ContainsFunc(names, isPart):
			names = append(names, name)
		case e.Action == "skip" && e.Test != "":
			r.skipped++
		case e.Action == "pass" && e.Test != "":
			r.passed++
		}
		if e.Test != "" && e.Elapsed >= 1 && !slices.ContainsFunc(slow, func(s slowTest) bool { return isPart(s.name) }) {
			slow = append(slow, slowTest{name, e.Elapsed})
		}
	}
	r.slowest = append(r.slowest, slow...)
	r.mu.Unlock()

	for _, name := range names {
		r.fail(name, "the output is with its package's")
	}
	if err == io.EOF {
		err = nil
	}
	return len(names), err
}
