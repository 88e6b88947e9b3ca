package project

import (
	"reflect"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// TestOtherNames: a template whose folders and sections have other names gives the same sizes, parts and stack depth,
// and its faults name the operator.
func TestOtherNames(t *testing.T) {
	t.Parallel()
	const board = "mps2_an385"
	broken := mlftest.Edited(t, "return 0;", "*(volatile int*)0xdead0000 = 1; return 0;")
	var usages [2]*Usage
	var images [2]*image.Image
	for n, template := range []string{"", copyOfBaremetal(t, map[string][]string{
		"template.json": {
			`"build/`, `"stuff/`, `"landmarks": {`, `"landmarks": {"folders": {"model": "graph", "runtime": "tvm"},`,
			`".stack"`, `".depth"`, `".handler_stack"`, `".handler_depth"`, `".arena"`, `".pages"`,
		},
		"Makefile": {
			"CRT := crt\n", "CRT := tvm\n", "MODEL := model\n", "MODEL := graph\n", "BUILD := build\n", "BUILD := stuff\n",
			"$(BUILD)/model", "$(BUILD)/graph", "$(BUILD)/crt/", "$(BUILD)/tvm/",
		},
		"link.ld.S": { // as long as its own names
			"  .stack (NOLOAD)", "  .depth (NOLOAD)", "  .handler_stack (NOLOAD)", "  .handler_depth (NOLOAD)",
			"  .arena (NOLOAD)", "  .pages (NOLOAD)",
		},
	})} {
		p := generated(t, Spec{Board: board, Template: template, Model: broken})
		images[n], usages[n] = built(t, p), usageOf(t, p)
		if n == 1 {
			absent(t, p.at("build"), p.at("crt"), p.at("model"))
			faultOfTwice(t, callTwice(t, p, "flash"))
		}
	}
	if !reflect.DeepEqual(usages[0], usages[1]) {
		t.Errorf("the shipped template's image has\n%+v\n%+v\nthis one\n%+v\n%+v", usages[0], usages[0].Stack, usages[1],
			usages[1].Stack)
	}
	if images[0].Size != images[1].Size {
		t.Errorf("sizes %+v and %+v", images[0].Size, images[1].Size)
	}
}

// TestFoldersAreChecked refuses folders that would hold each other's files.
func TestFoldersAreChecked(t *testing.T) {
	t.Parallel()
	for _, folders := range []string{
		`{"model": "../x"}`, `{"model": "crt"}`, `{"runtime": "model/tvm"}`, `{"runtime": "build"}`,
		`{"model": "build/net"}`, `{"model": "."}`,
	} {
		_, err := generate(t, Spec{Template: copyOfBaremetal(t, map[string][]string{
			templatefile.TemplateFile: {`"landmarks": {`, `"landmarks": {"folders": ` + folders + `,`},
		})})
		wantError(t, err, failure.Config)
	}
}
