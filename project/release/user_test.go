package release_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/package-url/packageurl-go"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/release"
)

// aboutFile is release.json as its readers see it.
type aboutFile struct {
	Product, Version string
	Commit, Changed  string
	Boardsmith       struct{ Version, Commit string }
	Parts            []struct {
		Kind, Name, Version, Licence, PURL string
		Files                              []struct{ Name, SHA256 string }
	}
	Licences []struct{ ID, File string }
}

// users are the files that a user adds to the project of TestUser, or changes there.
var users = map[string]string{
	"src/secret.c":               "/* Copyright ACME. Proprietary. */\nint acme_secret(void) { return 42; }\n",
	"src/mit.c":                  "// SPDX-License-Identifier: MIT\nint acme_mit(void) { return 1; }\n",
	"src/odd.h":                  "// SPDX-License-Identifier: ask ../../acme\n",
	"src/gpl.h":                  "// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0\n",
	"LICENSES/mit.txt":           "MIT, of ACME\n",
	"libraries/nn/library.json":  `{"doc": "d", "sources": ["nn.c"], "licence": "BSD-3-Clause"}`,
	"libraries/nn/nn.c":          "int nn_one(void);\nint nn_one(void) { return 1; }\n",
	"libraries/nn/isc.h":         "// SPDX-License-Identifier: ISC\n",
	"libraries/nn/LICENSE":       "BSD, of NN\n",
	"libraries/nn/LICENSES/a.md": "",
}

// usersRelease returns the release of standalone firmware for host with the files of users, its release.json, and the
// name of a file of the template that the user edited.
func usersRelease(t *testing.T) (*release.Release, aboutFile, string) {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteFiles(t, dir, users)
	if _, err := exec.LookPath("git"); err == nil { // a library with a repository of its own
		for _, args := range []string{"init -q", "add -A", "-c user.name=a -c user.email=a@b commit -qm m"} {
			git := exec.Command("git", strings.Fields(args)...)
			git.Dir = filepath.Join(dir, "libraries", "nn")
			must(t, git.Run())
		}
		writeFile(t, filepath.Join(dir, "libraries", "nn", "nn.c"), users["libraries/nn/nn.c"]+"// changed\n")
	}
	p := generated(t, dir, project.Spec{
		Board: "host", Model: mlftest.Path(t, "sine.aot_packed"), Options: boards.Options{App: boards.Standalone},
		Libraries: []string{filepath.Join(dir, "libraries", "nn")},
	})
	sources, err := filepath.Glob(filepath.Join(p.Dir(), "src", "*.c"))
	if err != nil || len(sources) == 0 {
		t.Fatal("the template has no source", err)
	}
	writeFile(t, sources[0], string(readFile(t, sources[0]))+"\n// of ACME\n")
	for name, text := range users {
		if !strings.HasPrefix(name, "libraries/") {
			writeFile(t, filepath.Join(p.Dir(), name), text)
		}
	}
	o := release.Options{Product: "Kiln", Version: "2.1", Commit: strings.Repeat("b", 40), Changed: "c0ffee"}
	o.Boardsmith.Module, o.Boardsmith.Commit = "v0.1.0", strings.Repeat("a", 40)
	_, r := built(t, p, o)
	var about aboutFile
	readAbout(t, r, &about)
	return r, about, "src/" + filepath.Base(sources[0])
}

// TestUser checks a release with files of a user.
func TestUser(t *testing.T) {
	r, about, edited := usersRelease(t)
	t.Run("files", func(t *testing.T) { checkUsersFiles(t, r, about, edited) })
	t.Run("licences", func(t *testing.T) { checkLicenceTexts(t, r, about) })
	t.Run("identities", func(t *testing.T) { checkIdentities(t, r, about) })
}

// checkUsersFiles: files that a user added or changed are a part of their own, with their own licence, and are listed.
func checkUsersFiles(t *testing.T, r *release.Release, about aboutFile, edited string) {
	got := map[string][]string{} // licence to files of the user
	for _, p := range about.Parts {
		if p.Kind != "user" {
			if len(p.Files) > 0 {
				t.Errorf("%s %s lists files", p.Kind, p.Name)
			}
			continue
		}
		if p.Name != "Kiln" || p.Version != "2.1" {
			t.Errorf("the user's part is %s %s", p.Name, p.Version)
		}
		for _, f := range p.Files {
			got[p.Licence] = append(got[p.Licence], f.Name)
		}
	}
	for licence, want := range map[string][]string{
		"NOASSERTION": {"src/secret.c"}, "MIT": {"src/mit.c"}, "ask ../../acme": {"src/odd.h"},
		"GPL-2.0-only WITH Classpath-exception-2.0": {"src/gpl.h"}, "Apache-2.0": {edited},
	} {
		if !slices.Equal(got[licence], want) {
			t.Errorf("licence %s: %q, want %q", licence, got[licence], want)
		}
	}
	readme := string(fileOf(t, r, "README.md"))
	if !strings.HasPrefix(readme, "# Kiln 2.1\n") ||
		!strings.Contains(readme, "`src/secret.c` is a file of Kiln, NOASSERTION") {
		t.Errorf("README.md:\n%s", readme)
	}
}

// checkLicenceTexts: every licence that a part names has its text, or its absence is stated.
func checkLicenceTexts(t *testing.T, r *release.Release, about aboutFile) {
	got := map[string]string{}
	for _, l := range about.Licences {
		got[l.ID] = l.File
	}
	readme := string(fileOf(t, r, "README.md"))
	for id, text := range map[string]string{
		"MIT": "MIT, of ACME\n", "0BSD": "Permission to use", "Apache-2.0": "Apache License",
		"GPL-2.0-only": "", "Classpath-exception-2.0": "", "BSD-3-Clause": "", "ISC": "", "ask ../../acme": "",
	} {
		file, named := got[id]
		absent := strings.Contains(readme, "The text of the licence `"+id+"` is not in this release.")
		if !named || absent != (file == "") || absent != (text == "") {
			t.Errorf("%s: named %v, file %q, stated absence %v", id, named, file, absent)
		}
		if file != "" && !strings.Contains(string(fileOf(t, r, file)), text) {
			t.Errorf("%s has not the text %q", file, text)
		}
	}
	if text := fileOf(t, r, "licences/libraries/nn/LICENSE"); string(text) != "BSD, of NN\n" {
		t.Errorf("the library's licence: %q", text)
	}
}

// checkIdentities: the bill has a version and a package URL for each component that has one, boardsmith's among them.
func checkIdentities(t *testing.T, r *release.Release, about aboutFile) {
	if about.Product != "Kiln" || about.Version != "2.1" || about.Boardsmith.Version != "v0.1.0" ||
		len(about.Boardsmith.Commit) != 40 {
		t.Errorf("product %q %q by %+v", about.Product, about.Version, about.Boardsmith)
	}
	for _, p := range about.Parts {
		if p.Kind == "model" && p.Version != "" {
			t.Errorf("an archive has the version %s", p.Version)
		}
		if _, err := exec.LookPath("git"); p.Name == "nn" && err == nil && !strings.HasSuffix(p.Version, ", changed") {
			t.Errorf("a library's commit is %q", p.Version)
		}
	}
	bom := billOf(t, r)
	main := bom.Metadata.Component
	if main.Name != "Kiln" || main.Version != "2.1" || main.PackageURL != "pkg:generic/Kiln@2.1" {
		t.Errorf("the product is %s %s, %s", main.Name, main.Version, main.PackageURL)
	}
	source := main.Pedigree
	if source == nil || (*source.Commits)[0].UID != about.Commit || !strings.HasSuffix(source.Notes, about.Changed) ||
		about.Commit != strings.Repeat("b", 40) || about.Changed != "c0ffee" {
		t.Errorf("the product's source is %+v, %s, %s", source, about.Commit, about.Changed)
	}
	purls := map[string]bool{}
	for _, c := range append(*bom.Components, *bom.Metadata.Tools.Components...) {
		purl, err := packageurl.FromString(c.PackageURL)
		if err != nil || purl.Name == "" {
			t.Errorf("%s %s: %q, %v", c.Description, c.Name, c.PackageURL, err)
		}
		purls[c.PackageURL] = true
	}
	for _, purl := range []string{
		"pkg:golang/github.com/boardsmith/boardsmith@v0.1.0", "pkg:golang/github.com/boardsmith/boardsmith@v0.1.0#crt",
		"pkg:golang/github.com/boardsmith/boardsmith@v0.1.0#templates/baremetal",
	} {
		if !purls[purl] {
			t.Errorf("no component %s in %v", purl, purls)
		}
	}
}
