//go:build !windows

package project

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

const needyTemplate = `{"doc": "needy", "build": ["generator"], "inputs": ["src"], "env": {"OS_BASE": "$OS_BASE"},
	"find": [{"name": "OS_BASE", "has": "VERSION", "in": ["{above}/system"], "install": "unpack it"}],
	"tools": [{"name": "generator", "install": "pip install generator", "in": ["{above}/bin"]}],
	"checks": [
		{"name": "module", "command": ["interpreter", "module"], "install": "pip install module"},
		{"name": "tree", "command": ["interpreter", "$OS_BASE/VERSION"], "install": "update it"},
		{"name": "missing", "command": ["no-such-interpreter"], "install": "apt-get install interpreter"}
	],
	"build_id": "build/id.inc", "elf": "build/a.elf", "map": "build/a.map", "options": []}`

// TestNeeds: what a template needs is found where its builds find it, and what is missing is reported with its cause.
func TestNeeds(t *testing.T) {
	t.Setenv("OS_BASE", "")
	workspace := t.TempDir()
	e := testEnv()
	e.Path = []string{workspace}
	writeIn(t, workspace, "templates/needy/template.json", needyTemplate)
	look := func() map[string]TemplateNeed {
		t.Helper()
		all, err := e.builder().Needs(t.Context(), filepath.Join(workspace, "projects"))
		must(t, err)
		found := map[string]TemplateNeed{}
		for _, n := range all {
			if n.Template == "needy" {
				found[n.Name] = n
			}
		}
		return found
	}
	check := func(all map[string]TemplateNeed, name, found, missing string) {
		t.Helper()
		n, listed := all[name]
		if !listed || n.Found != found || (n.Err != nil) != (missing != "") || n.Install == "" ||
			n.Err != nil && !strings.Contains(n.Err.Error(), missing) {
			t.Errorf("%s: found %q, error %v, install %q; want %q and an error with %q", name, n.Found, n.Err, n.Install, found,
				missing)
		}
	}

	all := look()
	check(all, "OS_BASE", "", "{above}/system has no VERSION")
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
