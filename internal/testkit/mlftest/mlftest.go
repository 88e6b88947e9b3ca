// Package mlftest provides archives for tests: it finds those that TVM made, and packs small handmade ones.
//
// It holds no archives itself.
package mlftest

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// Dir returns the folder of this repository's archives, which internal/testdata/archives/README.md describes.
func Dir(t testing.TB) string {
	t.Helper()
	return filepath.Join(testkit.Root(t), "internal", "testdata", "archives")
}

// Archives lists the archives that TVM 0.14 made of models and candidates, and those of the folders in
// BOARDSMITH_ARCHIVES, sorted in each folder.
func Archives(t testing.TB) []string {
	t.Helper()
	all := append(in(t, Dir(t)), in(t, filepath.Join(Dir(t), "candidates"))...)
	for _, dir := range filepath.SplitList(os.Getenv("BOARDSMITH_ARCHIVES")) {
		all = append(all, in(t, dir)...)
	}
	return all
}

// OtherVersions lists the archives that other versions of TVM made. Their folders are named after the version.
func OtherVersions(t testing.TB) []string {
	t.Helper()
	return append(in(t, filepath.Join(Dir(t), "tvm-0.9")), in(t, filepath.Join(Dir(t), "tvm-0.18"))...)
}

func in(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.tar", "*.tar.gz"} {
		found, err := fs.Glob(os.DirFS(dir), pattern)
		testkit.Must(t, err)
		for _, name := range found {
			all = append(all, filepath.Join(dir, name))
		}
	}
	if len(all) == 0 {
		t.Fatalf("no archives in %s", dir)
	}
	sort.Strings(all)
	return all
}

// Path returns the archive of that name, such as "digits_i8.aot_packed", among Archives.
func Path(t testing.TB, name string) string {
	t.Helper()
	for _, path := range Archives(t) {
		if Name(path) == name {
			return path
		}
	}
	t.Fatalf("no archive %s in %s", name, Dir(t))
	return ""
}

// Open opens an archive of one model, and returns both.
func Open(t testing.TB, path string) (*mlf.Archive, *mlf.Model) {
	t.Helper()
	a, err := mlf.Open(path)
	testkit.Must(t, err)
	m, err := a.Model("")
	testkit.Must(t, err)
	return a, m
}

// Read returns the arrays of a .npz file.
func Read(t testing.TB, path string) []ndarray.Named {
	t.Helper()
	all, err := ndarray.ReadNPZ(path)
	testkit.Must(t, err)
	return all
}

// Name is an archive's name without folder and ending, such as "digits_i8.aot_packed".
func Name(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".tar")
}

// Arrays returns the files of a model's inputs and expected outputs beside its archive. conv_pools is conv_f32's
// network with other weights: it has the same inputs and no expected outputs ("").
func Arrays(path string) (inputs, outputs string) {
	model, _, _ := strings.Cut(Name(path), ".")
	if rest, ok := strings.CutPrefix(model, "matmul_"); ok && rest != "" {
		model = "matmul" // the candidates share their inputs
	}
	if model == "conv_pools" {
		return filepath.Join(filepath.Dir(path), "conv_f32.inputs.npz"), ""
	}
	base := filepath.Join(filepath.Dir(path), model)
	return base + ".inputs.npz", base + ".outputs.npz"
}

// Tar packs files as TVM does: names begin with "./", and there is an entry for the root.
func Tar(t testing.TB, files ...mlf.File) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, data []byte) {
		testkit.Must(t, w.WriteHeader(&h))
		_, err := w.Write(data)
		testkit.Must(t, err)
	}
	add(tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	for _, f := range files {
		add(tar.Header{Name: "./" + f.Name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f.Data))}, f.Data)
	}
	testkit.Must(t, w.Close())
	return b.Bytes()
}

// Parse packs files and parses the archive; the test fails if that returns an error.
func Parse(t testing.TB, files ...mlf.File) *mlf.Archive {
	t.Helper()
	a, err := mlf.Parse("test.tar", Tar(t, files...))
	testkit.Must(t, err)
	return a
}

// Check returns the first error of CheckModel for the archive's models.
func Check(a *mlf.Archive) error {
	for _, m := range a.Models {
		if err := a.CheckModel(m); err != nil {
			return err
		}
	}
	return nil
}
