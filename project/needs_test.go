//go:build !windows

package project

import (
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
)

// TestSystemBoards: the boards that a template's command prints are listed, and a build for a board that is not among
// them reports the nearest name if it could not be configured.
func TestSystemBoards(t *testing.T) {
	s := newSystem(t, `"board": "out`, `"boards": ["sh", "$OS_BASE/list.sh"], "board": "out`)
	s.write(s.base, "list.sh", "echo kit arm; echo; echo node riscv\n")
	s.write(s.home, "boards/family/bare.json", strings.ReplaceAll(systemFamily, `"system"`, `"baremetal"`))
	names, unlisted, err := s.builder.SystemBoards(t.Context(), t.TempDir())
	must(t, err)
	want := []string{"system/kit", "system/node"}
	if !slices.Equal(names, want) || unlisted["bare"] == nil || unlisted["system"] != nil {
		t.Errorf("boards %q, not listed: %v", names, unlisted)
	}

	fails := func(board, message string) error {
		t.Helper()
		s.write(s.home, "templates/system/build.sh", "echo '"+message+"' >&2; exit 1\n")
		return buildError(t, generated(t, Spec{Board: board}, s.builder))
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
	if _, unlisted, err = s.builder.SystemBoards(t.Context(), t.TempDir()); err != nil || unlisted["system"] == nil {
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
	err := buildError(t, p)
	_, unlisted, failed := s.builder.SystemBoards(t.Context(), t.TempDir())
	must(t, failed)
	needs, failed := s.builder.Needs(t.Context(), t.TempDir())
	must(t, failed)
	found := slices.IndexFunc(needs, func(n buildenv.Need) bool { return n.Name == "OS_BASE" })
	for what, err := range map[string]error{"build": err, "boards": unlisted["system"], "needs": needs[found].Err} {
		want := "OS_BASE is " + wrong + ", which has no VERSION"
		t.Run(what, func(t *testing.T) { wantError(t, err, failure.Config, want) })
	}
}
