package templatefile

import (
	"testing"

	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestTemplateRefused: places that no file has are refused when the template is read.
func TestTemplateRefused(t *testing.T) {
	t.Parallel()
	good := Description{
		Build: []string{"make"}, Inputs: []string{"src"}, ELF: "build/a.elf", Map: "build/a.map",
		Env: map[string]string{"BASE": "$BASE", "OTHER": "$BASE", "FIXED": "x"}, Outside: []string{"$BASE/VERSION"},
	}
	must(t, good.Check())
	for name, change := range map[string]func(*Description){
		"a variable that is not passed": func(b *Description) { b.Outside = []string{"$HOME/x"} },
		"a variable of another name":    func(b *Description) { b.Outside = []string{"$OTHER/x"} },
		"a fixed value":                 func(b *Description) { b.Outside = []string{"$FIXED/x"} },
		"no variable":                   func(b *Description) { b.Outside = []string{"BASE/x"} },
		"all of it":                     func(b *Description) { b.Outside = []string{"$BASE"} },
		"above it":                      func(b *Description) { b.Outside = []string{"$BASE/../x"} },
		"a form elsewhere":              func(b *Description) { b.Forms.Hex = "src/a.hex" },
		"a landmark without a name":     func(b *Description) { b.Landmarks.Stacks = []firmware.Place{{}} },
		"a landmark with two": func(b *Description) {
			b.Landmarks.Kept = firmware.Place{Symbol: "a", Section: ".b"}
		},
		"the end of a section": func(b *Description) {
			b.Landmarks.Parts = []firmware.Place{{Section: ".a", End: "b"}}
		},
		"a reset cause that only ends": func(b *Description) { b.Landmarks.ResetCause = firmware.Place{End: "b"} },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestTemplateOfATreeRefused: trees, searches and board files that cannot be are refused when the template is read.
func TestTemplateOfATreeRefused(t *testing.T) {
	t.Parallel()
	good := Description{
		Build: []string{"west"}, Inputs: []string{"src"}, ELF: "build/a.elf", Map: "build/a.map",
		Env: map[string]string{"BASE": "$BASE", "MAYBE": "$MAYBE?"}, Trees: []string{"$BASE", "$BASE/../modules/*"},
		Find:  []Search{{Name: "BASE", Has: "VERSION", In: []string{"{above}/a", "~/a"}}},
		Board: "build/board.json", Tools: []Tool{{Name: "west", In: []string{"$BASE/bin"}}},
	}
	must(t, good.Check())
	for name, change := range map[string]func(*Description){
		"a tree of no variable":         func(b *Description) { b.Trees = []string{"BASE"} },
		"a tree of another variable":    func(b *Description) { b.Trees = []string{"$OTHER"} },
		"a tree that may be unset":      func(b *Description) { b.Trees = []string{"$MAYBE"} },
		"a tree of a wrong pattern":     func(b *Description) { b.Trees = []string{"$BASE/["} },
		"a tree's parent in its middle": func(b *Description) { b.Trees = []string{"$BASE/a/../b"} },
		"a tree's parent at its end":    func(b *Description) { b.Trees = []string{"$BASE/a/.."} },
		"a search without a file":       func(b *Description) { b.Find = []Search{{Name: "BASE", In: []string{"~/a"}}} },
		"a search for a file elsewhere": func(b *Description) {
			b.Find = []Search{{Name: "BASE", Has: "../x", In: []string{"~/a"}}}
		},
		"a search nowhere": func(b *Description) { b.Find = []Search{{Name: "BASE", Has: "x"}} },
		"a search in itself": func(b *Description) {
			b.Find = []Search{{Name: "BASE", Has: "x", In: []string{"$BASE"}}}
		},
		"a search in a fixed place": func(b *Description) {
			b.Find = []Search{{Name: "BASE", Has: "x", In: []string{"/opt"}}}
		},
		"a check without a command": func(b *Description) { b.Checks = []SetupCheck{{Name: "a"}} },
		"no command for boards":     func(b *Description) { b.Boards = []string{""} },
		"a check without a name":    func(b *Description) { b.Checks = []SetupCheck{{Command: []string{"a"}}} },
		"a check of another variable": func(b *Description) {
			b.Checks = []SetupCheck{{Name: "a", Command: []string{"a", "$OTHER/b"}}}
		},
		"a tool in a fixed place": func(b *Description) {
			b.Tools = []Tool{{Name: "west", In: []string{"bin"}}}
		},
		"a board file elsewhere":          func(b *Description) { b.Board = "board.json" },
		"a board file outside":            func(b *Description) { b.Board = "build/../../board.json" },
		"a programmer's folder elsewhere": func(b *Description) { b.ProgrammerFolder = "buildings/x" },
		"results elsewhere":               func(b *Description) { b.Results = []string{"x"} },
		"results of a wrong pattern":      func(b *Description) { b.Results = []string{"build/["} },
		"reads of a wrong pattern":        func(b *Description) { b.ConfigureReads = []string{"model/["} },
		"reads outside":                   func(b *Description) { b.ConfigureReads = []string{"../x"} },
		"forms on request":                func(b *Description) { b.Build = []string{"make", "{forms}"} },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestCheckNamesField: an error has the field's name, and the name that was meant.
func TestCheckNamesField(t *testing.T) {
	t.Parallel()
	good := Description{Build: []string{"make", "-j{jobs}", "{name}"}, ELF: "build/a.elf", Map: "build/a.map"}
	must(t, good.Check())
	for want, change := range map[string]func(*Description){
		`options: option "arena_kb" is not known; did you mean "arena_kib"?`: func(b *Description) { b.Options = []string{"arena_kb"} },
		`build: {job} is not replaced by anything; did you mean "{jobs}"?`:   func(b *Description) { b.Build = []string{"make", "-j{job}"} },
		`map: "other/a.map" is not in the build folder "build" of elf`:       func(b *Description) { b.Map = "other/a.map" },
		`forms: "src/a.hex" is not in the build folder "build" of elf`:       func(b *Description) { b.Forms.Hex = "src/a.hex" },
		`results: "x" is not in the build folder "build" of elf`:             func(b *Description) { b.Results = []string{"x"} },
		`elf: missing`:                          func(b *Description) { b.ELF = "" },
		`elf: "a.elf" is not in a build folder`: func(b *Description) { b.ELF = "a.elf" },
		`elf: "project.json": the name is reserved for boardsmith's own files`: func(b *Description) {
			b.ELF, b.Map = "project.json/a.elf", "project.json/a.map"
		},
		`build: no command`:                                                        func(b *Description) { b.Build = nil },
		`prepare: an empty command`:                                                func(b *Description) { b.Prepare = [][]string{{}} },
		`prepare: only build replaces {forms}`:                                     func(b *Description) { b.Prepare = [][]string{{"make", "{forms}"}} },
		`compile[0].files[0]: "[" is not a valid pattern`:                          func(b *Description) { b.Compile = []CompileStep{{Files: []string{"["}}} },
		`areas.own[0]: "[" is not a valid pattern`:                                 func(b *Description) { b.Areas.Own = []string{"["} },
		`startup[0]: "[" is not a valid pattern`:                                   func(b *Description) { b.Startup = []string{"["} },
		`settings[0]: "[" is not a valid pattern`:                                  func(b *Description) { b.Settings = []string{"["} },
		`configure_reads[0]: "[" is not a valid pattern`:                           func(b *Description) { b.ConfigureReads = []string{"["} },
		`reconfigure[0]: "[" is not a valid pattern`:                               func(b *Description) { b.Reconfigure = []string{"["} },
		`reads[2]: "opt/x" is not a place that begins with $NAME, {above}, ~ or /`: func(b *Description) { b.Reads = []string{"~/x*", "/opt", "opt/x"} },
		`tools[0].name: missing`:                                                   func(b *Description) { b.Tools = []Tool{{Install: "apt-get install x"}} },
		`find: "BASE" is no user's variable of env`: func(b *Description) {
			b.Find = []Search{{Name: "BASE", Has: "x", In: []string{"~/x"}}}
		},
		`landmarks.folders.model: "../x" is not a path inside the project`: func(b *Description) {
			b.Landmarks.Folders.Model = "../x"
		},
		`landmarks.folders: folder "build/x" is in folder "build"`: func(b *Description) {
			b.Landmarks.Folders.Model = "build/x"
		},
		`generate: "crt_config/operator.mk" is none of the generated files; did you mean "crt_config/operators.mk"?`: func(
			b *Description,
		) {
			b.Generate = []string{"crt_config/operator.mk"}
		},
	} {
		bad := good
		change(&bad)
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
