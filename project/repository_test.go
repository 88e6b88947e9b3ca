//go:build !windows

package project

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

// TestRepository: a Builder of a repository knows the board and the template that boardsmith.json names, also from a
// folder below it.
func TestRepository(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	writeIn(t, d.home, "boardsmith.json", `{"board": "mine", "path": ["hw"], "template": "./firmware"}`)
	writeIn(t, d.home, "hw/boards/oven.json", `{"doc": "oven", "inherits": "cpu/native", "templates": ["firmware"],
		"link": {"kind": "process"}, "flash": {"programmer": "none"}}`)
	writeIn(t, d.home, "firmware/template.json", keptTemplate)
	writeIn(t, d.home, "below/x", "")
	b, err := Repository(t.Context(), filepath.Join(d.home, "below"))
	must(t, err)
	if !slices.Equal(b.Path, []string{filepath.Join(d.home, "hw")}) ||
		b.LockFile != filepath.Join(d.home, "boardsmith.lock.json") {
		t.Errorf("%q, %q", b.Path, b.LockFile)
	}
	generated(t, Spec{Board: "oven"}, b)
	writeIn(t, d.home, "boardsmith.json", `{"paht": ["hw"]}`)
	_, err = Repository(t.Context(), d.home)
	wantError(t, err, failure.Config)
}
