package project

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestBoardSettings: a project for Zephyr has the files of settings that its board file names; what the template does
// not read is refused, and a missing file has its line.
func TestBoardSettings(t *testing.T) {
	t.Parallel()
	generate := func(settings string) (*Project, error) {
		folder := t.TempDir()
		writeIn(t, folder, "boards/zephyr/mps2_an385.json", `{"doc": "kiln", "inherits": "family/zephyr",`+"\n"+
			`"settings": [`+settings+`]}`)
		writeIn(t, folder, "boards/zephyr/kiln.conf", "CONFIG_HEAP_MEM_POOL_SIZE=2048\n")
		writeIn(t, folder, "boards/zephyr/more/kiln.overlay", "/* none */\n")
		writeIn(t, folder, "boards/zephyr/kiln.txt", "\n")
		e := testEnv()
		e.Path = []string{folder}
		return e.builder().Generate(t.Context(), filepath.Join(t.TempDir(), "p"),
			Spec{Board: "zephyr/mps2_an385", Model: mlftest.Tiny(t, nil)})
	}
	p, err := generate(`"kiln.conf", "more/kiln.overlay"`)
	must(t, err)
	defer p.Close()
	for _, name := range []string{"board/kiln.conf", "board/more/kiln.overlay"} {
		if _, err := os.Stat(filepath.Join(p.Dir(), name)); err != nil {
			t.Error(err)
		}
	}
	for settings, want := range map[string]string{
		`], "runtime_opt": "O3", "svd_except": [`:                    "template zephyr does not use runtime_opt of board zephyr/mps2_an385",
		`], "toolchain": {"cc": "gcc", "ar": "ar"}, "svd_except": [`: "template zephyr does not use toolchain",
		`], "cflags": ["-O3"`:                                        "template zephyr does not use cflags",
		`"kiln.txt"`:                                                 "template zephyr does not use settings of board zephyr/mps2_an385",
		`"kiln.cnf"`:                                                 "template zephyr does not use settings",
		`"oven.conf"`:                                                `mps2_an385.json:2: settings: "oven.conf"`,
		`"../kiln.conf"`:                                             `mps2_an385.json:2: settings[0]: "../kiln.conf" is not a relative path`,
	} {
		_, err := generate(settings)
		wantError(t, err, failure.Config, want)
	}
}
