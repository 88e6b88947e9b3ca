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
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/release"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	readFile  = testkit.ReadFile
	wantError = testkit.WantError
)

// generated returns a project in dir, with a cache of its own.
func generated(t *testing.T, dir string, s project.Spec, path ...string) *project.Project {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the host board is a process of Linux")
	}
	host := device.Host{Path: path, Cache: cache.New(filepath.Join(dir, "cache"), cache.Options{})}
	builder := &project.Builder{Host: host, Forms: true, Jobs: 2}
	p, err := builder.Generate(testkit.Context(t), filepath.Join(dir, "p"), s)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// built builds a project and returns its image and its release. It skips the test without the tools.
func built(t *testing.T, p *project.Project, o release.Options) (*image.Image, *release.Release) {
	t.Helper()
	i, err := p.Build(testkit.Context(t))
	if missing, ok := errors.AsType[*failure.MissingToolError](err); ok {
		t.Skip(missing)
	}
	must(t, err)
	r, err := release.Of(p, i, o)
	must(t, err)
	return i, r
}

// fileOf returns a file of a release.
func fileOf(t *testing.T, r *release.Release, name string) []byte {
	t.Helper()
	n := slices.IndexFunc(r.Files, func(f release.File) bool { return f.Name == name })
	if n < 0 {
		t.Fatalf("the release has no %s", name)
	}
	return r.Files[n].Data
}

// readAbout decodes release.json.
func readAbout(t *testing.T, r *release.Release, v any) {
	t.Helper()
	must(t, json.Unmarshal(fileOf(t, r, "release.json"), v))
}

// billOf decodes the bill of materials.
func billOf(t *testing.T, r *release.Release) *cyclonedx.BOM {
	t.Helper()
	var bom cyclonedx.BOM
	data := bytes.NewReader(fileOf(t, r, "sbom.cdx.json"))
	must(t, cyclonedx.NewBOMDecoder(data, cyclonedx.BOMFileFormatJSON).Decode(&bom))
	return &bom
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
				_, r := built(t, generated(t, filepath.Join(home, "work"), project.Spec{
					Board: x.board, Model: mlftest.Path(t, x.archive), Options: boards.Options{App: x.app},
				}), release.Options{})
				checkBill(t, r)
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
				readFile(t, filepath.Join(folders[0], name))
			}
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
func checkBill(t *testing.T, r *release.Release) {
	t.Helper()
	bom := billOf(t, r)
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
	p := generated(t, t.TempDir(), project.Spec{
		Board: "host", Model: mlftest.Path(t, "sine.aot_c"), Options: boards.Options{App: boards.Standalone},
	})
	i, r := built(t, p, release.Options{})
	var about struct {
		Format     int
		App, Board string
		Options    []string
		Files      map[string]string
		BuildID    string `json:"build_id"`
		Models     []struct{ Name, Archive string }
	}
	readAbout(t, r, &about)
	if about.Format != 1 || about.App != "standalone" || about.Board != "host" || len(about.BuildID) != 32 ||
		!slices.Equal(about.Options, []string{"app=standalone"}) || len(about.Files) != len(r.Files)-2 ||
		len(about.Models) != 1 || about.Models[0].Name != "sine" {
		t.Errorf("%+v", about)
	}
	wrong := *i
	wrong.Digest = strings.Repeat("0", 64)
	_, err := release.Of(p, &wrong, release.Options{})
	wantError(t, err, failure.Config)
	writeFile(t, i.Path, "another")
	_, err = release.Of(p, i, release.Options{})
	wantError(t, err, failure.Config)
}

// TestBoardsOwnC: the C of a custom board is a part.
func TestBoardsOwnC(t *testing.T) {
	spec := project.Spec{Board: "kiln", Model: mlftest.Path(t, "digits_i8.aot_c")}
	_, r := built(t, generated(t, t.TempDir(), spec, "../../examples/custom-board"), release.Options{})
	type part struct{ Kind, Name, SHA256 string }
	var about struct{ Parts []part }
	readAbout(t, r, &about)
	if !slices.ContainsFunc(about.Parts, func(x part) bool {
		return x.Kind == "board" && x.Name == "kiln" && len(x.SHA256) == 64
	}) {
		t.Errorf("it is not in %+v", about.Parts)
	}
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
