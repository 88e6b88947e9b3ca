package release_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/release"
)

// built returns the release of a project in dir, built with a cache of its own. It skips the test without the tools.
func built(t *testing.T, dir, board, app, archive string) *release.Release {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the host board is a process of Linux")
	}
	ctx := testkit.Context(t)
	builder := &project.Builder{
		Host: device.Host{Cache: cache.New(filepath.Join(dir, "cache"), cache.Options{})}, Forms: true, Jobs: 2,
	}
	p, err := builder.Generate(ctx, filepath.Join(dir, "p"), project.Spec{
		Board: board, Model: mlftest.Path(t, archive), Options: boards.Options{App: app},
	})
	must(t, err)
	defer p.Close()
	i, err := p.Build(ctx)
	if missing := new(failure.MissingToolError); errors.As(err, &missing) {
		t.Skip(missing)
	}
	must(t, err)
	r, err := release.Of(p, i, release.Options{})
	must(t, err)
	return r
}

// TestEqual makes releases of the same inputs at two paths, with two homes and two caches, and compares all bytes.
func TestEqual(t *testing.T) {
	type trial struct{ board, app, archive string }
	trials := []trial{{"host", boards.RPC, "sine.aot_packed"}, {"mps2_an385", boards.Standalone, "sine.graph"}}
	if drawn.InFull() {
		trials = append(trials, trial{"mps2_an385", boards.RPC, "digits_i8.aot_c"},
			trial{"qemu_riscv32", boards.Standalone, "dscnn_i8.aot_packed"}, trial{"host", boards.Standalone, "twoin.graph"})
	}
	for _, x := range trials {
		t.Run(x.board+"/"+x.app, func(t *testing.T) {
			var folders []string
			for _, name := range []string{"a", "another/place with spaces"} {
				home := filepath.Join(t.TempDir(), name)
				t.Setenv("HOME", home)
				t.Setenv("USER", filepath.Base(home))
				r := built(t, filepath.Join(home, "work"), x.board, x.app, x.archive)
				dir := filepath.Join(home, "release")
				must(t, r.Write(t.Context(), dir, false))
				if !r.Matches(dir) {
					t.Error("what was written is not the release")
				}
				folders = append(folders, dir)
			}
			sameFolders(t, folders[0], folders[1])
			want := []string{
				"README.md", "SHA256SUMS", "firmware.elf", "release.json", "sbom.cdx.json", "size.json", "size.txt",
			}
			if x.board != "host" {
				want = append(want, "firmware.bin", "firmware.hex")
			}
			for _, name := range want {
				if _, err := os.Stat(filepath.Join(folders[0], name)); err != nil {
					t.Error(err)
				}
			}
			checkBill(t, folders[0])
		})
	}
}

// sameFolders compares all files of two folders.
func sameFolders(t *testing.T, a, b string) {
	t.Helper()
	x, y := filesIn(t, a), filesIn(t, b)
	if len(x) != len(y) || len(x) == 0 {
		t.Errorf("%d and %d files", len(x), len(y))
	}
	for name, data := range x {
		if !bytes.Equal(data, y[name]) {
			t.Errorf("%s differs:\n%.2000s\n%.2000s", name, data, y[name])
		}
		if bytes.Contains(data, []byte(filepath.Dir(a))) {
			t.Errorf("%s contains a path of this computer", name)
		}
	}
}

func filesIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		all[name], err = os.ReadFile(path)
		return err
	})
	must(t, err)
	return all
}

// checkBill reads the bill of materials with the library, and finds in it the parts that every firmware has.
func checkBill(t *testing.T, dir string) {
	t.Helper()
	data := filesIn(t, dir)["sbom.cdx.json"]
	var bom cyclonedx.BOM
	must(t, cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(&bom))
	if bom.SpecVersion != cyclonedx.SpecVersion1_6 || bom.Metadata.Timestamp != "" || !strings.HasPrefix(bom.SerialNumber,
		"urn:uuid:") {
		t.Errorf("%v, time %q, serial %q", bom.SpecVersion, bom.Metadata.Timestamp, bom.SerialNumber)
	}
	var kinds []string
	for _, c := range *bom.Components {
		kinds = append(kinds, c.Description)
		if c.Hashes == nil || len((*c.Hashes)[0].Value) != 64 {
			t.Errorf("%s %s has no digest", c.Description, c.Name)
		}
		if runtime := c.Description == "runtime"; runtime && (*c.Licenses)[0].Expression != "Apache-2.0" {
			t.Errorf("licence of the runtime: %+v", c.Licenses)
		}
	}
	for _, kind := range []string{"model", "code", "runtime", "template"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("no part %s in %v", kind, kinds)
		}
	}
	tools := *bom.Metadata.Tools.Components
	isCompiler := func(c cyclonedx.Component) bool { return strings.Contains(c.Name, "gcc") || c.Name == "cc" }
	if !slices.ContainsFunc(tools, isCompiler) {
		t.Errorf("no compiler in %+v", tools)
	}
}

// TestWrite writes over what is there, and into folders that are no releases.
func TestWrite(t *testing.T) {
	one := &release.Release{Files: []release.File{
		{Name: "SHA256SUMS", Data: []byte("00  a/b\n00  release.json\n00  z\n")},
		{Name: "a/b", Data: []byte("2")},
		{Name: "release.json", Data: []byte("3")},
	}}
	other := &release.Release{Files: append(slices.Clone(one.Files), release.File{Name: "z", Data: []byte("4")})}
	dir := filepath.Join(t.TempDir(), "new", "r")
	if err := one.Write(t.Context(), dir, false); err != nil || !one.Matches(dir) || other.Matches(dir) {
		t.Fatal(err)
	}
	wantError(t, other.Write(t.Context(), dir, false), failure.Config, "is another release")
	if !one.Matches(dir) {
		t.Error("it was replaced")
	}
	if err := other.Write(t.Context(), dir, true); err != nil || !other.Matches(dir) || one.Matches(dir) {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	notes := filepath.Join(dir, "a", "notes")
	writeFile(t, notes, "")
	wantError(t, one.Write(t.Context(), dir, true), failure.Config, "a/notes")
	readFile(t, notes)
	own := filepath.Join(t.TempDir(), "own")
	must(t, os.MkdirAll(filepath.Join(own, "kept"), 0o755))
	wantError(t, one.Write(t.Context(), own, true), failure.Config, "it is no release")
	if _, err := os.Stat(filepath.Join(own, "kept")); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	for _, path := range []string{file, filepath.Join(file, "below")} {
		wantError(t, one.Write(t.Context(), path, true), failure.Config)
	}
}

// TestBuilds: release.json has what was built, and an image that is not the project's last build has no release.
func TestBuilds(t *testing.T) {
	dir := t.TempDir()
	r := built(t, dir, "host", boards.Standalone, "sine.aot_c")
	var about struct {
		Format     int
		App, Board string
		Options    []string
		Files      map[string]string
		BuildID    string `json:"build_id"`
		Models     []struct{ Name, Archive string }
	}
	must(t, json.Unmarshal(fileOf(t, r, "release.json"), &about))
	if about.Format != 1 || about.App != "standalone" || about.Board != "host" || len(about.BuildID) != 32 ||
		!slices.Equal(about.Options, []string{"app=standalone"}) || len(about.Files) != len(r.Files)-2 ||
		len(about.Models) != 1 || about.Models[0].Name != "sine" {
		t.Errorf("%+v", about)
	}

	p, err := (&project.Builder{}).Open(filepath.Join(dir, "p"))
	must(t, err)
	defer p.Close()
	i, err := p.Built()
	if err != nil || i == nil {
		t.Fatal(err)
	}
	wrong := *i
	wrong.Digest = strings.Repeat("0", 64)
	_, err = release.Of(p, &wrong, release.Options{})
	wantError(t, err, failure.Config)
	writeFile(t, i.Path, "another")
	_, err = release.Of(p, i, release.Options{})
	wantError(t, err, failure.Config)
}

// TestLicence: the text that releases have is the repository's.
func TestLicence(t *testing.T) {
	if !bytes.Equal(readFile(t, "licences/Apache-2.0.txt"), readFile(t, "../../LICENSE")) {
		t.Error("licences/Apache-2.0.txt is not LICENSE")
	}
}

// TestContexts: Write stops when its context ends, and writes nothing.
func TestContexts(t *testing.T) {
	r, dir := &release.Release{Files: []release.File{{Name: "z"}}}, filepath.Join(t.TempDir(), "r")
	failuretest.Ended(t, failuretest.Calls{
		"Release.Write": func(ctx context.Context) error { return r.Write(ctx, dir, false) },
	})
	if r.Matches(dir) {
		t.Error("the release is there")
	}
}
