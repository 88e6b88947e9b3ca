package inputs

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/console"
)

func init() { console.Declare("", Variables{}) }

// resolve is Resolve with the variables of an environment.
func resolve(env func(string) string, s Source) (*Inputs, error) {
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
		name          string
		env           map[string]string
		recorded      *boardsmithjson.Choice
		board         string
		model         string
		arena         int
		project       string
		boardAsked    bool
		timeout       time.Duration
		optionsOfUser bool
	}{
		{
			name: "nothing asked", board: "fileboard", model: filepath.Join(dir, "f.tar"), arena: 1,
			project: filepath.Join("build", "fileboard", "f"), boardAsked: true, timeout: 5 * time.Second,
		},
		{
			name: "project over file", env: map[string]string{"PROJECT": "p"}, recorded: project, board: "oldboard",
			model: "m.tar",
			arena: 3, project: "p", timeout: 5 * time.Second,
		},
		{
			name: "new project", env: map[string]string{"PROJECT": "p"}, board: "fileboard", model: filepath.Join(dir, "f.tar"),
			arena: 1, project: "p", timeout: 5 * time.Second,
		},
		{
			name: "environment over all", env: map[string]string{
				"PROJECT": "p", "BOARD": "envboard", "MODEL": "e.tar",
				"OPTIONS": " arena_kib=9  log_level=warn ", "TIMEOUT": "7",
			},
			recorded: project, board: "envboard", model: "e.tar", arena: 9, project: "p", boardAsked: true,
			timeout: 7 * time.Second, optionsOfUser: true,
		},
		{
			name: "target over project", env: map[string]string{"PROJECT": "p", "TARGET": "t"}, recorded: project,
			board: "targetboard", model: "m.tar",
			arena: 2, project: "p", boardAsked: true, timeout: 5 * time.Second, optionsOfUser: true,
		},
		{
			name: "board of a family", env: map[string]string{"BOARD": "system/vendor/kit", "BOARDSMITH_PATH": shelf},
			board: "system/vendor/kit", model: filepath.Join(dir, "f.tar"), arena: 1, boardAsked: true,
			project: filepath.Join("build", "system+vendor+kit", "f"), timeout: 5 * time.Second,
		},
		{
			name: "board file", env: map[string]string{"BOARD": "elsewhere/kit.json", "BOARDSMITH_PATH": shelf},
			board: "elsewhere/kit.json", model: filepath.Join(dir, "f.tar"), arena: 1, boardAsked: true,
			project: filepath.Join("build", "kit", "f"), timeout: 5 * time.Second,
		},
		{
			name: "environment over target", env: map[string]string{"BOARD": "envboard", "TARGET": "t"}, board: "envboard",
			model: filepath.Join(dir, "f.tar"),
			arena: 2, project: filepath.Join("build", "envboard", "f"), boardAsked: true, timeout: 5 * time.Second,
			optionsOfUser: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := func(name string) string { return c.env[name] }
			in, err := resolve(env, Source{Dir: dir, Load: recording(c.recorded)})
			testkit.Must(t, err)
			if in.Board != c.board || in.Model != c.model || in.Options.ArenaKiB != c.arena ||
				in.Project != c.project {
				t.Errorf("board %q, model %q, options %v, project %q", in.Board, in.Model, in.Options, in.Project)
			}
			if in.Set["BOARD"] != c.boardAsked || in.Set["OPTIONS"] != c.optionsOfUser || in.Timeout != c.timeout {
				t.Errorf("board asked %v, options asked %v, timeout %v", in.Set["BOARD"], in.Set["OPTIONS"], in.Timeout)
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
		env := func(name string) string {
			return map[string]string{"PROJECT": "p", "PLACE": c.place, "OPTIONS": c.options}[name]
		}
		load := recording(recorded)
		in, err := resolve(env, Source{Dir: t.TempDir(), Load: load})
		if err != nil || in.Options.Place != c.want || in.Options.ArenaKiB != 3 {
			t.Errorf("PLACE=%q: %+v, %v", c.place, in, err)
		}
	}
}

func TestBadInputs(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"REPEAT", "0"},
		{"REPEAT", "-1"},
		{"REPEAT", "many"},
		{"REPEAT", "1000001"},
		{"TIMEOUT", "0"},
		{"TIMEOUT", "-1s"},
		{"TIMEOUT", "soon"},
		{"TIMEOUT", "NaN"},
		{"TARGET", "none"},
		{"PLACE", "itcm"},
	} {
		env := func(name string) string { return map[string]string{c.name: c.value}[name] }
		_, err := resolve(env, Source{Dir: t.TempDir(), Load: none})
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), c.value) {
			t.Errorf("%s=%s: got %v", c.name, c.value, err)
		}
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
			env := map[string]string{"MODEL": model, "APP": app}
			_, err := resolve(func(name string) string { return env[name] }, Source{Dir: dir, Load: none})
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
		name, variable, value string
		recorded              *boardsmithjson.Choice
		app, project          string
	}{
		{"new", "", "", nil, boards.Standalone, "build/host/digits_i8.aot_packed.standalone"},
		{"derived", "", "", old, boards.Standalone, "build/host/digits_i8.aot_packed.standalone"},
		{"named and new", "PROJECT", "new", nil, boards.Standalone, "new"},
		{"named and old", "PROJECT", "old", old, "", "old"},
		{"by APP", "APP", boards.RPC, nil, boards.RPC, "build/host/digits_i8.aot_packed"},
		{"by OPTIONS", "OPTIONS", "app=rpc", nil, boards.RPC, "build/host/digits_i8.aot_packed"},
		{"library", "APP", Library, nil, "", "build/host/digits_i8.aot_packed.library"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := func(name string) string { return map[string]string{c.variable: c.value}[name] }
			load := recording(c.recorded)
			in, err := resolve(env, Source{Dir: dir, New: boards.Standalone, Load: load})
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
			env := map[string]string{}
			for _, word := range strings.Fields(c.env) {
				name, value, _ := strings.Cut(word, "=")
				env[name] = value
			}
			in, err := resolve(func(name string) string { return env[name] },
				Source{Dir: dir, New: boards.Standalone, Load: none})
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
		name, variable, value string
		recorded              *boardsmithjson.Choice
		app, want             string
	}{
		{"the server's", "", "", nil, boards.RPC, "arena_kib=64 operator_opt=O3 app=rpc"},
		{"another app's", "", "", nil, boards.Standalone, "operator_opt=O3 app=standalone"},
		{"another app's by TARGET", "TARGET", "small", nil, boards.Standalone, "app=standalone"},
		{"set", "OPTIONS", "arena_kib=8", nil, boards.Standalone, "arena_kib=8 app=standalone"},
		{
			"no longer used", "", "", &boardsmithjson.Choice{Options: []string{"arena_kib=1", "stack_bytes=2"}}, boards.RPC,
			"arena_kib=1 app=rpc",
		},
		{"set, and no longer used", "OPTIONS", "stack_bytes=9", nil, boards.RPC, "stack_bytes=9 app=rpc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := func(name string) string { return map[string]string{c.variable: c.value}[name] }
			load := recording(c.recorded)
			in, err := resolve(env, Source{Dir: dir, New: c.app, Load: load, Uses: uses})
			if err != nil || strings.Join(in.Options.Words(), " ") != c.want {
				t.Errorf("%v, %v; want %s", in.Options.Words(), err, c.want)
			}
		})
	}
	unknown := func(*Inputs, string) ([]string, error) { return []string{"packet_bytes"}, nil }
	in, err := resolve(func(string) string { return "" }, Source{
		Dir: dir, Uses: unknown,
		Load: none,
	})
	if err != nil || in.Options.ArenaKiB != 64 {
		t.Errorf("an option that no app uses: %v, %v", in.Options, err)
	}
}

// TestModelName selects one of an archive's models.
func TestModelName(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, boardsmithjson.Name), `{"model": "f.tar", "model_name": "first"}`)
	for _, c := range []struct {
		env             map[string]string
		recorded        *boardsmithjson.Choice
		module, project string
		asked           bool
	}{
		{nil, nil, "first", "f.first", false},
		{map[string]string{"MODEL_NAME": "second"}, nil, "second", "f.second", true},
		{map[string]string{"MODEL": "g.tar"}, nil, "", "g", false},
		{map[string]string{"MODEL": "g.tar", "MODEL_NAME": "one"}, nil, "one", "g.one", true},
		{
			map[string]string{"PROJECT": "p"},
			&boardsmithjson.Choice{Board: "host", Model: "m.tar", ModelName: "third"},
			"third", "p", false,
		},
		{map[string]string{"PROJECT": "p"}, nil, "first", "p", false},
	} {
		env := func(name string) string { return c.env[name] }
		in, err := resolve(env, Source{Dir: dir, Load: recording(c.recorded)})
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
		env := func(name string) string {
			return map[string]string{"APP": c.app, "MODEL": c.model, "MODEL_NAME": c.name}[name]
		}
		in, err := resolve(env, Source{Dir: t.TempDir(), Load: none})
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
		env  map[string]string
		want boards.Options
		err  string
	}{
		{nil, boards.Options{OperatorOpt: "Os"}, ""},
		{map[string]string{"TARGET": "t"}, boards.Options{OperatorFlags: "-O1"}, ""},
		{
			map[string]string{"TARGET": "t", "OPTIONS": "operator_opt=O3 arena_kib=2"},
			boards.Options{OperatorOpt: "O3", ArenaKiB: 2},
			"",
		},
		{map[string]string{"PLACE": "stack=ram"}, boards.Options{}, "PLACE=stack=ram is for firmware"},
	} {
		env := func(name string) string {
			if name == "APP" {
				return Library
			}
			return c.env[name]
		}
		in, err := resolve(env, Source{Dir: dir, Load: none})
		if c.err != "" {
			if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: %v", c.env, err)
			}
			continue
		}
		if err != nil || in.Options != c.want {
			t.Errorf("%v: %+v, %v", c.env, in, err)
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
		{"flash", false, false, ""},
		{"ram", true, true, ""},
		{"kws=ram", true, false, ""},
		{"kws=flash,det=ram", false, true, ""},
		{"det=ram, kws=ram", true, true, ""},
		{"disk", false, false, "PARAMS=disk is neither flash nor ram"},
		{"ram,kws=flash", false, false, "PARAMS=ram,kws=flash: \"ram\" names no model"},
		{"kws=disk", false, false, `"disk" of model kws`},
		{"kws=", false, false, `"" of model kws`},
		{"kws=ram,", false, false, `"" names no model`},
		{"kws=ram,vww=flash", false, false, "there is no model vww"},
		{"kws=ram,kws=ram", false, false, "names model kws twice"},
	} {
		got, err := RAMParameters(c.params, models)
		if c.err != "" {
			if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), c.err) || failure.Next(err) == "" {
				t.Errorf("%q: %v, next: %s", c.params, err, failure.Next(err))
			}
		} else if err != nil || got["kws"] != c.kws || got["det"] != c.det {
			t.Errorf("%q: %v, %v", c.params, got, err)
		}
	}
	if _, err := RAMParameters("vww=ram", models); !strings.Contains(failure.Next(err), "kws, det") {
		t.Errorf("the advice does not name the models: %s", failure.Next(err))
	}
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
	if _, _, err := SplitNames("x.npz x=a y=a"); failure.Of(err) != failure.Config {
		t.Errorf("one array for two inputs: %v", err)
	}
}
