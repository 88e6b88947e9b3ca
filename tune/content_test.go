//go:build linux

package tune_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/tune"
)

// counting returns a candidate that counts to n before it computes.
func counting(id string, n int) tune.Candidate {
	c := operator(id, "for (volatile int i = 0; i < N; i++) {} "+right)
	c.Operators.Flags = []string{fmt.Sprintf("-DN=%d", n)}
	return c
}

// TestResultBelongsToContent measures contents under changing IDs, also in a continued run, and in a folder whose name
// has a space.
func TestResultBelongsToContent(t *testing.T) {
	dir := t.TempDir() + "/a run"
	r := openedIn(t, dir, tune.Options{}, "host")
	measure := func(c tune.Candidate) tune.Result {
		t.Helper()
		result := measured(t, r, c)
		testkit.Equal(t, "ID", result.ID, c.ID)
		return result
	}
	crash := operator("x", "*(volatile int*)0 = 1; "+right)
	first, second := measure(counting("x", 10)), measure(counting("x", 100000))
	third, other := measure(counting("x", 10)), measure(counting("y", 10))
	fault := measure(crash)
	fourth, last := measure(counting("z", 10)), measure(counting("x", 10))
	for name, got := range map[string]tune.Result{"third": third, "other": other, "fourth": fourth, "last": last} {
		if got.Content != first.Content || got.Time == nil || *got.Time != *first.Time {
			t.Errorf("%s: %+v, want %+v", name, got.Time, first.Time)
		}
	}
	if other.SameAs != "x" || last.SameAs != "" || third.SameAs != "" {
		t.Errorf("same as %q, %q, %q", other.SameAs, last.SameAs, third.SameAs)
	}
	if second.Content == first.Content || fault.Failure == nil || second.Failure != nil {
		t.Errorf("the second: %+v, the fault: %+v", second, fault)
	}
	must(t, r.Close())
	before := results(t, dir)
	testkit.Equal(t, "results, of x, y and z", len(before), 3)
	for _, is := range before {
		if is.Content != first.Content || *is.Time != *first.Time {
			t.Errorf("%s: %+v", is.ID, is)
		}
	}
	r = openedIn(t, dir, tune.Options{}, "host")
	for id, n := range map[string]int{"x": 100000, "y": 10, "w": 10} {
		was := first
		if n != 10 {
			was = second
		}
		if is := measure(counting(id, n)); is.Content != was.Content || *is.Time != *was.Time {
			t.Errorf("%s with %d goes on: %+v", id, n, is)
		}
		if kept := stored(t, dir, byID(t, dir)[id]); !slices.Equal(kept.Operators.Flags, counting(id, n).Operators.Flags) {
			t.Errorf("%s is kept with %q", id, kept.Operators.Flags)
		}
	}
	must(t, r.Close())
}

// TestTwinsAfterIDMoves measures candidates with the bytes of an earlier one, before and after its ID gets another
// content: they have its time, and its ID does not stand for these bytes any more.
func TestTwinsAfterIDMoves(t *testing.T) {
	r, _ := opened(t, tune.Options{}, "host")
	twin := func(id string) tune.Candidate { return operator(id, right+" /* the same bytes */") }
	good := measured(t, r, operator("x", right))
	measured(t, r, twin("y"))
	measured(t, r, operator("x", "*(volatile int*)0 = 1; "+right))
	for _, id := range []string{"y", "z"} {
		is := measured(t, r, twin(id))
		if is.Failure != nil || *is.Time != *good.Time || is.Content == good.Content || is.SameAs == "x" {
			t.Errorf("%+v, %+v", is, is.Failure)
		}
	}
}

// faulty returns a function that opens a run on a board whose compiler is a script, on a path with a space, and one
// that writes the script: version is the first line of --version, and then a command that runs before the compiler
// compiles.
func faulty(t *testing.T) (open func(dir string, o tune.Options) *tune.Run, compiler func(version, then string)) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	must(t, err)
	bin := t.TempDir() + "/a bin"
	must(t, os.MkdirAll(bin, 0o755))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	shelf := boardstest.Shelf(t, map[string]string{"faulty.json": processBoard("faulty-cc", 4096)})
	kept := cache.New(t.TempDir(), cache.Options{}) // no other test's objects
	compiler = func(version, then string) {
		script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in\n*' --version '*) echo %q; exit 0;;\n*' -c '*) %s;;\nesac\n"+
			"exec %s \"$@\"\n", version, then, cc)
		testkit.WriteProgram(t, bin+"/faulty-cc", script)
	}
	return func(dir string, o tune.Options) *tune.Run {
		o.Builder = &project.Builder{Host: device.Host{Path: []string{shelf}, Cache: kept}}
		return openedIn(t, dir, o, "faulty")
	}, compiler
}

// processBoard returns the file of a board that is a process.
func processBoard(cc string, packet int) string {
	return fmt.Sprintf(`{"inherits": "cpu/native", "templates": ["baremetal"], "arena_kib": 16384, "packet_bytes": %d,
"toolchain": {"cc": %q, "ar": "ar", "install": "x"}, "link": {"kind": "process"}, "flash": {"programmer": "none"},
"sources": ["port/process.c"]}`, packet, cc)
}

// TestCompilersHaveRankingsOfTheirOwn measures a candidate with two compilers, and another one with the first only.
func TestCompilersHaveRankingsOfTheirOwn(t *testing.T) {
	open, compiler := faulty(t)
	dir := t.TempDir()
	all := map[string]tune.Result{}
	for _, version := range []string{"onecc 1.0", "twocc 2.0"} {
		compiler(version, ":")
		r := open(dir, tune.Options{})
		ids := []string{"both", "first"}
		if version != "onecc 1.0" {
			ids = ids[:1]
		}
		for _, id := range ids {
			result := measured(t, r, operator(id, right))
			wantFailure(t, result, "")
			if !strings.HasPrefix(result.Toolchain, version) {
				t.Errorf("%s of %s is made with %q", id, version, result.Toolchain)
			}
			all[id+version] = result
		}
		must(t, r.Close())
	}
	if a, b := all["bothonecc 1.0"], all["bothtwocc 2.0"]; a.Content == b.Content || a.Finished.Equal(b.Finished) {
		t.Errorf("with another compiler: %+v", b)
	}
	rankings := tune.Rank(results(t, dir))
	if len(rankings) != 2 || len(rankings[0].Results) != 1 || !strings.Contains(rankings[0].Conditions, "onecc 1.0") ||
		!strings.Contains(rankings[1].Conditions, "twocc 2.0") {
		t.Errorf("%d rankings: %+v", len(rankings), rankings)
	}
}

// TestFirmwareBelongsToContent changes a board file between two runs in one folder, and then takes a file of the same
// content from elsewhere.
func TestFirmwareBelongsToContent(t *testing.T) {
	dir := t.TempDir()
	var all []tune.Result
	for _, packet := range []int{4096, 8192, 8192, 4096} {
		shelf := boardstest.Shelf(t, map[string]string{"mine.json": processBoard("cc", packet)})
		builder := &project.Builder{Host: device.Host{Path: []string{shelf}}}
		r := openedIn(t, dir, tune.Options{Builder: builder}, "mine")
		all = append(all, measured(t, r, operator("one", right)))
		must(t, r.Close())
	}

	if all[0].Content == all[1].Content || all[0].Finished.Equal(all[1].Finished) || len(tune.Rank(all[:2])) != 2 {
		t.Errorf("with another board file: %+v, then %+v", all[0], all[1])
	}
	for i, first := range map[int]int{2: 1, 3: 0} {
		if all[i].Content != all[first].Content || *all[i].Time != *all[first].Time {
			t.Errorf("with an equal board file: %+v, then %+v", all[first], all[i])
		}
	}
}

// TestEmptyRunFixesNoSettings opens a folder with other options after a run without results.
func TestEmptyRunFixesNoSettings(t *testing.T) {
	open, compiler := faulty(t)
	dir := t.TempDir() + "/a run"
	compiler("onecc 1.0", ":")
	wantError(t, refused(t, dir, tune.Options{Template: "no such template"}, "host"), failure.Config)
	large := tune.Options{Memory: map[string]boards.Options{"": {UploadKiB: 32, ArenaKiB: 512}}}
	must(t, openedIn(t, dir, large, "host").Close())
	r := open(dir, tune.Options{Memory: map[string]boards.Options{"": {UploadKiB: 16}}})
	wantFailure(t, measured(t, r, operator("one", right)), "")
	must(t, r.Close())
	wantError(t, refused(t, dir, tune.Options{}, "host"), failure.Config)
}

// TestCandidateIncludesItsOwnFilesOnly refuses headers whose contents are not the candidate's: a change of them would
// not be seen.
func TestCandidateIncludesItsOwnFilesOnly(t *testing.T) {
	open, compiler := faulty(t)
	compiler("cc 1.0", ":")
	outside := t.TempDir() + "/a folder"
	header := outside + "/n.h"
	writeFile(t, header, "#define N 2\n")
	writeFile(t, outside+"/n.s", ".globl n\n")
	writeFile(t, outside+"/flags", "-DN=2\n")
	r := open(t.TempDir(), tune.Options{})
	for name, c := range map[string]struct {
		include string
		flags   []string
		own     bool
	}{
		"absolute":     {include: `#include "` + header + `"`},
		"folder":       {include: `#include "n.h"`, flags: []string{"-I" + outside}},
		"system":       {include: `#include <n.h>`, flags: []string{"-isystem", outside}},
		"forced":       {flags: []string{"-include", header}},
		"flags' file":  {flags: []string{"@" + outside + "/flags"}},
		"beside":       {include: `#include <` + strings.Repeat("../", 20) + header + `>`},
		"assembler":    {include: `__asm__(".include \"` + outside + "/n.s" + `\"");` + "\nenum { N = 2 };"},
		"preprocessor": {include: `#include <n.h>`, flags: []string{"-Wp,-isystem," + outside}},
		"output":       {include: "enum { N = 2 };", flags: []string{"-o" + header}},
		"list":         {include: "enum { N = 2 };", flags: []string{"-MF", header}},
		"no object":    {include: "enum { N = 2 };", flags: []string{"-fsyntax-only"}},
		"other output": {include: "enum { N = 2 };", flags: []string{"-save-temps"}},
		"profile":      {include: "enum { N = 2 };", flags: []string{"-fprofile-use=" + outside}},
		"a file's":     {include: "enum { N = 2 };", flags: []string{"lib0.c:-O3"}},
		"own":          {include: `#include "sub dir/n.h"`, own: true},
		"macro": {own: true, flags: []string{
			"-DN=(int) /* two */ 2,0", "-Ofast", "-O2", "-fno-inline", "--param=max-unroll-times=4", "-mtune=generic",
		}},
	} {
		candidate := operator(name, "for (int i = 0; i < 4; i++) out[i] = in[i] * N;")
		files := candidate.Operators.Files
		files[0].Data = append([]byte(c.include+"\n"), files[0].Data...)
		if c.own {
			candidate.Operators.Files = append(files, mlf.File{Name: "sub dir/n.h", Data: []byte("#define N 2\n")})
		}
		candidate.Operators.Flags = c.flags
		if result := measured(t, r, candidate); c.own {
			wantFailure(t, result, "")
		} else {
			wantFailure(t, result, failure.Config, "operators")
		}
	}
}
