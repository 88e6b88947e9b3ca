//go:build unix

package flasher

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/zephyrtest"
)

// TestContexts ends the contexts of programmers before a call and while the tool hangs.
func TestContexts(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "python3") // its second line names the Python of a pyocd: itself
	testkit.WriteProgram(t, tool, "#!/bin/sh\n#"+tool+"\nexec sleep 60\n")
	c := Config{
		Flash: boards.Flash{Chip: "nrf51", Scripts: []string{"target/nrf51.cfg"}},
		Probe: Probe{Emulated: &Emulated{"localhost:1", "localhost:2"}},
		Find:  func(string) (string, error) { return tool, nil },
	}
	data := []Segment{{Data: []byte{1}}}
	job := Job{Erase: []boards.Sector{{Size: 1024}}, Write: data, Verify: data}
	withRunner := c
	withRunner.Build = zephyrtest.Build(t, "nrfjprog", map[string][]string{"nrfjprog": nil}, "")
	of := failuretest.Of
	for _, name := range []string{"openocd", "pyocd"} {
		p := created(t, name, c)
		exported := failuretest.Calls{
			"Programmer.Do":    of(p.Do, job),
			"Config.ChipOf":    of(c.ChipOf),
			"Config.MemoryMap": of(c.MemoryMap),
		}
		failuretest.Ended(t, exported)
		calls := failuretest.Calls{
			"Read":    of(p.(flashReader).Read, []Range{{0, 16}}),
			"Inspect": of(p.(inspector).Inspect, []Range{{0, 16}}),
			"Serve":   of(p.(debugServer).Serve, false, 1, func(context.Context) error { return nil }),
		}
		if s, ok := p.(rttServer); ok { // only OpenOCD serves RTT
			calls["ServeRTT"] = of(s.ServeRTT, 1, []Range{{0, 16}}, func(context.Context) error { return nil })
		}
		failuretest.EndedCalls(t, calls)
		maps.Copy(calls, exported)
		failuretest.Waiting(t, calls)
		runner := created(t, "west", withRunner)
		failuretest.Waiting(t, failuretest.Calls{
			"Programmer.Do": of(runner.Do, job),
		})
	}
}

// TestPythonOfPyOCD: the Python that runs pyOCD is found as the system finds it; where none is, the tool is missing.
func TestPythonOfPyOCD(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "the tools")
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	const works = "#!/bin/sh\necho '" + mark + "RAM 1 2 0'\n"
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.WriteProgram(t, path, text)
		return path
	}
	write("python/bin/python3.11", works)
	write("bare/python3", "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'pyocd'\"; exit 1\n")
	short, link := filepath.Join(t.TempDir(), "python3"), filepath.Join(dir, "link")
	must(t, errors.Join(os.Symlink(write("python3", works), short), os.Symlink("program", link)))

	for _, c := range []struct {
		text string
		ok   bool
	}{
		{"#!" + short + "\nimport re\n", true},
		{"#! " + short + " -sP\n# of python9\n", true},
		{"#!" + short + " -E", true},
		{"#!/usr/bin/env python3\n", true},
		{"#!/bin/sh\n'''exec' \"" + dir + "/python/bin/python3.11\" \"$0\" \"$@\"\n' '''\n", true},
		{"#!/bin/sh\n'''exec' '" + dir + "/python3' \"$0\" \"$@\"\n' '''\n", true},
		{"#!/bin/sh\n'''exec' \"" + dir + "/bare/python3\" \"$0\" \"$@\"\n' '''\n", false},
		{"#!/nowhere/python3\n", false},
		{"#!/bin/sh\nexec container pyocd\n# python3\n", false},
		{"\x7fELF /usr/bin/python3", false},
		{"", false},
	} {
		write("program", c.text)
		memory, err := Config{Find: func(string) (string, error) { return link, nil }}.MemoryMap(t.Context())
		if c.ok != (err == nil && len(memory) == 1) || !c.ok && failure.Of(err) != failure.ToolMissing {
			t.Errorf("%q: %v, %v", c.text, memory, err)
		}
	}
}

// With only Flash set in Config, a programmer finds its tool on PATH and logs nothing.
func TestZeroConfig(t *testing.T) {
	dir := t.TempDir()
	output := "#!/bin/sh\necho '" + mark + "connected'\n"
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, name := range []string{"openocd", "pyocd"} {
		testkit.WriteProgram(t, filepath.Join(dir, name), output)
		p := created(t, name, Config{Flash: boards.Flash{Chip: "nrf51"}})
		wantError(t, p.Do(t.Context(), Job{Restart: true}), "")
		if p.Commands(Job{}) == nil {
			t.Errorf("%s has no commands", name)
		}
	}
}

// TestKeptOutput: after a failure, a file has all that the tool printed, and no hint has the command, which erases.
// Files of earlier runs are removed.
func TestKeptOutput(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	old, recent := filepath.Join(tmp, "boardsmith-flash-1.txt"), filepath.Join(tmp, "boardsmith-flash-2.txt")
	longAgo := time.Now().Add(-2 * outputLife)
	tool := filepath.Join(tmp, "tool")
	for name, text := range map[string]string{
		old: "", recent: "", tool: "#!/bin/sh\necho first line\necho failed to erase sector 3\nexit 3\n",
	} {
		testkit.WriteProgram(t, name, text)
	}
	must(t, os.Chtimes(old, longAgo, longAgo))
	p := created(t, "openocd", Config{Find: func(string) (string, error) { return tool, nil }})
	err := p.Do(t.Context(), Job{Verify: []Segment{{0, []byte{1, 2, 3, 4}}}})
	path, ok := strings.CutPrefix(failure.Next(err), "its output is in ")
	if output, _ := os.ReadFile(path); !ok || string(output) != "first line\nfailed to erase sector 3\n" {
		t.Errorf("%v: %s: %q", err, failure.Next(err), output)
	}
	left, _ := filepath.Glob(filepath.Join(tmp, "boardsmith-*"))
	wantEqual(t, left, slices.Sorted(slices.Values([]string{recent, path})))
}
