package project

import (
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
)

// TestBoardSettings: a project for Zephyr has the files of settings that its board file names; what the template does
// not read is refused, and a missing file has its line.
func TestBoardSettings(t *testing.T) {
	t.Parallel()
	with := func(settings string) (*Project, error) {
		return generate(t, Spec{Board: "zephyr/mps2_an385"}, newBuilder(boardstest.Shelf(t, map[string]string{
			"zephyr/mps2_an385.json": `{"doc": "kiln", "inherits": "family/zephyr",` + "\n" +
				`"settings": [` + settings + `]}`,
			"zephyr/kiln.conf": "CONFIG_HEAP_MEM_POOL_SIZE=2048\n", "zephyr/kiln.txt": "\n",
			"zephyr/more/kiln.overlay": "/* none */\n",
		})))
	}
	p, err := with(`"kiln.conf", "more/kiln.overlay"`)
	must(t, err)
	readFile(t, p.at("board/kiln.conf"))
	readFile(t, p.at("board/more/kiln.overlay"))
	for settings, want := range map[string]string{
		`], "runtime_opt": "O3", "svd_except": [`:                    "template zephyr does not use runtime_opt of board zephyr/mps2_an385",
		`], "toolchain": {"cc": "gcc", "ar": "ar"}, "svd_except": [`: "template zephyr does not use toolchain",
		`], "cflags": ["-O3"`:                                        "template zephyr does not use cflags",
		`"kiln.txt"`:                                                 "template zephyr does not use settings of board zephyr/mps2_an385",
		`"kiln.cnf"`:                                                 "template zephyr does not use settings",
		`"oven.conf"`:                                                `mps2_an385.json:2: settings: "oven.conf"`,
		`"../kiln.conf"`:                                             `mps2_an385.json:2: settings[0]: "../kiln.conf" is not a relative path`,
	} {
		_, err := with(settings)
		wantError(t, err, failure.Config, want)
	}
}
