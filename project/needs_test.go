//go:build !windows

package project

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
)

const needyTemplate = `{"doc": "needy", "build": ["generator"], "inputs": ["src"], "env": {"OS_BASE": "$OS_BASE"},
	"find": [{"name": "OS_BASE", "has": "VERSION", "in": ["{above}/system"], "install": "unpack it"}],
	"tools": [{"name": "generator", "install": "pip install generator", "in": ["{above}/bin"]}],
	"checks": [
		{"name": "module", "command": ["interpreter", "module"], "install": "pip install module"},
		{"name": "tree", "command": ["interpreter", "$OS_BASE/VERSION"], "install": "update it"},
		{"name": "missing", "command": ["no-such-interpreter"], "install": "apt-get install interpreter"}
	],
	"elf": "build/a.elf", "map": "build/a.map", "options": []}`

// TestNeeds: what a template needs is found where its builds find it, and what is missing is reported with its cause.
func TestNeeds(t *testing.T) {
	t.Setenv("OS_BASE", "")
	workspace := t.TempDir()
	e := testEnv()
	e.Path = []string{workspace}
	writeIn(t, workspace, "templates/needy/template.json", needyTemplate)
	look := func() map[string]buildenv.Need {
		t.Helper()
		all, err := e.builder().Needs(t.Context(), filepath.Join(workspace, "projects"))
		must(t, err)
		found := map[string]buildenv.Need{}
		for _, n := range all {
			if n.Template == "needy" {
				found[n.Name] = n
			}
		}
		return found
	}
	check := func(all map[string]buildenv.Need, name, found, missing string) {
		t.Helper()
		n, listed := all[name]
		if !listed || n.Result != found || (n.Err != nil) != (missing != "") || n.Install == "" ||
			n.Err != nil && !strings.Contains(n.Err.Error(), missing) {
			t.Errorf("%s: found %q, error %v, install %q; want %q and an error with %q", name, n.Result, n.Err, n.Install, found,
				missing)
		}
	}

	all := look()
	check(all, "OS_BASE", "", "VERSION is not in a folder system beside the project or above it")
	check(all, "generator", "", "generator is not installed")
	check(all, "module", "", "interpreter is not installed")
	if next := failure.Next(all["OS_BASE"].Err); next != "set it, or: unpack it" {
		t.Errorf("next step %q", next)
	}

	writeIn(t, workspace, "bin/generator", "#!/bin/sh\necho generator 1.2\n")
	writeIn(t, workspace, "bin/interpreter",
		"#!/bin/sh\n[ $1 = module ] && echo no module >&2 && exit 1\necho read\ncat $1\n")
	for _, name := range []string{"generator", "interpreter"} {
		must(t, os.Chmod(filepath.Join(workspace, "bin", name), 0o755))
	}
	all = look()
	check(all, "generator", "generator 1.2", "")
	check(all, "module", "", "interpreter: exit status 1: no module")
	check(all, "tree", "", "needs the variable OS_BASE")

	writeIn(t, workspace, "system/VERSION", "3.2.0\n")
	all = look()
	check(all, "OS_BASE", filepath.Join(workspace, "system"), "")
	check(all, "tree", "3.2.0", "")
	check(all, "missing", "", "no-such-interpreter is not installed")
}

// TestSystemBoards: the boards that a template's command prints are listed, and a build for a board that is not among
// them reports the nearest name if it could not be configured.
func TestSystemBoards(t *testing.T) {
	s := newSystem(t, `"board": "out`, `"boards": ["sh", "$OS_BASE/list.sh"], "board": "out`)
	s.write(s.base, "list.sh", "echo kit arm; echo; echo node riscv\n")
	s.write(s.home, "boards/family/bare.json", strings.ReplaceAll(systemFamily, `"system"`, `"baremetal"`))
	names, unlisted, err := s.env.builder().SystemBoards(t.Context(), t.TempDir())
	must(t, err)
	want := []string{"system/kit", "system/node"}
	if !slices.Equal(names, want) || unlisted["bare"] == nil || unlisted["system"] != nil {
		t.Errorf("boards %q, not listed: %v", names, unlisted)
	}

	fails := func(board, message string) error {
		t.Helper()
		s.write(s.home, "templates/system/build.sh", "echo '"+message+"' >&2; exit 1\n")
		spec := s.spec(boards.Options{})
		spec.Board = board
		_, err := generated(t, spec, s.env).Build(t.Context())
		return err
	}
	err = fails("system/nood", "CMake Error: no such board")
	wantError(t, err, failure.Config, "mage boards", `board "nood" is not known; did you mean "node"?`, "no such board")
	if err := fails("system/oven", "CMake Error: undefined symbol"); strings.Contains(err.Error(), "is not known") {
		t.Errorf("a board of a folder that the list does not cover: %v", err)
	}
	for board, message := range map[string]string{
		"system/node": "CMake Error: no such shield", "system/node/soc": "CMake Error: no such shield",
		"system/node@2": "CMake Error: no such shield", "system/nood": "main.c:1: error: no such variable",
	} {
		if err := fails(board, message); err == nil || strings.Contains(err.Error(), "is not known") {
			t.Errorf("%s: %v", board, err)
		}
	}
	s.write(s.base, "list.sh", "exit 1\n")
	if _, unlisted, err = s.env.builder().SystemBoards(t.Context(), t.TempDir()); err != nil || unlisted["system"] == nil {
		t.Errorf("a command that fails: %v, not listed: %v", err, unlisted)
	}
}

// TestWrongVariable: a variable of the user's that names another folder than the template looks for is named, before
// anything is built there.
func TestWrongVariable(t *testing.T) {
	s := newSystem(t, `"board": "out`, `"boards": ["sh", "$OS_BASE/list.sh"], "board": "out`)
	p := s.project()
	wrong := t.TempDir()
	t.Setenv("OS_BASE", wrong)
	_, err := p.Build(t.Context())
	_, unlisted, failed := s.env.builder().SystemBoards(t.Context(), t.TempDir())
	must(t, failed)
	needs, failed := s.env.builder().Needs(t.Context(), t.TempDir())
	must(t, failed)
	found := slices.IndexFunc(needs, func(n buildenv.Need) bool { return n.Name == "OS_BASE" })
	for what, err := range map[string]error{"build": err, "boards": unlisted["system"], "needs": needs[found].Err} {
		want := "OS_BASE is " + wrong + ", which has no VERSION"
		t.Run(what, func(t *testing.T) { wantError(t, err, failure.Config, want) })
	}
}
