package project

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/projectfile"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// gitIn runs git in a folder, with a name and without the user's configuration.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"},
		args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func commitAll(t *testing.T, dir string) string {
	t.Helper()
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-q", "-m", "m")
	return gitIn(t, dir, "rev-parse", "HEAD")
}

// putFiles writes files below a folder.
func putFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o644))
	}
}

// kiln makes a small template of that name in a folder, and returns the path of a board file for it.
func kiln(t *testing.T, dir string) (board string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	putFiles(t, dir, map[string]string{
		blueprint.TemplateFile: `{"doc": "kiln", "build": ["sh", "build.sh"], "inputs": ["build.sh", "src"],
			"generate": [], "tools": [], "options": [], "elf": "out/kiln.elf",
			"map": "out/kiln.map"}`,
		"build.sh":   "set -e\ncc -g0 -o out/kiln.elf -Wl,-Map=out/kiln.map -Wl,--build-id=md5 src/kiln.c\n",
		"src/kiln.c": "int main(void) { return 1; }\n",
	})
	board = filepath.Join(t.TempDir(), "boards", "kiln_host.json")
	putFiles(t, filepath.Dir(board), map[string]string{"kiln_host.json": `{"doc": "mine", "inherits": "cpu/native",
		"templates": ["kiln"], "link": {"kind": "process"}, "flash": {"programmer": "none"}}`})
	return board
}

func originOf(t *testing.T, p *Project) projectfile.Origin {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.Dir(), blueprint.StateFile))
	must(t, err)
	var s struct {
		Template struct{ Origin projectfile.Origin }
	}
	must(t, json.Unmarshal(data, &s))
	return s.Template.Origin
}

// TestTemplateFromGit uses a template of a repository by URL and branch. What was fetched stays when the branch moves
// and the repository goes, and gives the same bytes again.
func TestTemplateFromGit(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	repository := filepath.Join(home, "repository")
	board := kiln(t, filepath.Join(repository, "templates", "kiln"))
	gitIn(t, repository, "init", "-q", "-b", "main")
	commit := commitAll(t, repository)
	url := "file://" + repository + "//templates/kiln"
	b := &Builder{
		Host: device.Host{Cache: cache.New(filepath.Join(home, "cache"), cache.Options{})},

		LockFile: filepath.Join(home, "lock.json"),
	}
	make := func(b *Builder, template string) (*Project, error) {
		spec := Spec{Board: board, Template: template, Model: mlftest.Tiny(t, nil)}
		p, err := b.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), spec)
		if err == nil {
			t.Cleanup(func() { must(t, p.Close()) })
		}
		return p, err
	}
	p, err := make(b, url+"@main")
	must(t, err)
	want := projectfile.Origin{URL: url + "@main", Commit: commit}
	if got := originOf(t, p); got != want || p.Template() != "kiln" || p.TemplateFrom() != url+"@main" {
		t.Errorf("%+v, %s, %s", got, p.Template(), p.TemplateFrom())
	}
	if _, err := os.Stat(filepath.Join(p.Dir(), "src", "kiln.c")); err != nil {
		t.Error(err)
	}
	first := built(t, p)

	putFiles(t, repository, map[string]string{"README": "another commit, the same template\n"})
	later := commitAll(t, repository)
	p, err = make(b, url+"@"+later)
	must(t, err)
	if originOf(t, p).Commit != later {
		t.Error("project.json has another commit")
	}

	must(t, os.RemoveAll(repository))
	for _, template := range []string{url + "@main", url + "@" + commit} {
		p, err = make(b, template)
		must(t, err)
		if i := built(t, p); i.BuildID != first.BuildID || i.Digest != first.Digest || originOf(t, p).Commit != commit {
			t.Errorf("%s: another build", template)
		}
	}
	b.Templates = map[string]string{"kiln": url + "@main"}
	p, err = make(b, "") // the board's own
	must(t, err)
	if originOf(t, p).Commit != commit {
		t.Error("the template's name stands for something else")
	}
	empty := &Builder{Host: device.Host{Cache: cache.New(t.TempDir(), cache.Options{})}, LockFile: b.LockFile}
	if _, err := make(empty, url+"@main"); err == nil || !strings.Contains(err.Error(), repository) {
		t.Errorf("fetched from a repository that is gone: %v", err)
	}
}

// TestTemplateInWorkTree: a template's folder that is git's work tree has its commit in project.json, with what differs
// from it.
func TestTemplateInWorkTree(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kiln")
	board := kiln(t, dir)
	spec := Spec{Board: board, Template: dir + "/", Model: mlftest.Tiny(t, nil)}
	p := generated(t, filepath.Join(t.TempDir(), "p"), spec)
	if got := originOf(t, p); got != (projectfile.Origin{}) {
		t.Errorf("no repository, but %+v", got)
	}
	gitIn(t, dir, "init", "-q")
	commit := commitAll(t, dir)
	for _, c := range []struct {
		name    string
		change  func()
		commit  func() string
		changed bool
	}{
		{"clean", func() {}, func() string { return commit }, false},
		{
			"dirty", func() { putFiles(t, dir, map[string]string{"src/kiln.c": "int main(void) { return 2; }\n"}) },
			func() string { return commit }, true,
		},
		{"committed", func() { commitAll(t, dir) }, func() string { return gitIn(t, dir, "rev-parse", "HEAD") }, false},
	} {
		c.change()
		must(t, p.Generate(t.Context(), spec))
		got := originOf(t, p)
		if got.Commit != c.commit() || (got.Changed != "") != c.changed || got.URL != "" {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if p.TemplateFrom() != "kiln" {
		t.Error(p.TemplateFrom())
	}
}

// TestTemplateRefused: a revision without a template, a later interface, and a repository that does not exist are
// named, with the next step, and nothing is made.
func TestTemplateRefused(t *testing.T) {
	t.Parallel()
	repository := filepath.Join(t.TempDir(), "kiln")
	board := kiln(t, repository)
	gitIn(t, repository, "init", "-q", "-b", "main")
	file := filepath.Join(repository, blueprint.TemplateFile)
	text, err := os.ReadFile(file)
	must(t, err)
	one := regexp.MustCompile(`"doc"`)
	commits := map[string]string{}
	for name, text := range map[string]string{
		"later": one.ReplaceAllString(string(text), `"interface": 2, "of_2": true, "doc"`),
		"same":  one.ReplaceAllString(string(text), `"interface": 1, "doc"`),
	} {
		must(t, os.WriteFile(file, []byte(text), 0o644))
		commits[name] = commitAll(t, repository)
	}
	url := "file://" + repository
	refused := map[string]string{
		url + "@" + commits["later"]:      "has interface 2; the latest known one is 1",
		url + "//src@" + commits["same"]:  "template.json",
		url + "//none@" + commits["same"]: "has no none",
		url + "@nope":                     "no revision nope",
		url + "2@main":                    url + "2",
		url:                               "no revision",
		"https://a:b@h.example/kiln@" + one.String(): "contains a password",
	}
	b := &Builder{Host: device.Host{Cache: cache.New(t.TempDir(), cache.Options{})}}
	for template := range maps.Keys(refused) {
		dir := filepath.Join(t.TempDir(), "p")
		_, err := b.Generate(t.Context(), dir, Spec{Board: board, Template: template, Model: mlftest.Tiny(t, nil)})
		if err == nil || !strings.Contains(err.Error(), refused[template]) || failure.Of(err) != failure.Config ||
			failure.Next(err) == "" {
			t.Errorf("%s: %v; %s", template, err, failure.Next(err))
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the project's folder was made", template)
		}
	}
	p, err := b.Generate(t.Context(), filepath.Join(t.TempDir(), "p"),
		Spec{Board: board, Template: url + "@" + commits["same"], Model: mlftest.Tiny(t, nil)})
	must(t, err)
	must(t, p.Close())
}

// TestTemplateWithoutCache: without a folder for the cache no template can be fetched.
func TestTemplateWithoutCache(t *testing.T) {
	for _, name := range []string{"BOARDSMITH_HOME", "XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, "")
	}
	_, err := (&Builder{}).Generate(t.Context(), filepath.Join(t.TempDir(), "p"),
		Spec{Board: "host", Template: "file:///nowhere@main", Model: mlftest.Tiny(t, nil)})
	if err == nil || !strings.Contains(err.Error(), "no cache folder") || failure.Next(err) == "" {
		t.Errorf("%v; %s", err, failure.Next(err))
	}
}
