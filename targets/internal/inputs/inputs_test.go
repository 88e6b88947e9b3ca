package inputs

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/console"
)

func init() { console.Declare("", Variables{}) }

// resolve is Resolve with these variables, NAME=value.
func resolve(variables []string, s Source) (*Inputs, error) {
	if err := console.New(testkit.Environment(variables...), io.Discard, io.Discard).Read(&s.Variables); err != nil {
		return nil, err
	}
	return Resolve(s)
}

// recording is a Load of a project, nil: there is none.
func recording(project *boardsmithjson.Choice) Load {
	return func(_ *Inputs, defaults *boardsmithjson.Choice) (bool, error) {
		if project != nil {
			timeout := defaults.Timeout // which a project does not record
			*defaults = *project
			defaults.Timeout = timeout
		}
		return project != nil, nil
	}
}

var none = recording(nil)

// A row has variables, NAME=value|NAME=value, the project, nil: there is none, and what the inputs then are.
type row struct {
	name, variables string
	recorded        *boardsmithjson.Choice
	want            string
}

// check resolves rows in a folder with a boardsmith.json of this text: board, device, model, options, the project's
// folder, the timeout, and what the user set; or the error.
func check(t *testing.T, s Source, file string, rows ...row) {
	t.Helper()
	s.Dir = t.TempDir()
	t.Chdir(s.Dir)
	testkit.WriteFile(t, boardsmithjson.Name, file)
	testkit.WriteFile(t, "old/project.json", "{}")
	for _, c := range rows {
		s.Load = recording(c.recorded)
		in, err := resolve(strings.Split(c.variables, "|"), s)
		got := fmt.Sprintf("%s: %v", failure.Of(err), err)
		if err == nil {
			maps.DeleteFunc(in.Set, func(_ string, set bool) bool { return !set })
			got = fmt.Sprintln(in.Board, in.Device, strings.Replace(in.Model, s.Dir, "DIR", 1), in.ModelName,
				in.Options.Words(), "in", in.Project, in.Timeout, slices.Sorted(maps.Keys(in.Set)))
		}
		testkit.Equal(t, c.name, filepath.ToSlash(strings.Join(strings.Fields(got), " ")), c.want)
	}
}

// TestPrecedence sets each input in the four places that can have it. PLACE sets one option over the project's, and
// leaves the others.
func TestPrecedence(t *testing.T) {
	shelf := t.TempDir()
	testkit.WriteFile(t, filepath.Join(shelf, "boards", "family", "system.json"), "{}")
	project := &boardsmithjson.Choice{
		Board: "oldboard", Model: "m.tar", Options: []string{"arena_kib=3", "place=arena=ram"},
	}
	check(t, Source{Shelf: shelf}, `{"board": "fileboard", "model": "f.tar", "options": {"arena_kib": 1},
		"timeout": "5s", "targets": {"t": {"board": "targetboard", "options": {"arena_kib": 2}}}}`,
		row{"nothing asked", "", nil, "fileboard DIR/f.tar [arena_kib=1] in build/fileboard/f 5s [BOARD MODEL]"},
		row{"project over file", "PROJECT=p", project, "oldboard m.tar [arena_kib=3 place=arena=ram] in p 5s []"},
		row{"new project", "PROJECT=p", nil, "fileboard DIR/f.tar [arena_kib=1] in p 5s []"},
		row{
			"environment over all", "PROJECT=p|BOARD=envboard|MODEL=e.tar|OPTIONS= arena_kib=9  log_level=warn |TIMEOUT=7",
			project, "envboard e.tar [arena_kib=9 log_level=warn] in p 7s [BOARD MODEL OPTIONS]",
		},
		row{
			"target over project", "PROJECT=p|TARGET=t", project,
			"targetboard m.tar [arena_kib=2] in p 5s [BOARD OPTIONS]",
		},
		row{
			"board of a family", "BOARD=system/vendor/kit", nil,
			"system/vendor/kit DIR/f.tar [arena_kib=1] in build/system+vendor+kit/f 5s [BOARD MODEL]",
		},
		row{
			"board file", "BOARD=elsewhere/kit.json", nil,
			"elsewhere/kit.json DIR/f.tar [arena_kib=1] in build/kit/f 5s [BOARD MODEL]",
		},
		row{
			"environment over target", "BOARD=envboard|TARGET=t", nil,
			"envboard DIR/f.tar [arena_kib=2] in build/envboard/f 5s [BOARD MODEL OPTIONS]",
		},
		row{
			"PLACE over project", "PROJECT=p|PLACE=operators=itcm, pools.a=dtcm", project,
			"oldboard m.tar [arena_kib=3 place=operators=itcm,pools.a=dtcm] in p 5s [OPTIONS]",
		},
		row{
			"PLACE beside OPTIONS", "PROJECT=p|PLACE=stack=ram|OPTIONS=arena_kib=3", project,
			"oldboard m.tar [arena_kib=3 place=stack=ram] in p 5s [OPTIONS]",
		})
}

func TestBadInputs(t *testing.T) {
	for _, variable := range []string{
		"REPEAT=0", "REPEAT=1000001", "TIMEOUT=-1s", "TIMEOUT=NaN", "TARGET=none", "PLACE=itcm",
	} {
		_, value, _ := strings.Cut(variable, "=")
		_, err := resolve([]string{variable}, Source{Dir: t.TempDir(), Load: none})
		testkit.WantError(t, err, failure.Config, value)
	}
}

func TestArchiveName(t *testing.T) {
	for in, want := range map[string]string{
		"": "digits_i8.aot_packed", "a/kws.tar": "kws", "kws.tar.gz": "kws",
		"kws.tgz": "kws", "kws": "kws", "../inputs": "inputs", ".": "inputs", "x/..": "inputs", "..": "internal",
	} {
		testkit.Equal(t, in, ArchiveName(in), want)
	}
}

// TestSeveralArchives: firmware is of one archive; a file's name may have a comma.
func TestSeveralArchives(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	testkit.WriteFile(t, "a,b.tar", "")
	for model, refused := range map[string]bool{"a.tar,b.tar": true, "a,b.tar": false, "a.tar": false} {
		for _, app := range []string{"", boards.Standalone, Library} {
			_, err := resolve([]string{"MODEL=" + model, "APP=" + app}, Source{Dir: dir, Load: none})
			testkit.WantErrorIf(t, refused && app != Library, err, failure.Config, "names 2 archives", "APP=library")
		}
	}
}

// TestDefaultApp: a target's app is for new projects, unless the user chose another one. A project whose folder follows
// from the bundled sample has that sample, whatever the project there records.
func TestDefaultApp(t *testing.T) {
	old := &boardsmithjson.Choice{Board: "host", Model: "m.tar", Options: []string{"arena_kib=3"}}
	const rpc = "host [app=rpc] in build/host/digits_i8.aot_packed 0s [BOARD MODEL OPTIONS]"
	check(t, Source{New: boards.Standalone}, "{}",
		row{"new", "", nil, "host [app=standalone] in build/host/digits_i8.aot_packed.standalone 0s [BOARD MODEL OPTIONS]"},
		row{
			"derived", "", old,
			"host [arena_kib=3 app=standalone] in build/host/digits_i8.aot_packed.standalone 0s [BOARD MODEL OPTIONS]",
		},
		row{"named and new", "PROJECT=new", nil, "host [app=standalone] in new 0s [OPTIONS]"},
		row{"named and old", "PROJECT=old", old, "host m.tar [arena_kib=3] in old 0s []"},
		row{"by APP", "APP=rpc", nil, rpc},
		row{"by OPTIONS", "OPTIONS=app=rpc", nil, rpc},
		row{"library", "APP=library", nil, "host [] in build/host/digits_i8.aot_packed.library 0s [BOARD MODEL]"})
}

// TestOptionsOfBoards: OPTIONS for another board changes nothing, OPTIONS replaces all of boardsmith.json's, and APP
// and PLACE override a target's options.
func TestOptionsOfBoards(t *testing.T) {
	const (
		standalone = "in build/host/digits_i8.aot_packed.standalone 0s [BOARD MODEL"
		file       = "host left [operator_opt=O3 app=standalone] " + standalone + "]"
	)
	check(t, Source{New: boards.Standalone}, `{"device": "left", "options": {"app": "standalone", "operator_opt": "O3"},
		"targets": {"t": {"options": {"app": "standalone", "place": "stack=ram"}}}}`,
		row{"the file's", "", nil, file},
		row{
			"one", "OPTIONS=operator_opt=O1", nil, "host left [operator_opt=O1 app=standalone] " + standalone + " OPTIONS]",
		},
		row{"of another board", "OPTIONS=kiln:app=rpc", nil, file},
		row{
			"of this board", "OPTIONS=host:app=rpc", nil,
			"host left [app=rpc] in build/host/digits_i8.aot_packed 0s [BOARD MODEL OPTIONS]",
		},
		row{
			"of BOARD", "BOARD=kiln|OPTIONS=kiln:app=rpc", nil,
			"kiln [app=rpc] in build/kiln/digits_i8.aot_packed 0s [BOARD MODEL OPTIONS]",
		},
		row{
			"APP over target", "TARGET=t|APP=rpc", nil,
			"host left [app=rpc place=stack=ram] in build/host/digits_i8.aot_packed 0s [BOARD MODEL OPTIONS]",
		},
		row{
			"PLACE over target", "TARGET=t|PLACE=stack=itcm", nil,
			"host left [app=standalone place=stack=itcm] " + standalone + " OPTIONS]",
		},
		row{
			"library", "APP=library|OPTIONS=host:operator_opt=O0", nil,
			"host left [operator_opt=O0] in build/host/digits_i8.aot_packed.library 0s [BOARD MODEL OPTIONS]",
		},
		row{
			"library in PROJECT", "APP=library|PROJECT=p|OPTIONS=host:operator_opt=O0", nil,
			"host left [operator_opt=O0] in p 0s [OPTIONS]",
		})
}

// TestUnusedOptions: options that are for another app of the template, or that a project has and its template no longer
// uses, are dropped. Those that the user sets for this run, or that no app uses, stay, and are an error when generated.
func TestUnusedOptions(t *testing.T) {
	const (
		file   = `{"options": {"arena_kib": 64, "operator_opt": "O3"}, "targets": {"small": {"options": {"arena_kib": 8}}}}`
		server = " in build/host/digits_i8.aot_packed 0s [BOARD MODEL OPTIONS]"
		other  = " in build/host/digits_i8.aot_packed.standalone 0s [BOARD MODEL OPTIONS]"
	)
	uses := func(_ *Inputs, app string) ([]string, error) {
		if app == boards.Standalone {
			return []string{"operator_opt"}, nil
		}
		return []string{"arena_kib", "operator_opt"}, nil
	}
	old := &boardsmithjson.Choice{Options: []string{"arena_kib=1", "stack_bytes=2"}}
	check(t, Source{New: boards.Standalone, Uses: uses}, file,
		row{"the server's", "APP=rpc", nil, "host [arena_kib=64 operator_opt=O3 app=rpc]" + server},
		row{"another app's", "", nil, "host [operator_opt=O3 app=standalone]" + other},
		row{"another app's by TARGET", "TARGET=small", nil, "host [app=standalone]" + other},
		row{"set", "OPTIONS=arena_kib=8", nil, "host [arena_kib=8 app=standalone]" + other},
		row{"no longer used", "APP=rpc", old, "host [arena_kib=1 app=rpc]" + server},
		row{"set, and no longer used", "APP=rpc|OPTIONS=stack_bytes=9", nil, "host [stack_bytes=9 app=rpc]" + server})
	unknown := func(*Inputs, string) ([]string, error) { return []string{"packet_bytes"}, nil }
	check(t, Source{Uses: unknown}, file, row{
		"of no app", "", nil, "host [arena_kib=64 operator_opt=O3] in build/host/digits_i8.aot_packed 0s [BOARD MODEL]",
	})
}

// TestModelName selects one of an archive's models.
func TestModelName(t *testing.T) {
	recorded := &boardsmithjson.Choice{Board: "host", Model: "m.tar", ModelName: "third"}
	check(t, Source{}, `{"model": "f.tar", "model_name": "first"}`,
		row{"file's", "", nil, "host DIR/f.tar first [] in build/host/f.first 0s [BOARD MODEL]"},
		row{
			"another one", "MODEL_NAME=second", nil,
			"host DIR/f.tar second [] in build/host/f.second 0s [BOARD MODEL MODEL_NAME]",
		},
		row{"another file", "MODEL=g.tar", nil, "host g.tar [] in build/host/g 0s [BOARD MODEL]"},
		row{
			"another file's", "MODEL=g.tar|MODEL_NAME=one", nil,
			"host g.tar one [] in build/host/g.one 0s [BOARD MODEL MODEL_NAME]",
		},
		row{"project's", "PROJECT=p", recorded, "host m.tar third [] in p 0s []"},
		row{"new project's", "PROJECT=p", nil, "host DIR/f.tar first [] in p 0s []"})
}

// TestLibrary: a library has the operators' options of the first place that has options, and refuses PLACE. Its default
// folder has the names of all its archives, and none of them is empty.
func TestLibrary(t *testing.T) {
	check(t, Source{}, `{"options": {"arena_kib": 1, "operator_opt": "Os"},
		"targets": {"t": {"options": {"stack_bytes": 100, "operator_flags": "-O1"}}}}`,
		row{
			"sample", "APP=library", nil,
			"host [operator_opt=Os] in build/host/digits_i8.aot_packed.library 0s [BOARD MODEL]",
		},
		row{
			"target", "APP=library|TARGET=t", nil,
			"host [operator_flags=-O1] in build/host/digits_i8.aot_packed.library 0s [BOARD MODEL OPTIONS]",
		},
		row{
			"OPTIONS", "APP=library|MODEL=a.tar|TARGET=t|OPTIONS=operator_opt=O3 arena_kib=2", nil,
			"host a.tar [arena_kib=2 operator_opt=O3] in build/host/a.library 0s [BOARD MODEL OPTIONS]",
		},
		row{
			"PLACE", "APP=library|PLACE=stack=ram", nil,
			"config: PLACE=stack=ram is for firmware, but APP=library makes none",
		},
		row{
			"two archives", "APP=library|MODEL=x/a.tar,y/b.tar.gz", nil,
			"host x/a.tar,y/b.tar.gz [operator_opt=Os] in build/host/a+b.library 0s [BOARD MODEL]",
		},
		row{
			"one model", "APP=library|MODEL=a.tar|MODEL_NAME=kws", nil,
			"host a.tar kws [operator_opt=Os] in build/host/a.kws.library 0s [BOARD MODEL MODEL_NAME]",
		},
		row{"empty name", "APP=library|MODEL=a.tar,,b.tar", nil, "config: MODEL=a.tar,,b.tar has an empty name"},
		row{"empty end", "APP=library|MODEL=a.tar,", nil, "config: MODEL=a.tar, has an empty name"},
		row{
			"no library", "APP=standalone|MODEL=a.tar", nil,
			"host a.tar [arena_kib=1 operator_opt=Os app=standalone] in build/host/a.standalone 0s [BOARD MODEL OPTIONS]",
		},
		row{
			"almost", "APP=libary", nil, `config: APP=libary is none of rpc, standalone, library; did you mean "library"?`,
		})
}

// TestRAMParameters: PARAMS is for all models, or for each by name.
func TestRAMParameters(t *testing.T) {
	models := []string{"kws", "det"}
	for _, c := range []struct {
		params   string
		kws, det bool
		err      string
	}{
		{"", false, false, ""},
		{"ram", true, true, ""},
		{"kws=flash,det=ram", false, true, ""},
		{"det=ram, kws=ram", true, true, ""},
		{"disk", false, false, "PARAMS=disk is neither flash nor ram"},
		{"ram,kws=flash", false, false, "PARAMS=ram,kws=flash: \"ram\" names no model"},
		{"kws=disk", false, false, `"disk" of model kws`},
		{"kws=ram,", false, false, `"" names no model`},
		{"kws=ram,vww=flash", false, false, "there is no model vww"},
		{"kws=ram,kws=ram", false, false, "names model kws twice"},
	} {
		got, err := RAMParameters(c.params, models)
		testkit.WantErrorIf(t, c.err != "", err, failure.Config, c.err)
		if got["kws"] != c.kws || got["det"] != c.det {
			t.Errorf("%q: %v", c.params, got)
		}
	}
	_, err := RAMParameters("vww=ram", models)
	testkit.WantError(t, err, "", "kws, det")
}

// TestSplitNames: what follows a path maps arrays, unless it is part of the path.
func TestSplitNames(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "a b=c")
	testkit.WriteFile(t, odd, "")
	for value, want := range map[string]string{
		"x.npz":              "x.npz map[]",
		"my x.npz":           "my x.npz map[]",
		"my x.npz a=b c:0=d": "my x.npz map[b:a d:c:0]",
		"x.npz a=b/c":        "x.npz a=b/c map[]",
		odd:                  odd + " map[]",
		odd + " d=e":         odd + " map[e:d]",
	} {
		if path, names, err := SplitNames(value); fmt.Sprint(path, " ", names) != want || err != nil {
			t.Errorf("%q: %q %v, %v; want %s", value, path, names, err, want)
		}
	}
	_, _, err := SplitNames("x.npz x=a y=a")
	testkit.WantError(t, err, failure.Config)
}
