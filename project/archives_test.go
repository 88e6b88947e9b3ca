package project

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// refused returns why an archive of TVM cannot run on the host board, as a part of the error's text, or "".
func refused(name string) string {
	switch {
	case strings.Contains(name, "aot_packed_llvm"):
		// TVM's LLVM leaves the entry, its description and the constants out of these.
		return "TVM's LLVM backend omits"
	case strings.Contains(name, "llvm_thumbv7m"), strings.Contains(name, "llvm_rv32"):
		return "digits_i8_lib"
	case strings.Contains(name, "llvm_x86_64") && runtime.GOARCH != "amd64":
		return "digits_i8_lib"
	case strings.HasSuffix(name, "aot_c_dsp"):
		return "DSP"
	}
	return ""
}

// TestEveryArchive runs TVM's archives, except some schedules of one operator, from the file to the outputs: generate,
// build, flash, open, run. An archive that cannot run on this board is refused with the reason before anything is
// written. A full run draws six times as many.
func TestEveryArchive(t *testing.T) {
	t.Parallel()
	needBoard(t, findBoard(t, "host"))
	var archives, candidates []string
	for _, path := range slices.Concat(mlftest.Archives(t), mlftest.OtherVersions(t)) {
		if strings.HasPrefix(mlftest.Name(path), "matmul_") { // schedules of one operator
			candidates = append(candidates, path)
		} else {
			archives = append(archives, path)
		}
	}
	for _, path := range slices.Concat(drawn.Of(t, "archives", archives, 3), drawn.Of(t, "candidates", candidates, 1)) {
		name := mlftest.Name(path)
		t.Run(filepath.Base(filepath.Dir(path))+"/"+name, func(t *testing.T) {
			dir := newDir(t)
			p, err := generateIn(t, dir, Spec{Model: path})
			if why := refused(name); why != "" {
				if wantAdvice(t, err, failure.Config, why); Exists(dir) {
					t.Error("there is a project")
				}
				return
			}
			must(t, err)
			runProject(t, p, path)
		})
	}
}

// runProject runs a project with the model of an archive: its outputs are right.
func runProject(t *testing.T, p *Project, archive string) {
	t.Helper()
	ctx := testkit.Context(t)
	s, err := p.Run(ctx, nil, "")
	must(t, err)
	e := opened(t, p, s)
	checkAnswer(t, e, archive)
	if samples, err := e.Time(ctx, rpc.TimeOptions{Number: 1}); err != nil || len(samples) != 1 || samples[0] <= 0 {
		t.Errorf("time: %v, %v", samples, err)
	}
	must(t, e.Close(ctx))
	must(t, s.Close(ctx))
}

func arraysOf(t *testing.T, file string) []ndarray.Named {
	t.Helper()
	arrays, err := ndarray.ReadNPZ(file)
	must(t, err)
	return arrays
}

// answer runs a model, and returns its outputs as they are written to OUTPUT.
func answer(t *testing.T, e executor.Executor, inputs ...ndarray.Named) (outputs []ndarray.Named) {
	t.Helper()
	ctx := testkit.Context(t)
	for _, a := range inputs {
		must(t, e.SetInput(ctx, a.Name, a.Array))
	}
	must(t, e.Run(ctx))
	for i, o := range e.Outputs() {
		a, err := e.Output(ctx, i)
		must(t, err)
		outputs = append(outputs, ndarray.Named{Name: o.Name, Array: a})
	}
	return outputs
}

// checkAnswer runs a model with the inputs beside its archive. The outputs must be TVM's, or the test's own computation
// if TVM has none.
func checkAnswer(t *testing.T, e executor.Executor, archive string) {
	t.Helper()
	in, out := mlftest.Arrays(archive)
	got := answer(t, e, arraysOf(t, in)...)
	if out == "" {
		compare(t, got, convolved(t, archive, in))
	} else {
		compare(t, got, arraysOf(t, out))
	}
}

// compare reports the first differences between got and want. Type, shape and integers must be equal, and floats within
// 1e-5 of the larger of 1 and the expected value.
func compare(t *testing.T, got, want []ndarray.Named) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d outputs, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) {
			t.Fatalf("output %d is %v %v, want %v %v", i, g.DType, g.Shape, w.DType, w.Shape)
		}
		for j := range w.Len() {
			if x, y := g.Float(j), w.Float(j); w.DType.Code != ndarray.Float && g.Int(j) != w.Int(j) ||
				w.DType.Code == ndarray.Float && !(math.Abs(x-y) <= 1e-5*max(1, math.Abs(y))) {
				t.Fatalf("output %d (%s), element %d is %s, want %s", i, g.Name, j, g.Text(j), w.Text(j))
			}
		}
	}
}

// convolved computes what the network of conv_f32 and conv_pools gives: a convolution of 3 channels by 8 filters 5×5,
// edges padded with zeroes, and relu. The weights are in the archive's C, as TVM printed them.
func convolved(t *testing.T, archive, inputs string) []ndarray.Named {
	t.Helper()
	const size, channels, filters, reach = 16, 3, 8, 2
	const side = 2*reach + 1
	w, x := weights(t, archive, filters*channels*side*side), arraysOf(t, inputs)[0]
	y, err := ndarray.New(x.DType, 1, filters, size, size)
	must(t, err)
	for i := range filters * size * size {
		f, row, col := i/(size*size), i/size%size, i%size
		sum := 0.0
		for j := range channels * side * side {
			c, r, q := j/(side*side), row+j/side%side-reach, col+j%side-reach
			if r >= 0 && r < size && q >= 0 && q < size {
				sum += x.Float(c*size*size+r*size+q) * w[f*channels*side*side+j]
			}
		}
		binary.LittleEndian.PutUint32(y.Data[4*i:], math.Float32bits(float32(max(sum, 0))))
	}
	return []ndarray.Named{{Name: "output", Array: y}}
}

// weights reads the numbers of the one constant in an archive's sources.
func weights(t *testing.T, archive string, n int) []float64 {
	t.Helper()
	a, err := mlf.Open(archive)
	must(t, err)
	constant := regexp.MustCompile(`fused_constant(?:_let|\[\d+\]) = \{([^}]*)\}`)
	for _, f := range a.Models[0].Sources {
		var all []float64
		for _, m := range constant.FindAllSubmatch(f.Data, 1) {
			for text := range strings.SplitSeq(string(m[1]), ",") {
				v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
				must(t, err)
				all = append(all, v)
			}
		}
		if len(all) == n {
			return all
		}
	}
	t.Fatalf("no constant of %d numbers in %s", n, archive)
	return nil
}

// TestConvolved compares the computation with TVM's own result for the same network with other weights.
func TestConvolved(t *testing.T) {
	t.Parallel()
	archive := mlftest.Path(t, "conv_f32.aot_c")
	in, out := mlftest.Arrays(archive)
	compare(t, convolved(t, archive, in), arraysOf(t, out))
}

// TestEarlierEntry takes archives as TVM 0.11 would have registered them: without the wrapper "_run", so that the
// executor starts the main function. That function gets no pool of constants there, and such a model is refused.
func TestEarlierEntry(t *testing.T) {
	t.Parallel()
	_, err := generate(t, Spec{Model: earlier(t, "conv_f32")})
	wantAdvice(t, err, "", "pool for constants")
	p := generated(t, Spec{Model: earlier(t, "twoin")})
	if m := modelOf(t, p); m.Entry != "tvmgen_twoin___tvm_main__" {
		t.Errorf("it starts %q", m.Entry)
	}
	runProject(t, p, mlftest.Path(t, "twoin.aot_packed"))
}

// earlier writes a model's packed archive without the wrapper in its registry, and returns the file.
func earlier(t *testing.T, model string) string {
	t.Helper()
	a, err := mlf.Open(mlftest.Path(t, model+".aot_packed"))
	must(t, err)
	for i, f := range a.Files {
		if strings.HasSuffix(f.Name, "_lib0.c") {
			a.Files[i].Data = withoutWrapper(t, model, f.Data)
		}
	}
	path := filepath.Join(t.TempDir(), model+".tar")
	writeFile(t, path, string(mlftest.Tar(t, a.Files...)))
	return path
}

// withoutWrapper takes "_run" out of a registry of C source.
func withoutWrapper(t *testing.T, model string, lib []byte) []byte {
	t.Helper()
	literal := regexp.MustCompile(`"\\(\d{3})\\000tvmgen_` + model + `_run\\000`)
	m := literal.FindSubmatch(lib)
	if m == nil {
		t.Fatalf("no wrapper in the registry of\n%s", lib)
	}
	count, err := strconv.ParseUint(string(m[1]), 8, 8)
	must(t, err)
	lib = bytes.Replace(lib, m[0], fmt.Appendf(nil, `"\%03o\000`, count-1), 1)
	return bytes.Replace(lib, []byte("(TVMBackendPackedCFunc)tvmgen_"+model+"_run,"), nil, 1)
}
