package inputs

import (
	"fmt"
	"io"
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
	env := testkit.Environment(variables...)
	s.Shelf = env("BOARDSMITH_PATH")
	if err := console.New(env, io.Discard, io.Discard).Read(&s.Variables); err != nil {
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

// TestPrecedence sets each input in the four places that can have it.
func TestPrecedence(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, boardsmithjson.Name),
		`{"board": "fileboard", "model": "f.tar", "options": {"arena_kib": 1},
		"timeout": "5s", "targets": {"t": {"board": "targetboard", "options": {"arena_kib": 2}}}}`)
	shelf := t.TempDir()
	testkit.WriteFile(t, filepath.Join(shelf, "boards", "family", "system.json"), "{}")
	project := &boardsmithjson.Choice{Board: "oldboard", Model: "m.tar", Options: []string{"arena_kib=3"}}
	for _, c := range []struct {
		name, env string
		recorded  *boardsmithjson.Choice
		want      string
	}{
		{"nothing asked", "", nil, "fileboard, DIR/f.tar, 1 KiB in build/fileboard/f, 5s; asked: true, false"},
		{"project over file", "PROJECT=p", project, "oldboard, m.tar, 3 KiB in p, 5s; asked: false, false"},
		{"new project", "PROJECT=p", nil, "fileboard, DIR/f.tar, 1 KiB in p, 5s; asked: false, false"},
		{
			"environment over all", "PROJECT=p|BOARD=envboard|MODEL=e.tar|OPTIONS= arena_kib=9  log_level=warn |TIMEOUT=7",
			project, "envboard, e.tar, 9 KiB in p, 7s; asked: true, true",
		},
		{
			"target over project", "PROJECT=p|TARGET=t", project,
			"targetboard, m.tar, 2 KiB in p, 5s; asked: true, true",
		},
		{
			"board of a family", "BOARD=system/vendor/kit|BOARDSMITH_PATH=" + shelf, nil,
			"system/vendor/kit, DIR/f.tar, 1 KiB in build/system+vendor+kit/f, 5s; asked: true, false",
		},
		{
			"board file", "BOARD=elsewhere/kit.json|BOARDSMITH_PATH=" + shelf, nil,
			"elsewhere/kit.json, DIR/f.tar, 1 KiB in build/kit/f, 5s; asked: true, false",
		},
		{
			"environment over target", "BOARD=envboard|TARGET=t", nil,
			"envboard, DIR/f.tar, 2 KiB in build/envboard/f, 5s; asked: true, true",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := resolve(strings.Split(c.env, "|"), Source{Dir: dir, Load: recording(c.recorded)})
			testkit.Must(t, err)
			got := fmt.Sprintf("%s, %s, %d KiB in %s, %v; asked: %v, %v", in.Board, strings.Replace(in.Model, dir, "DIR", 1),
				in.Options.ArenaKiB, in.Project, in.Timeout, in.Set["BOARD"], in.Set["OPTIONS"])
			if filepath.ToSlash(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestPlace sets the option place by PLACE, over the project's, and leaves the project's other options.
func TestPlace(t *testing.T) {
	recorded := &boardsmithjson.Choice{Board: "b", Model: "m.tar", Options: []string{"arena_kib=3", "place=arena=ram"}}
	for _, c := range []struct{ place, options, want string }{
		{"", "", "arena=ram"},
		{"operators=itcm, pools.a=dtcm", "", "operators=itcm,pools.a=dtcm"},
		{"stack=ram", "arena_kib=3", "stack=ram"},
	} {
		in, err := resolve([]string{"PROJECT=p", "PLACE=" + c.place, "OPTIONS=" + c.options},
			Source{Dir: t.TempDir(), Load: recording(recorded)})
		if err != nil || in.Options.Place != c.want || in.Options.ArenaKiB != 3 {
			t.Errorf("PLACE=%q: %+v, %v", c.place, in, err)
		}
	}
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
		if got := ArchiveName(in); got != want {
			t.Errorf("ArchiveName(%q) = %q, want %q", in, got, want)
		}
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
			if wrong := refused && app != Library; (err != nil) != wrong {
				t.Errorf("%s, app %q: %v", model, app, err)
			} else if wrong && (failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "names 2 archives") ||
				!strings.Contains(failure.Next(err), "APP=library")) {
				t.Errorf("%s, app %q: %v; %s", model, app, err, failure.Next(err))
			}
		}
	}
}

// TestDefaultApp: a target's app is for new projects, unless the user chose another one.
func TestDefaultApp(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	testkit.WriteFile(t, filepath.Join(dir, "old", "project.json"), "{}")
	old := &boardsmithjson.Choice{Board: "host", Model: "m.tar", Options: []string{"arena_kib=3"}}
	for _, c := range []struct {
		name, variable string
		recorded       *boardsmithjson.Choice
		app, project   string
	}{
		{"new", "", nil, boards.Standalone, "build/host/digits_i8.aot_packed.standalone"},
		{"derived", "", old, boards.Standalone, "build/host/digits_i8.aot_packed.standalone"},
		{"named and new", "PROJECT=new", nil, boards.Standalone, "new"},
		{"named and old", "PROJECT=old", old, "", "old"},
		{"by APP", "APP=rpc", nil, boards.RPC, "build/host/digits_i8.aot_packed"},
		{"by OPTIONS", "OPTIONS=app=rpc", nil, boards.RPC, "build/host/digits_i8.aot_packed"},
		{"library", "APP=library", nil, "", "build/host/digits_i8.aot_packed.library"},
	} {
		t.Run(c.name, func(t *testing.T) {
			load := recording(c.recorded)
			in, err := resolve([]string{c.variable}, Source{Dir: dir, New: boards.Standalone, Load: load})
			if err != nil || in.Options.App != c.app || filepath.ToSlash(in.Project) != c.project {
				t.Errorf("%+v, %v", in, err)
			}
			// The project's folder is that of the bundled sample, whatever the project there records.
			if in.Derived && in.Model != "" {
				t.Errorf("model %s", in.Model)
			}
		})
	}
}

// TestOptionsOfBoards: OPTIONS for another board changes nothing, OPTIONS replaces all of boardsmith.json's, and APP
// and PLACE override a target's options.
func TestOptionsOfBoards(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	testkit.WriteFile(t, filepath.Join(dir, boardsmithjson.Name), `{"device": "left",
		"options": {"app": "standalone", "operator_opt": "O3"},
		"targets": {"t": {"options": {"app": "standalone", "place": "stack=ram"}}}}`)
	for _, c := range []struct{ env, options, project, device string }{
		{"", "operator_opt=O3 app=standalone", ".standalone", "left"},
		{"OPTIONS=operator_opt=O1", "operator_opt=O1 app=standalone", ".standalone", "left"},
		{"OPTIONS=kiln:app=rpc", "operator_opt=O3 app=standalone", ".standalone", "left"},
		{"OPTIONS=host:app=rpc", "app=rpc", "", "left"},
		{"BOARD=kiln OPTIONS=kiln:app=rpc", "app=rpc", "", ""},
		{"TARGET=t APP=rpc", "app=rpc place=stack=ram", "", "left"},
		{"TARGET=t PLACE=stack=itcm", "app=standalone place=stack=itcm", ".standalone", "left"},
		{"APP=library OPTIONS=host:operator_opt=O0", "operator_opt=O0", ".library", "left"},
		{"APP=library PROJECT=p OPTIONS=host:operator_opt=O0", "operator_opt=O0", "", "left"},
	} {
		t.Run(c.env, func(t *testing.T) {
			in, err := resolve(strings.Fields(c.env), Source{Dir: dir, New: boards.Standalone, Load: none})
			testkit.Must(t, err)

			got, want := in.Options.Words(), strings.Fields(c.options)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || in.Device != c.device {
				t.Errorf("options %q, device %q", got, in.Device)
			}
			name := filepath.Base(in.Project)
			if end := strings.TrimPrefix(name, "digits_i8.aot_packed"); name != "p" && end != c.project {
				t.Errorf("project %s", in.Project)
			}
		})
	}
}

// TestUnusedOptions: options that are for another app of the template, or that a project has and its template no longer
// uses, are dropped. Those that the user sets for this run, or that no app uses, stay, and are an error when generated.
func TestUnusedOptions(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	testkit.WriteFile(t, filepath.Join(dir, boardsmithjson.Name),
		`{"options": {"arena_kib": 64, "operator_opt": "O3"}, "targets": {"small": {"options": {"arena_kib": 8}}}}`)
	uses := func(_ *Inputs, app string) ([]string, error) {
		if app == boards.Standalone {
			return []string{"operator_opt"}, nil
		}
		return []string{"arena_kib", "operator_opt"}, nil
	}
	for _, c := range []struct {
		name, variable string
		recorded       *boardsmithjson.Choice
		app, want      string
	}{
		{"the server's", "", nil, boards.RPC, "arena_kib=64 operator_opt=O3 app=rpc"},
		{"another app's", "", nil, boards.Standalone, "operator_opt=O3 app=standalone"},
		{"another app's by TARGET", "TARGET=small", nil, boards.Standalone, "app=standalone"},
		{"set", "OPTIONS=arena_kib=8", nil, boards.Standalone, "arena_kib=8 app=standalone"},
		{
			"no longer used", "", &boardsmithjson.Choice{Options: []string{"arena_kib=1", "stack_bytes=2"}}, boards.RPC,
			"arena_kib=1 app=rpc",
		},
		{"set, and no longer used", "OPTIONS=stack_bytes=9", nil, boards.RPC, "stack_bytes=9 app=rpc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			load := recording(c.recorded)
			in, err := resolve([]string{c.variable}, Source{Dir: dir, New: c.app, Load: load, Uses: uses})
			if err != nil || strings.Join(in.Options.Words(), " ") != c.want {
				t.Errorf("%v, %v; want %s", in.Options.Words(), err, c.want)
			}
		})
	}
	unknown := func(*Inputs, string) ([]string, error) { return []string{"packet_bytes"}, nil }
	in, err := resolve(nil, Source{Dir: dir, Uses: unknown, Load: none})
	if err != nil || in.Options.ArenaKiB != 64 {
		t.Errorf("an option that no app uses: %v, %v", in.Options, err)
	}
}

// TestModelName selects one of an archive's models.
func TestModelName(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, boardsmithjson.Name), `{"model": "f.tar", "model_name": "first"}`)
	for _, c := range []struct {
		env             string
		recorded        *boardsmithjson.Choice
		module, project string
		asked           bool
	}{
		{"", nil, "first", "f.first", false},
		{"MODEL_NAME=second", nil, "second", "f.second", true},
		{"MODEL=g.tar", nil, "", "g", false},
		{"MODEL=g.tar MODEL_NAME=one", nil, "one", "g.one", true},
		{"PROJECT=p", &boardsmithjson.Choice{Board: "host", Model: "m.tar", ModelName: "third"}, "third", "p", false},
		{"PROJECT=p", nil, "first", "p", false},
	} {
		in, err := resolve(strings.Fields(c.env), Source{Dir: dir, Load: recording(c.recorded)})
		testkit.Must(t, err)
		if in.ModelName != c.module || in.Set["MODEL_NAME"] != c.asked || filepath.Base(in.Project) != c.project {
			t.Errorf("%v: module %+v in %s, want %q (asked: %v) in %s", c.env, in.ModelName, in.Project, c.module, c.asked,
				c.project)
		}
	}
}

// TestLibraryFolder: the default folder of a library has the names of all its archives, and none of them is empty.
func TestLibraryFolder(t *testing.T) {
	for _, c := range []struct{ app, model, name, want string }{
		{Library, "", "", "digits_i8.aot_packed.library"},
		{Library, "x/a.tar", "", "a.library"},
		{Library, "x/a.tar,y/b.tar.gz", "", "a+b.library"},
		{Library, "a.tar", "kws", "a.kws.library"},
		{Library, "a.tar,,b.tar", "", "error: MODEL=a.tar,,b.tar has an empty name"},
		{Library, "a.tar,", "", "error: MODEL=a.tar, has an empty name"},
		{"standalone", "a.tar", "", "a.standalone"},
		{"", "a.tar", "", "a"},
		{"libary", "a.tar", "", "error: APP=libary is none of rpc, standalone, library; did you mean \"library\"?"},
	} {
		in, err := resolve([]string{"APP=" + c.app, "MODEL=" + c.model, "MODEL_NAME=" + c.name},
			Source{Dir: t.TempDir(), Load: none})
		if want, ok := strings.CutPrefix(c.want, "error: "); ok {
			if failure.Of(err) != failure.Config || err.Error() != want {
				t.Errorf("%s of %q: %v, want %s", c.app, c.model, err, want)
			}
			continue
		}
		if want := filepath.Join("build", "host", c.want); err != nil || in.Project != want {
			t.Errorf("%s of %q: %+v, %v, want %s", c.app, c.model, in, err, want)
		}
	}
}

// TestLibrary: a library has the operators' options of the first place that has options, and refuses PLACE.
func TestLibrary(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, boardsmithjson.Name), `{"options": {"arena_kib": 1, "operator_opt": "Os"},
		"targets": {"t": {"options": {"stack_bytes": 100, "operator_flags": "-O1"}}}}`)
	for _, c := range []struct {
		env  []string
		want boards.Options
		err  string
	}{
		{nil, boards.Options{OperatorOpt: "Os"}, ""},
		{[]string{"TARGET=t"}, boards.Options{OperatorFlags: "-O1"}, ""},
		{
			[]string{"TARGET=t", "OPTIONS=operator_opt=O3 arena_kib=2"}, boards.Options{OperatorOpt: "O3", ArenaKiB: 2}, "",
		},
		{[]string{"PLACE=stack=ram"}, boards.Options{}, "PLACE=stack=ram is for firmware"},
	} {
		in, err := resolve(append(c.env, "APP=library"), Source{Dir: dir, Load: none})
		testkit.WantErrorIf(t, c.err != "", err, failure.Config, c.err)
		if err == nil && in.Options != c.want {
			t.Errorf("%v: %+v", c.env, in)
		}
	}
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
