package templatefile

import (
	"encoding/json"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// withChange returns a description of two texts of JSON, of which the second replaces fields of the first.
func withChange(t *testing.T, good, change string) (d Description) {
	t.Helper()
	must(t, json.Unmarshal([]byte(good), &d))
	must(t, json.Unmarshal([]byte(change), &d))
	return d
}

// TestTemplateRefused: places that no file has, and trees, searches and board files that cannot be, are refused when
// the template is read.
func TestTemplateRefused(t *testing.T) {
	t.Parallel()
	const good = `{"build": ["west"], "inputs": ["src"], "elf": "build/a.elf", "map": "build/a.map",
		"env": {"BASE": "$BASE", "MAYBE": "$MAYBE?", "OTHER": "$BASE", "FIXED": "x"}, "outside": ["$BASE/VERSION"],
		"trees": ["$BASE", "$BASE/../modules/*"], "find": [{"name": "BASE", "has": "VERSION", "in": ["{above}/a", "~/a"]}],
		"board": "build/board.json", "tools": [{"name": "west", "in": ["$BASE/bin"]}]}`
	d := withChange(t, good, `{}`)
	must(t, d.Check())
	for name, change := range map[string]string{
		"a variable that is not passed":   `{"outside": ["$HOME/x"]}`,
		"a variable of another name":      `{"outside": ["$OTHER/x"]}`,
		"a fixed value":                   `{"outside": ["$FIXED/x"]}`,
		"no variable":                     `{"outside": ["BASE/x"]}`,
		"all of it":                       `{"outside": ["$BASE"]}`,
		"above it":                        `{"outside": ["$BASE/../x"]}`,
		"a form elsewhere":                `{"forms": {"hex": "src/a.hex"}}`,
		"a landmark without a name":       `{"landmarks": {"stacks": [{}]}}`,
		"a landmark with two":             `{"landmarks": {"kept": {"symbol": "a", "section": ".b"}}}`,
		"the end of a section":            `{"landmarks": {"parts": [{"section": ".a", "end": "b"}]}}`,
		"a reset cause that only ends":    `{"landmarks": {"reset_cause": {"end": "b"}}}`,
		"a tree of no variable":           `{"trees": ["BASE"]}`,
		"a tree of another variable":      `{"trees": ["$OTHER"]}`,
		"a tree that may be unset":        `{"trees": ["$MAYBE"]}`,
		"a tree of a wrong pattern":       `{"trees": ["$BASE/["]}`,
		"a tree's parent in its middle":   `{"trees": ["$BASE/a/../b"]}`,
		"a tree's parent at its end":      `{"trees": ["$BASE/a/.."]}`,
		"a search without a file":         `{"find": [{"name": "BASE", "has": "", "in": ["~/a"]}]}`,
		"a search for a file elsewhere":   `{"find": [{"name": "BASE", "has": "../x", "in": ["~/a"]}]}`,
		"a search nowhere":                `{"find": [{"name": "BASE", "has": "x", "in": []}]}`,
		"a search in itself":              `{"find": [{"name": "BASE", "has": "x", "in": ["$BASE"]}]}`,
		"a search in a fixed place":       `{"find": [{"name": "BASE", "has": "x", "in": ["/opt"]}]}`,
		"a check without a command":       `{"checks": [{"name": "a"}]}`,
		"no command for boards":           `{"boards": [""]}`,
		"a check without a name":          `{"checks": [{"command": ["a"]}]}`,
		"a check of another variable":     `{"checks": [{"name": "a", "command": ["a", "$THIRD/b"]}]}`,
		"a tool in a fixed place":         `{"tools": [{"name": "west", "in": ["bin"]}]}`,
		"a board file elsewhere":          `{"board": "board.json"}`,
		"a board file outside":            `{"board": "build/../../board.json"}`,
		"a programmer's folder elsewhere": `{"programmer_folder": "buildings/x"}`,
		"results elsewhere":               `{"results": ["x"]}`,
		"results of a wrong pattern":      `{"results": ["build/["]}`,
		"reads of a wrong pattern":        `{"configure_reads": ["model/["]}`,
		"reads outside":                   `{"configure_reads": ["../x"]}`,
		"forms on request":                `{"build": ["make", "{forms}"]}`,
	} {
		if bad := withChange(t, good, change); bad.Check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestCheckNamesField: an error has the field's name, and the name that was meant.
func TestCheckNamesField(t *testing.T) {
	t.Parallel()
	const good = `{"build": ["make", "-j{jobs}", "{name}"], "elf": "build/a.elf", "map": "build/a.map"}`
	d := withChange(t, good, `{}`)
	must(t, d.Check())
	for want, change := range map[string]string{
		`options: option "arena_kb" is not known; did you mean "arena_kib"?`: `{"options": ["arena_kb"]}`,
		`build: {job} is not replaced by anything; did you mean "{jobs}"?`:   `{"build": ["make", "-j{job}"]}`,
		`map: "other/a.map" is not in the build folder "build" of elf`:       `{"map": "other/a.map"}`,
		`forms: "src/a.hex" is not in the build folder "build" of elf`:       `{"forms": {"hex": "src/a.hex"}}`,
		`results: "x" is not in the build folder "build" of elf`:             `{"results": ["x"]}`,
		`elf: missing`:                          `{"elf": ""}`,
		`elf: "a.elf" is not in a build folder`: `{"elf": "a.elf"}`,
		`elf: "project.json": the name is reserved for boardsmith's own files`: `{"elf": "project.json/a.elf",
			"map": "project.json/a.map"}`,
		`build: no command`:                                                        `{"build": []}`,
		`prepare: an empty command`:                                                `{"prepare": [[]]}`,
		`prepare: only build replaces {forms}`:                                     `{"prepare": [["make", "{forms}"]]}`,
		`compile[0].files[0]: "[" is not a valid pattern`:                          `{"compile": [{"files": ["["]}]}`,
		`areas.own[0]: "[" is not a valid pattern`:                                 `{"areas": {"own": ["["]}}`,
		`startup[0]: "[" is not a valid pattern`:                                   `{"startup": ["["]}`,
		`settings[0]: "[" is not a valid pattern`:                                  `{"settings": ["["]}`,
		`configure_reads[0]: "[" is not a valid pattern`:                           `{"configure_reads": ["["]}`,
		`reconfigure[0]: "[" is not a valid pattern`:                               `{"reconfigure": ["["]}`,
		`reads[2]: "opt/x" is not a place that begins with $NAME, {above}, ~ or /`: `{"reads": ["~/x*", "/opt", "opt/x"]}`,
		`tools[0].name: missing`:                                                   `{"tools": [{"install": "apt-get install x"}]}`,
		`find: "BASE" is no user's variable of env`:                                `{"find": [{"name": "BASE", "has": "x", "in": ["~/x"]}]}`,
		`landmarks.folders.model: "../x" is not a path inside the project`:         `{"landmarks": {"folders": {"model": "../x"}}}`,
		`landmarks.folders: folder "build/x" is in folder "build"`:                 `{"landmarks": {"folders": {"model": "build/x"}}}`,
		`generate: "crt_config/operator.mk" is none of the generated files; did you mean "crt_config/operators.mk"?`: `{"generate":
			["crt_config/operator.mk"]}`,
	} {
		bad := withChange(t, good, change)
		if err := bad.Check(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestConditionalWordRefused: a word of the build command depends on a path below a user's variable, or on nothing.
func TestConditionalWordRefused(t *testing.T) {
	for _, word := range []string{"{if $HOME/x}-a", "{if $BASE}-a", "{if $BASE/../x}-a", "{if /x}-a", "{if $BASE/x}"} {
		bad := Description{Build: []string{"make", word}, Env: map[string]string{"BASE": "$BASE"}}
		if bad.checkIfs() == nil {
			t.Errorf("%s: taken", word)
		}
	}
}

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
)
