package mlf_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// TestTVMsArchives reads all archives that TVM made, and compares the tensors with the arrays of each model.
func TestTVMsArchives(t *testing.T) {
	for _, path := range slices.Concat(mlftest.Archives(t), mlftest.OtherVersions(t)) {
		name := mlftest.Name(path)
		a, err := mlf.Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		m, err := a.Model("")
		if err != nil {
			t.Error(err)
			continue
		}
		if a.Version != 7 || len(m.Sources)+len(m.Objects) == 0 {
			t.Errorf("%s: version %d, %d sources, %d objects", name, a.Version, len(m.Sources), len(m.Objects))
		}
		checkKind(t, name, m)
		inputs, outputs := mlftest.Arrays(path)
		checkArrays(t, name+" inputs", m.Inputs, inputs, true)
		if outputs != "" {
			checkArrays(t, name+" outputs", m.Outputs, outputs, false)
		}
		// TVM's LLVM leaves the entry and the constants of ahead-of-time models out.
		if err := mlftest.Check(a); (err == nil) == strings.Contains(name, "aot_packed_llvm") {
			t.Errorf("%s: Check returned %v", name, err)
		}
	}
}

// checkKind compares style, executor and interface with the archive's name.
func checkKind(t *testing.T, name string, m *mlf.Model) {
	t.Helper()
	_, variant, _ := strings.Cut(name, ".")
	want := fmt.Sprint([]any{"full-model", mlf.AOT, "c", mlf.ABIUnpacked})
	switch {
	case variant == "":
		want = fmt.Sprint([]any{"operator", mlf.None, "packed", mlf.ABIPacked})
	case strings.HasPrefix(variant, "graph"):
		want = fmt.Sprint([]any{"full-model", mlf.Graph, "packed", mlf.ABIPacked})
	case strings.HasPrefix(variant, "aot_packed"):
		want = fmt.Sprint([]any{"full-model", mlf.AOT, "packed", mlf.ABIPacked})
	}
	testkit.Equal(t, name, fmt.Sprint([]any{m.Style, m.Executor, m.Interface, m.ABI}), want)
	if m.SystemLib == (m.Interface == "c") || (len(m.Functions) == 0) == m.SystemLib {
		t.Errorf("%s: system library %v with functions %q", name, m.SystemLib, m.Functions)
	}
	pools := []mlf.Buffer(nil)
	switch {
	case variant == "aot_c_pools":
		pools = []mlf.Buffer{{Name: "sram", Bytes: 8128}}
	case m.ABI == mlf.ABIPacked && len(m.Pools) == 1: // of the size that metadata.json says, and brought by the code
		pools = []mlf.Buffer{{Name: "global_workspace_1_var", Bytes: m.Workspace}}
		if brought := m.ExecutorPools(); len(brought) > 0 {
			t.Errorf("%s: the executor takes %v from the arena", name, brought)
		}
	}
	if !slices.Equal(m.Pools, pools) {
		t.Errorf("%s needs pools %v", name, m.Pools)
	}
}

func checkArrays(t *testing.T, what string, ts []mlf.Tensor, path string, named bool) {
	t.Helper()
	arrays, err := ndarray.ReadNPZ(path)
	if err != nil {
		t.Error(err)
		return
	}
	if len(arrays) != len(ts) {
		t.Errorf("%s: %v, but %s has %d arrays", what, ts, path, len(arrays))
		return
	}
	for i, a := range arrays {
		at := i
		if named {
			if at, err = tensorlist.Lookup("input", ts, a.Name); err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
		}
		if ts[at].DType != a.DType || !slices.Equal(ts[at].Shape, a.Shape) || ts[at].Bytes != int64(len(a.Data)) {
			t.Errorf("%s: %s, but array %q is %v %v", what, ts[at], a.Name, a.DType, a.Shape)
		}
	}
}

func TestOpenTellsByContent(t *testing.T) {
	packed := mlftest.Path(t, "conv_f32.graph")
	zipped := testkit.ReadFile(t, packed)
	other := filepath.Join(t.TempDir(), "conv.tar") // gzipped despite its name
	testkit.WriteFile(t, other, string(zipped))
	a, err := mlf.Open(other)
	must(t, err)
	sum := sha256.Sum256(a.Raw)
	if a.Digest != hex.EncodeToString(sum[:]) || bytes.HasPrefix(a.Raw, zipped[:2]) {
		t.Errorf("digest %s of %d bytes", a.Digest, len(a.Raw))
	}
	again, err := mlf.Parse("again", a.Raw)
	if err != nil || again.Digest != a.Digest || len(again.Files) != len(a.Files) {
		t.Errorf("the tar reads as %v, %v", again, err)
	}
}

// TestMetadataOfOtherTensors: metadata.json that lists other types or sizes than the model's code describes is refused,
// and without the Relay text the code has the shapes.
func TestMetadataOfOtherTensors(t *testing.T) {
	a, err := mlf.Open(mlftest.Path(t, "digits_i8.aot_packed"))
	must(t, err)
	parse := func(old, replacement string) (*mlf.Archive, error) {
		var files []mlf.File
		for _, f := range a.Files {
			if f.Name == "metadata.json" {
				f.Data = bytes.Replace(f.Data, []byte(old), []byte(replacement), 1)
			}
			if path.Ext(f.Name) != ".relay" {
				files = append(files, f)
			}
		}
		return mlf.Parse("changed.tar", mlftest.Tar(t, files...))
	}

	same, err := parse("", "")
	must(t, err)
	if m := same.Models[0]; !slices.Equal(m.Inputs[0].Shape, a.Models[0].Inputs[0].Shape) || m.Inputs[0].Shape == nil {
		t.Errorf("shape %v", m.Inputs[0].Shape)
	}

	for old, replacement := range map[string]string{`"dtype": "int32"`: `"dtype": "int16"`, `"size": 40`: `"size": 4`} {
		_, err := parse(old, replacement)
		t.Log(replacement)
		testkit.WantError(t, err, failure.Config, "in its code")
	}
}
