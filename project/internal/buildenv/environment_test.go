package buildenv

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	wantError = testkit.WantError
)

// tree writes files below a new folder, scripts as programs, and returns the folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if must(t, os.MkdirAll(filepath.Dir(at), 0o755)); strings.HasPrefix(text, "#!") {
			testkit.WriteProgram(t, at, text)
			continue
		}
		writeFile(t, at, text)
	}
	return dir
}

// TestVariable: the builder's value precedes the user's, and that the folder that the template finds.
func TestVariable(t *testing.T) {
	home := tree(t, map[string]string{
		"sdk-2/mark": "", "sdk-3/mark": "", "work/sdk/mark": "", "work/app/p/x": "", "other/mark": "", "other/sdk/mark": "",
	})
	must(t, os.Symlink("sdk-2", filepath.Join(home, "link")))
	t.Setenv("HOME", home)
	t.Setenv("OTHER", filepath.Join(home, "other"))
	find := func(places ...string) *templatefile.Description {
		return &templatefile.Description{Find: []templatefile.Search{
			{Name: "NOT_SDK", Has: "mark", In: []string{"~/other"}}, {Name: "SDK", Has: "mark", In: places, Install: "get it"},
		}}
	}
	for _, c := range []struct {
		name, user string
		builder    map[string]string
		places     []string
		want       string // below home
		err        string
	}{
		{"of the user's home", "", nil, []string{"~/none", "~/sdk-3", "~/sdk-2"}, "sdk-3", ""},
		{"around the project", "", nil, []string{"{above}/sdk", "~/sdk-2"}, "work/sdk", ""},
		{"below a variable", "", nil, []string{"$OTHER/sdk"}, "other/sdk", ""},
		{"a variable itself", "", nil, []string{"$OTHER"}, "other", ""},
		{"below a variable that is not set", "", nil, []string{"$NONE/sdk", "~/sdk-2"}, "sdk-2", ""},
		{"set by the user", filepath.Join(home, "sdk-2"), nil, []string{"~/sdk-3"}, "sdk-2", ""},
		{"a link", filepath.Join(home, "link"), nil, []string{"~/sdk-3"}, "sdk-2", ""},
		{"a link that is found", "", nil, []string{"~/link"}, "sdk-2", ""},
		{
			"set by the builder", filepath.Join(home, "sdk-2"),
			map[string]string{"SDK": filepath.Join(home, "other")},
			[]string{"~/sdk-3"},
			"other", "",
		},
		{
			"set to another folder", filepath.Join(home, "work"), nil,
			[]string{"~/sdk-3"},
			"work",
			"SDK is " + filepath.Join(home, "work") + ", which has no mark",
		},
		{"nowhere", "", nil, []string{"~/none", "word"}, "", "SDK, which is not set, and mark is not in ~/none or word"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SDK", c.user)
			e := Env{Template: find(c.places...), Dir: filepath.Join(home, "work", "app", "p"), Variables: c.builder}
			want := ""
			if c.want != "" {
				want = filepath.Join(home, filepath.FromSlash(c.want))
			}
			if got := e.Variable("SDK"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			err := e.Check("SDK")
			class := failure.Config
			if c.name == "nowhere" {
				class = failure.ToolMissing
			}
			testkit.WantErrorIf(t, c.err != "", err, class, c.err)
			if strings.Contains(c.name, "nowhere") && failure.Next(err) != "set it, or: get it" {
				t.Error(failure.Next(err))
			}
		})
	}
	e := Env{Template: find(), Variables: map[string]string{"SDK": "relative", "WORD": "relative"}}
	here, err := os.Getwd()
	must(t, err)
	if got := e.Variable("SDK") + " " + e.Variable("WORD"); got != filepath.Join(here, "relative")+" relative" {
		t.Errorf("the folder and the word are %s", got)
	}
	must(t, e.Check("WORD"))
	wantError(t, e.Check("NONE"), failure.Config, "the template needs the variable NONE, which is not set")
}

// TestPrograms: a program is that of the builder's folders, then that beside one of the template's programs that are
// not on PATH, then that on PATH: the build command finds the same.
func TestPrograms(t *testing.T) {
	dir := tree(t, map[string]string{
		"own/ninja": "#!/bin/sh\n", "path/ninja": "#!/bin/sh\n", "path/west": "#!/bin/sh\n", "sdk/west": "#!/bin/sh\n",
		"sdk/dtc": "#!/bin/sh\n", "later/dtc": "#!/bin/sh\n", "sdk/plain": "no program", "west/west": "#!/bin/sh\n",
		"west/sub/tool": "#!/bin/sh\n",
	})
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	t.Setenv("PATH", at("path"))
	t.Setenv("SDK", at("sdk"))
	t.Setenv("LATER", at("later"))
	t.Setenv("WEST", at("west"))
	e := Env{Template: &templatefile.Description{
		Build: []string{"dtc"},
		Tools: []templatefile.Tool{
			{Name: "west", In: []string{"$WEST"}}, // it is on PATH
			{Name: "sub/tool", In: []string{"$WEST"}},
			{Name: "dtc", In: []string{"$NONE", "$SDK", "$LATER"}, Install: "get dtc"},
			{Name: "plain", In: []string{"$SDK"}, Install: "get plain"},
		},
	}}
	for name, want := range map[string]string{
		"west": "sdk/west", "ninja": "path/ninja", "dtc": "sdk/dtc", at("later/dtc"): "later/dtc",
	} {
		if got, err := e.Program(name, ""); err != nil || got != at(want) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if got, err := e.Builder(); err != nil || got != at("sdk/dtc") {
		t.Errorf("the builder is %s, %v", got, err)
	}
	if got, want := e.Path(), []string{"PATH=" + at("sdk") + ":" + at("path")}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	missing := new(failure.MissingToolError)
	if _, err := e.ProgramOf([]string{"plain"}); !errors.As(err, &missing) || missing.Install != "get plain" {
		t.Error(err)
	}
	if _, err := e.ProgramOf([]string{"nothing"}); !errors.As(err, &missing) || missing.Install != "" {
		t.Error(err)
	}
	e.Programs = []string{at("own"), at("sdk")}
	if got, err := e.Program("ninja", ""); err != nil || got != at("own/ninja") {
		t.Errorf("ninja: %s, %v", got, err)
	}
	want := []string{"PATH=" + at("own") + ":" + at("sdk") + ":" + at("path")}
	if got := e.Path(); !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	t.Setenv("PATH", "")
	want = []string{"PATH=" + at("own") + ":" + at("sdk") + ":" + at("west")}
	if got := e.Path(); !reflect.DeepEqual(got, want) {
		t.Errorf("without PATH: %q", got)
	}
	e.Programs, e.Template.Tools = nil, nil
	if got := e.Path(); got != nil {
		t.Errorf("without folders: %q", got)
	}
}

// TestEnviron: the user's variables, literal ones and the compiler's folder; values are what contents do not replace.
func TestEnviron(t *testing.T) {
	dir := tree(t, map[string]string{"tree/x": "", "sdk/mark": ""})
	t.Setenv("TREE", filepath.Join(dir, "tree"))
	t.Setenv("OUTER", filepath.Join(dir, "tree"))
	t.Setenv("KIND", "gnu")
	of := &templatefile.Description{
		Env: map[string]string{
			"TREE": "$TREE", "OUTER": "$OUTER", "CHAIN": "$KIND", "OPTIONAL": "$NONE?", "LITERAL": "a b",
			"CC_ROOT": "{toolchain}/x",
		},
		Trees: []string{"$TREE/../modules/*"}, Outside: []string{"$OUTER/x"},
	}
	e := Env{Template: of, Board: "kiln", Programs: []string{dir}}
	env, values, err := e.Environ("/opt/gnu/bin/gcc")
	want := []string{
		"PATH=" + dir + ":" + os.Getenv("PATH"),
		"CC_ROOT=/opt/gnu/x", "CHAIN=gnu", "LITERAL=a b", "OUTER=" + filepath.Join(dir, "tree"),
		"TREE=" + filepath.Join(dir, "tree"),
	}
	if err != nil || !reflect.DeepEqual(env, want) || !reflect.DeepEqual(values, []string{"CHAIN=gnu"}) {
		t.Errorf("%q, %q, %v", env, values, err)
	}
	const unknown = "needs the compiler's folder for CC_ROOT, but only the build finds the compiler of board kiln"
	_, _, err = e.Environ("")
	wantError(t, err, failure.Config, unknown)
	t.Setenv("KIND", "")
	_, _, err = e.Environ("/bin/cc")
	wantError(t, err, failure.Config, "variable KIND")
	of.Env = map[string]string{"SDK": "$SDK"}
	of.Find = []templatefile.Search{{Name: "SDK", Has: "mark"}}
	t.Setenv("SDK", filepath.Join(dir, "tree"))
	_, _, err = e.Environ("/bin/cc")
	wantError(t, err, failure.Config, "which has no mark")
}

// TestOutsideAndTrees: what is outside of the project has a digest or a state by its name in the template, however the
// variable's value is written.
func TestOutsideAndTrees(t *testing.T) {
	dir := tree(t, map[string]string{
		"sdk/a.h": "a", "sdk/below/b.h": "b", "modules/one/x": "1", "modules/two/x": "2", "modules/file": "",
	})
	t.Setenv("SDK", dir+"/sdk/below/../.")
	t.Setenv("UNSET", "")
	of := &templatefile.Description{
		Env:     map[string]string{"SDK": "$SDK?", "UNSET": "$UNSET?"},
		Outside: []string{"$SDK/a.h", "$SDK/below", "$UNSET/x"}, Trees: []string{"$SDK", "$SDK/../modules/*", "$SDK/none*"},
	}
	e := Env{Template: of}
	sums, err := e.Outside()
	names := slices.Sorted(maps.Keys(sums))
	if err != nil || !reflect.DeepEqual(names, []string{"$SDK/a.h", "$SDK/below/b.h"}) ||
		sums["$SDK/a.h"] == sums["$SDK/below/b.h"] || len(sums["$SDK/a.h"]) != 64 {
		t.Errorf("%v, %v", sums, err)
	}
	states, err := e.Trees(t.Context())
	names = slices.Sorted(maps.Keys(states))
	if err != nil || !reflect.DeepEqual(names, []string{"$SDK", "$SDK/../modules/one", "$SDK/../modules/two"}) {
		t.Errorf("%v, %v", states, err)
	}
	of.Outside = []string{"$NONE/x"}
	_, err = e.Outside()
	wantError(t, err, failure.Config, "check the variable NONE")
	pipe := filepath.Join(dir, "sdk", "pipe")
	must(t, exec.Command("mkfifo", pipe).Run())
	of.Outside = []string{"$SDK"}
	_, err = e.Outside()
	wantError(t, err, failure.Config)
	must(t, os.Remove(pipe))
	of.Outside = []string{"$SDK/none.h"}
	_, err = e.Outside()
	wantError(t, err, failure.Config, "input $SDK/none.h: ", "check the variable SDK")
	must(t, os.Symlink("a.h", filepath.Join(dir, "sdk", "below", "link.h")))
	of.Outside, of.Trees = []string{"$SDK/below"}, []string{"$UNSET/x"}
	if sums, err := e.Outside(); err == nil && sums["$SDK/below/link.h"] != cacheSum("a") {
		t.Errorf("%v", sums)
	}
	_, err = e.Trees(t.Context())
	wantError(t, err, failure.Config, "variable UNSET")
}

// TestWords: words of a command become jobs, forms and the board, and one with a condition stays or goes.
func TestWords(t *testing.T) {
	t.Setenv("SDK", tree(t, map[string]string{"has": ""}))
	e := Env{Template: &templatefile.Description{
		Build: []string{
			"make", "-j{jobs}", "{forms}", "B={zephyr_board}", "{if $SDK/has}-Dhas={jobs}", "{if $SDK/none}-Dnone",
		},
	}}
	got := e.Command(&boards.Board{Name: "kiln", ZephyrBoard: "oven/x"}, 3, []string{"a.bin", "a.hex"})
	if want := []string{"make", "-j3", "a.bin", "a.hex", "B=oven/x", "-Dhas=3"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

// TestNeeds: each folder, program and check of a template has its result, or the error and how to install it.
func TestNeeds(t *testing.T) {
	dir := tree(t, map[string]string{
		"sdk/mark": "", "bin/good": "#!/bin/sh\necho good 1.2\n", "bin/bad": "#!/bin/sh\necho fault >&2; exit 3\n",
		"bin/tell": "#!/bin/sh\nprintf 'first\\n%s  \\n\\n' \"$1 $X\"\n",
	})
	t.Setenv("SDK", filepath.Join(dir, "sdk"))
	t.Setenv("NONE", "")
	t.Setenv("PATH", filepath.Join(dir, "bin")+":/bin:/usr/bin")
	of := &templatefile.Description{
		Env: map[string]string{"X": "y"},
		Find: []templatefile.Search{
			{Name: "SDK", Has: "mark", Install: "get sdk"}, {Name: "NONE", Has: "mark", Install: "get none"},
		},
		Tools: []templatefile.Tool{{Name: "good", Install: "get good"}, {Name: "no-such-tool", Install: "get it"}},
		Checks: []templatefile.SetupCheck{
			{Name: "told", Command: []string{"tell", "$SDK/below"}, Install: "a"},
			{Name: "failed", Command: []string{"bad"}},
			{Name: "unset", Command: []string{"tell", "$NONE/x"}},
			{Name: "absent", Command: []string{"no-such-check"}},
		},
	}
	e := Env{Template: of, Tools: &Tools{}}
	all, err := e.Needs(t.Context())
	var got []string
	for _, n := range all {
		problem := ""
		if n.Err != nil {
			problem = " !"
		}
		got = append(got, n.Name+"="+strings.ReplaceAll(n.Result, dir, "D")+" "+n.Install+problem)
	}
	want := []string{
		"SDK=D/sdk get sdk", "NONE= get none !", "good=good 1.2 get good", "no-such-tool= get it !",
		"told=D/sdk/below y a", "failed=  !", "unset=  !", "absent=  !",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if err := all[5].Err; !strings.HasSuffix(err.Error(), ": exit status 3: fault") ||
		!strings.Contains(failure.Next(err), "to see it again: ") {
		t.Errorf("%v; %s", err, failure.Next(err))
	}
	of.Env["Y"] = "$NONE" // a variable that is missing does not matter to a check that does not name it
	e.Programs = []string{tree(t, map[string]string{"own": "#!/bin/sh\necho of PATH\n"})}
	if text, err := e.Ask(t.Context(), []string{"sh", "-c", "own"}); err != nil || text != "of PATH\n" {
		t.Errorf("%q, %v", text, err)
	}
	ended := testkit.Ended(t)
	if _, err := e.Needs(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestBoards: a template's command lists boards by the first words of its lines.
func TestBoards(t *testing.T) {
	dir := tree(t, map[string]string{"sdk/mark": "", "list": "#!/bin/sh\nprintf 'a one\\n\\n  b/c\\n'; exit $1\n"})
	t.Setenv("SDK", filepath.Join(dir, "sdk"))
	of := &templatefile.Description{Find: []templatefile.Search{{Name: "SDK", Has: "mark"}}}
	e := Env{Template: of}
	if _, err := e.Boards(t.Context()); err == nil || err.Error() != "the template names no command that lists them" {
		t.Error(err)
	}
	of.Boards = []string{filepath.Join(dir, "list"), "0"}
	if names, err := e.Boards(t.Context()); err != nil || !reflect.DeepEqual(names, []string{"a", "b/c"}) {
		t.Errorf("%q, %v", names, err)
	}
	of.Boards[1] = "3"
	_, err := e.Boards(t.Context())
	wantError(t, err, "", "exit status 3")
	of.Find[0].Has = "other"
	_, err = e.Boards(t.Context())
	wantError(t, err, "", "which has no other")
}
