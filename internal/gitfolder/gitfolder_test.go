package gitfolder

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const commit = "0123456789012345678901234567890123456789"
	for text, want := range map[string]Ref{
		"https://h.example/a/kiln.git@v1":           {"https://h.example/a/kiln.git", "", "v1"},
		"https://h.example/kiln.git//t/one@main":    {"https://h.example/kiln.git", "t/one", "main"},
		"https://user@h.example/kiln@feature/x":     {"https://user@h.example/kiln", "", "feature/x"},
		"git@h.example:a/kiln.git//t@" + commit:     {"git@h.example:a/kiln.git", "t", commit},
		"ssh://git@h.example:22/a@b/kiln.git@HEAD":  {"ssh://git@h.example:22/a@b/kiln.git", "", "HEAD"},
		"file:///tmp/kiln.git//t@refs/heads/master": {"file:///tmp/kiln.git", "t", "refs/heads/master"},
	} {
		r, err := Parse(text)
		if err != nil || r != want || r.String() != text || !IsRef(text) {
			t.Errorf("%s: %+v, %v, %s", text, r, err, r)
		}
	}
	for text, want := range map[string]string{
		"https://h.example/kiln":               "no revision",
		"https://h.example/kiln@":              "no revision",
		"https://user@h.example/kiln":          "no revision",
		"git@h.example:kiln":                   "no revision",
		"https://h.example/@v1":                "no repository",
		"https://h.example/kiln//../x@v1":      `"../x" is not a folder`,
		"https://h.example/kiln@v1~3":          "not a revision",
		"https://h.example/kiln@--upload":      "not a revision",
		"ext::sh://x/kiln@v1":                  "not a git URL",
		"svn://h.example/kiln@v1":              "scheme svn is not supported",
		"https://me:secret@h.example/kiln@v1":  "contains a password",
		"https:///kiln@v1":                     "no server",
		"http://me%0ahost=t@h.example/kiln@v1": "control character",
		"http://h.example/kiln@v1\n":           "control character",
	} {
		_, err := Parse(text)
		wantError(t, err, failure.Config, want)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
	for _, text := range []string{"baremetal", "./mine", "/a/b", `C:\a\b`, "a:b", "../x@y"} {
		if IsRef(text) {
			t.Errorf("%q is not a git URL", text)
		}
	}
	r, _ := Parse("https://h/a/kiln.git@v1")
	testkit.Equal(t, "name", r.Name(), "kiln")
}

func FuzzParse(f *testing.F) {
	f.Add("https://h.example/kiln.git//t/one@main")
	f.Add("git@h:kiln@x")
	f.Add("file:////@x")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(r.String()); err != nil || again != r {
			t.Errorf("%q: %+v, then %+v, %v", text, r, again, err)
		}
	})
}

// TestOpen opens each kind of revision: exactly that commit's files, with its line ends and its links inside the
// folder, then the same from the store after the repository has gone.
func TestOpen(t *testing.T) {
	t.Parallel()
	inner := newRepository(t)
	oldInner := inner.commit("main", entry{name: "i.txt", text: "inner 1"})
	inner.commit("main", entry{name: "i.txt", text: "inner 2"})
	r := newRepository(t)
	first := r.write("one")
	second := r.commit("main", entry{name: "a.txt", text: "two\r\n"}, entry{name: "t", files: []entry{
		{name: "run.sh", text: "#!/bin/sh\n", mode: filemode.Executable},
		{name: "beside", text: "./odd", mode: filemode.Symlink},
		{name: "odd", text: ".//../t/run.sh", mode: filemode.Symlink},
	}})
	r.tag("v2", second)
	third := r.commit("main", entry{name: "a.txt", text: "three"}, entry{name: "lib", files: []entry{
		{name: "sub", commit: oldInner},
	}}, entry{name: ".gitmodules", text: "[submodule \"s\"]\n\tpath = lib/sub\n\turl = " + inner.url() + "\n"})
	r.commit("side", entry{name: "a.txt", text: "side"})
	module := ".gitmodules"
	cases := []struct {
		dir, revision, commit string
		files                 map[string]string
	}{
		{"", first, first, map[string]string{"a.txt": "one"}},
		{"", "v2", second, map[string]string{
			"a.txt": "two\r\n", "t/run.sh": "#!/bin/sh\n", "t/beside": "#!/bin/sh\n", "t/odd": "#!/bin/sh\n",
		}},
		{"//t", "v2", second, map[string]string{"run.sh": "#!/bin/sh\n", "beside": "#!/bin/sh\n", "odd": "#!/bin/sh\n"}},
		{"", "main", third, map[string]string{"a.txt": "three", "lib/sub/i.txt": "inner 1", module: ""}},
		{"", "refs/heads/side", "", map[string]string{"a.txt": "side"}},
		{"", "HEAD", "", map[string]string{"a.txt": "side"}},
	}
	store := &Store{Dir: filepath.Join(t.TempDir(), "fetched"), Pins: filepath.Join(t.TempDir(), "lock.json")}
	check := func(t *testing.T) {
		for _, c := range cases {
			f := opened(t, store, r.url()+c.dir+"@"+c.revision)
			got := content(t, f.Path)
			if _, has := got[module]; has {
				got[module] = ""
			}
			if !maps.Equal(got, c.files) || c.commit != "" && f.Commit != c.commit {
				t.Errorf("%s%s: commit %s, %q", c.dir, c.revision, f.Commit, got)
			}
		}
		script := filepath.Join(opened(t, store, r.url()+"//t@v2").Path, "run.sh")
		if info, err := os.Stat(script); err != nil || runtime.GOOS != "windows" && info.Mode()&0o111 == 0 {
			t.Errorf("%v, %v", info, err)
		}
	}
	check(t)
	must(t, os.RemoveAll(r.dir))
	must(t, os.RemoveAll(inner.dir))
	check(t)
	if left := leftovers(t, store); len(left) != 4 { // commits
		t.Errorf("%q", left)
	}
}

// TestServer fetches by HTTP: also a commit that is no branch's, which the server does not give alone.
func TestServer(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	first := r.write("one")
	second := r.write("two")
	r.tag("v2", second)
	s := serve(t, filepath.Dir(r.dir), nil)
	for revision, want := range map[string]string{first: "one", "main": "two", "v2": "two"} {
		wantText(t, opened(t, newStore(t), s.URL+"/kiln.git@"+revision), want)
	}
}

// TestPins: a branch stands for the commit in the lock file, whatever the repository has since.
func TestPins(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	first := r.write("one")
	dir := t.TempDir()
	store := &Store{Dir: filepath.Join(dir, "store"), Pins: filepath.Join(dir, "boardsmith.lock.json")}
	opened(t, store, r.url()+"@main")
	second := r.write("two")
	other := &Store{Dir: filepath.Join(dir, "another computer"), Pins: store.Pins}
	written, err := os.Stat(store.Pins)
	must(t, err)
	for _, s := range []*Store{store, other} {
		f := opened(t, s, r.url()+"@main")
		wantText(t, f, "one")
		testkit.Equal(t, "commit", f.Commit, first)
	}
	if now, err := os.Stat(store.Pins); err != nil || !os.SameFile(now, written) {
		t.Errorf("without a change, the lock file was written again: %v", err)
	}
	lock := testkit.ReadFile(t, store.Pins)
	want := "{\n  \"format\": 1,\n  \"commits\": {\n    \"" + r.url() + "@main\": \"" + first + "\"\n  }\n}\n"
	testkit.Equal(t, "lock file", string(lock), want)
	places, err := Pinned(store.Pins)
	must(t, err)
	testkit.Equal(t, "places", places, []string{r.url() + "@main"})
	must(t, os.Remove(store.Pins))
	if places, err := Pinned(store.Pins); err != nil || len(places) != 0 {
		t.Errorf("%q, %v", places, err)
	}
	damaged := filepath.Join(dir, "damaged.json")
	testkit.WriteFile(t, damaged, `{"format": 1, "commits": {"kiln@main": "`+first+`"}}`)
	_, err = Pinned(damaged)
	wantError(t, err, failure.Config, damaged)
	testkit.Equal(t, "without the lock file", opened(t, store, r.url()+"@main").Commit, second)
	for text, want := range map[string]string{
		`{"format": 2, "commits": {}}`:            "format: 2 is none of 1",
		`{"format": 1, "commits": {"x": "main"}}`: `x: "main" is not a commit`,
		string(lock) + strings.Repeat(" ", 1<<20): "lock.json: larger than 1 MiB",
	} {
		testkit.WriteFile(t, store.Pins, text)
		_, err := open1(t, store, r.url()+"@main")
		wantError(t, err, "", want)
	}
	testkit.WriteFile(t, store.Pins, string(append(lock, bytes.Repeat([]byte(" "), 1<<20-len(lock))...)))
	testkit.Equal(t, "with 1 MiB", opened(t, store, r.url()+"@main").Commit, first)
	must(t, os.Remove(store.Pins))
	unlock, err := store.lock(t.Context(), "pins")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*lockEvery)
	defer cancel()
	if _, err := os.Stat(store.Pins); store.pin(ctx, Ref{URL: r.url(), Revision: "main"}, first) == nil || err == nil {
		t.Errorf("written while another fetch writes it: %v", err)
	}
	unlock()
	must(t, os.Mkdir(store.Pins, 0o755))
	_, err = open1(t, store, r.url()+"@main")
	wantError(t, err, "", store.Pins)
}

// TestHolds: a path below a fetched folder is one that nobody may change, also a relative one.
func TestHolds(t *testing.T) {
	r := newRepository(t)
	commit := r.write("one")
	f := opened(t, newStore(t), r.url()+"@"+commit)
	t.Chdir(f.Path)
	for name, want := range map[string]bool{
		"a.txt": true, ".": true, f.Path: true, filepath.Dir(f.Path): false, filepath.Join("..", recordFile): false,
	} {
		testkit.Equal(t, name, Holds(name), want)
	}
}

// TestPinsNextStep: a commit that the repository lost names the lock file, which no link may be.
func TestPinsNextStep(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.write("one")
	served := serve(t, filepath.Dir(r.dir), nil).URL + "/kiln.git"
	dir := t.TempDir()
	store := &Store{Dir: filepath.Join(dir, "store"), Pins: filepath.Join(dir, "lock.json")}
	for _, url := range []string{r.url(), served} {
		testkit.WriteFile(t, store.Pins, `{"format": 1, "commits": {"`+url+`@main": "`+
			strings.Repeat("0123456789", 4)+`"}}`)
		_, err := open1(t, store, url+"@main")
		wantError(t, err, "", "no commit 0123456789", "entry "+url+"@main from "+store.Pins)
	}
	must(t, os.Remove(store.Pins))
	if err := os.Symlink(filepath.Join(dir, "other.json"), store.Pins); err != nil {
		t.Skip(err)
	}
	_, err := open1(t, store, r.url()+"@main")
	wantError(t, err, failure.Config, "it is a link")
}

// TestDamagedFolder: what somebody changed in the store is fetched again.
func TestDamagedFolder(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	commit := r.commit("main", entry{name: "a.txt", text: "one"},
		entry{name: "l", text: "a.txt", mode: filemode.Symlink})
	store := newStore(t)
	relink := func(name string) error { return errors.Join(os.Remove(name), os.Symlink("./a.txt", name)) }
	for _, damage := range []func(dir string) error{
		func(dir string) error { return os.WriteFile(filepath.Join(dir, "a.txt"), []byte("0ne"), 0o644) },
		func(dir string) error { return os.WriteFile(filepath.Join(dir, "b.txt"), nil, 0o644) },
		func(dir string) error { return os.Remove(filepath.Join(dir, "a.txt")) },
		func(dir string) error { return os.Mkdir(filepath.Join(dir, "new"), 0o755) },
		func(dir string) error { return os.Chmod(filepath.Join(dir, "a.txt"), 0o755) },
		func(dir string) error { return os.Remove(filepath.Join(filepath.Dir(dir), recordFile)) },
		func(dir string) error { return relink(filepath.Join(dir, "l")) },
	} {
		f := opened(t, store, r.url()+"@"+commit)
		must(t, damage(f.Path))
		want := map[string]string{"a.txt": "one", "l": "one"}
		if got := content(t, opened(t, store, r.url()+"@"+commit).Path); !maps.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if target, err := os.Readlink(filepath.Join(f.Path, "l")); err != nil || target != "a.txt" {
			t.Errorf("the link leads to %s, %v", target, err)
		}
		info, err := os.Stat(filepath.Join(f.Path, "a.txt"))
		if must(t, err); runtime.GOOS != "windows" && info.Mode()&0o100 != 0 {
			t.Errorf("mode %v", info.Mode())
		}
	}
	second := r.write("two")
	must(t, os.Rename(store.place(r.url(), commit), store.place(r.url(), second)))
	wantText(t, opened(t, store, r.url()+"@"+second), "two")
}

// TestFetchedOnce opens one branch from many goroutines.
func TestFetchedOnce(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	commit := r.write("one")
	s := serve(t, filepath.Dir(r.dir), nil)
	for n, revision := range []string{"main", commit} {
		store := &Store{Dir: t.TempDir(), Pins: filepath.Join(t.TempDir(), "lock.json")}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if f, err := open1(t, store, s.URL+"/kiln.git@"+revision); err != nil || content(t, f.Path)["a.txt"] != "one" {
					t.Error(f, err)
				}
			})
		}
		all.Wait()
		testkit.Equal(t, revision+" is fetched", s.packs.Load(), int32(n+1))
	}
}

// TestUpdate: the commit of a branch in the lock file is replaced by the present one; of a commit there is none.
func TestUpdate(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	first := r.write("one")
	store := &Store{Dir: t.TempDir(), Pins: filepath.Join(t.TempDir(), "lock.json")}
	update := func(revision, wantOld, want string) {
		t.Helper()
		ref, err := Parse(r.url() + "@" + revision)
		must(t, err)
		old, commit, err := store.Update(t.Context(), ref)
		if err != nil || old != wantOld || commit != want {
			t.Errorf("%s: %q, %q, %v", revision, old, commit, err)
		}
	}
	update("main", "", first)
	second := r.write("two")
	wantText(t, opened(t, store, r.url()+"@main"), "one")
	update("main", first, second)
	wantText(t, opened(t, store, r.url()+"@main"), "two")
	update(first, first, first)
}

// TestUnknown: what is not there is named, with the next step, and nothing remains.
func TestUnknown(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	commit := r.write("one")
	r.tag("twice", commit)
	r.commit("twice", entry{name: "a.txt", text: "two"})
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("4d", 32) + "\nsize 12\n"
	r.commit("lfs", entry{name: "data", files: []entry{{name: "a table.bin", text: pointer}}},
		entry{name: "fw", files: []entry{{name: "t.bin", text: "../data/a table.bin", mode: filemode.Symlink}}},
		entry{name: "ok", files: []entry{{name: "about.txt", text: "It is no " + pointer}}})
	missing := strings.Repeat("0123456789", 4)
	s := serve(t, filepath.Dir(r.dir), nil)
	must(t, exec.Command("git", "-C", r.dir, "update-server-info").Run())
	dumb := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(r.dir))))
	t.Cleanup(dumb.Close)
	for text, want := range map[string]string{
		dumb.URL + "/kiln.git@main":             `/kiln.git/info/refs?service=git-upload-pack": the server does not speak git's`,
		r.url() + "@maim":                       `no revision maim; did you mean "main"?`,
		r.url() + "@" + commit[:10]:             "no revision " + commit[:10],
		r.url() + "@" + missing:                 missing,
		s.URL + "/kiln.git@" + missing:          "no commit " + missing,
		r.url() + "@twice":                      "is a branch and a tag",
		r.url() + "//templates@main":            commit[:12] + " has no templates",
		r.url() + "2@main":                      r.url() + "2",
		s.URL + "/none.git@main":                "/none.git",
		r.url() + "@lfs":                        "data/a table.bin is a Git LFS pointer",
		r.url() + "//data/a table.bin@lfs":      "data/a table.bin is a Git LFS pointer",
		r.url() + "//fw@lfs":                    "fw/t.bin is a Git LFS pointer",
		"http://127.0.0.1:1/kiln.git@main":      "connection refused",
		"http://no-such-host.invalid/kiln@main": "no-such-host.invalid",
	} {
		store := newStore(t)
		_, err := open1(t, store, text)
		if strings.Contains(text, "//templates") || strings.Contains(text, "@lfs") {
			store = newStore(t) // the commit itself is left
		}
		class := failure.Config
		if strings.HasPrefix(text, "http://127.0.0.1:1/") || strings.HasPrefix(text, "http://no-such") {
			class = failure.Network
		}
		wantStep(t, store, err, class, want)
	}
	opened(t, newStore(t), r.url()+"//ok@lfs")
}

// TestHostile: a commit with a name or a link that leads out of the folder is refused by that name.
func TestHostile(t *testing.T) {
	t.Parallel()
	link := filemode.Symlink
	outside := filepath.Join(t.TempDir(), "outside")
	for name, entries := range map[string][]entry{
		"..":          {{name: "..", files: []entry{{name: "x"}}}},
		".git":        {{name: ".git", files: []entry{{name: "config"}}}},
		".GIT.":       {{name: ".GIT. ", files: []entry{{name: "config"}}}},
		"GIT~1":       {{name: "GIT~1", files: []entry{{name: "config"}}}},
		"../x":        {{name: "../x"}},
		"a/b":         {{name: "a/b"}},
		`a\\b`:        {{name: `a\b`}},
		"c:x":         {{name: "c:x"}},
		"up ->":       {{name: "up", text: "../x", mode: link}},
		"d/up ->":     {{name: "d", files: []entry{{name: "up", text: "../../x", mode: link}}}},
		"abs ->":      {{name: "abs", text: outside, mode: link}},
		"round ->":    {{name: "d", text: ".", mode: link}, {name: "round", text: "d/../..", mode: link}},
		"file exists": {{name: "l", text: "d", mode: filemode.Regular}, {name: "l", text: "x"}},
	} {
		r := newRepository(t)
		store := newStore(t)
		commit := r.commit("main", entries...)
		_, err := open1(t, store, r.url()+"@"+commit)
		wantStep(t, store, err, failure.Config, name)
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("something was written outside")
	}
}

// TestHostileSubmodules: a submodule without a URL, one on this computer, and one that contains itself.
func TestHostileSubmodules(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	plain := r.commit("plain", entry{name: "a.txt"})
	modules := func(url string) entry {
		return entry{name: ".gitmodules", text: "[submodule \"s\"]\n\tpath = s\n\turl = " + url + "\n"}
	}
	sub := entry{name: "s", commit: plain}
	s := serve(t, filepath.Dir(r.dir), nil)
	for want, commit := range map[string]string{
		"submodule s: no URL": r.commit("none", sub),
		"is on this computer": r.commit("local", sub, modules(r.url())),
		"is not a URL":        r.commit("path", sub, modules("/etc")),
		"scheme ext":          r.commit("scheme", sub, modules("ext://sh")),
		"me%0Ahost=":          r.commit("user", sub, modules(strings.Replace(s.URL, "//", "//me%0ahost=h@", 1)+"/kiln.git")),
		"%0Ahost=h":           r.commit("beside", sub, modules(`"../kiln.git\nhost=h"`)),
		"contains a control":  r.commit("scp", sub, modules(`"git@h:kiln.git\nhost=h"`)),
		"no commit 01234567890123": r.commit("missing", modules("../kiln.git"), entry{
			name: "s", commit: strings.Repeat("0123456789", 4),
		}),
	} {
		store := newStore(t)
		_, err := open1(t, store, s.URL+"/kiln.git@"+commit)
		wantStep(t, store, err, failure.Config, want)
	}
	none := r.commit("nowhere", sub, modules("../none.git"))
	_, err := open1(t, newStore(t), s.URL+"/kiln.git@"+none)
	wantError(t, err, "", "git ls-remote "+s.URL+"/none.git")
	good := r.commit("relative", sub, modules("../kiln.git"))
	testkit.Equal(t, "files", len(content(t, opened(t, newStore(t), s.URL+"/kiln.git@"+good).Path)), 2)
}

// TestTooMany: files are limited, and submodules in number and depth.
func TestTooMany(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	commit := r.commit("main", entry{name: "a.txt"})
	modules := entry{name: ".gitmodules", text: "[submodule \"s\"]\n\tpath = s\n\turl = " + r.url() + "\n"}
	inner := r.commit("main", modules, entry{name: "s", commit: commit})
	outer := r.commit("main", modules, entry{name: "s", commit: inner})
	for _, c := range []struct {
		files, modules, deep int
		tooMany              bool
	}{
		{1<<20 - 5, 254, 14, false}, // five files and folders, two submodules
		{1<<20 - 4, 254, 14, true},
		{0, 255, 0, true},
		{0, 0, 15, true},
	} {
		root, err := os.OpenRoot(t.TempDir())
		must(t, err)
		from, err := connect(t.Context(), r.url())
		must(t, err)
		files := &checkout{
			root: root, objects: t.TempDir(), left: 1 << 20, links: map[string]string{}, files: c.files, modules: c.modules,
		}
		err = files.from(t.Context(), from, outer, "", c.deep)
		if c.tooMany && !errors.Is(err, errTooMuch) || !c.tooMany && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		must(t, root.Close())
	}
}
