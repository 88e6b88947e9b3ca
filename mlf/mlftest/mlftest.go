// Package mlftest helps tests that need archives: it finds TVM's own, and packs small ones made by hand.
//
// It is for tests only, and holds no archives itself.
package mlftest

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/mlf"
)

// Data returns the folder with archives that TVM generated (BOARDSMITH_DATA, else ../../shared/data), or skips the
// test.
func Data(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("BOARDSMITH_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	if _, err := os.Stat(filepath.Join(dir, "mlf")); err != nil {
		t.Skipf("no TVM archives in %s; set BOARDSMITH_DATA to run this", dir)
	}
	return dir
}

// Archives lists TVM's archives in Data: models, candidates and the MLPerf Tiny networks, sorted.
func Archives(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"mlf/*.tar", "mlf/candidates/*.tar", "mlperf_tiny/*.tar.gz"} {
		found, err := filepath.Glob(filepath.Join(Data(t), filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s in %s: %v", pattern, Data(t), err)
		}
		all = append(all, found...)
	}
	sort.Strings(all)
	return all
}

// Name is an archive's name without folder and ending, such as "digits_i8.aot_packed".
func Name(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".tar")
}

// Arrays returns the files of a model's inputs and expected outputs beside its archive. conv_pools is conv_f32's
// network with weights of its own: it takes the same inputs, and there are no outputs ("").
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
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	for _, f := range files {
		add(tar.Header{Name: "./" + f.Name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f.Data))}, f.Data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Parse packs files and reads the archive back; it must be one that is understood.
func Parse(t testing.TB, files ...mlf.File) *mlf.Archive {
	t.Helper()
	a, err := mlf.Parse("test.tar", Tar(t, files...))
	if err != nil {
		t.Fatal(err)
	}
	return a
}
