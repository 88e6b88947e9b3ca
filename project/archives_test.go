package project_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os/exec"
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
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
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
	if runtime.GOOS == "windows" {
		t.Skip("the host board needs POSIX")
	}
	for _, tool := range []string{"make", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s to build firmware with", tool)
		}
	}
	builder := newBuilder(testcache.Dir())
	ran := 0
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
			dir := filepath.Join(t.TempDir(), "p")
			spec := project.Spec{Board: "host", Model: path}
			ctx := testkit.Context(t)
			p, err := builder.Generate(ctx, dir, spec)
			if why := refused(name); why != "" {
				if err == nil || !strings.Contains(err.Error(), why) || failure.Of(err) != failure.Config ||
					failure.Next(err) == "" || project.Exists(dir) {
					t.Errorf("%v (next: %s), want %q", err, failure.Next(err), why)
				}
				return
			}
			must(t, err)
			defer func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}()
			runProject(t, ctx, p, path)
			ran++
		})
	}
	t.Logf("%d archives ran", ran)
}

func runProject(t *testing.T, ctx context.Context, p *project.Project, path string) {
	t.Helper()
	s, err := p.Run(ctx, nil, "")
	must(t, err)
	defer func() {
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	_, m, err := p.Model()
	must(t, err)
	e, err := executor.Open(ctx, s, m)
	must(t, err)
	in, out := mlftest.Arrays(path)
	got := answer(t, ctx, e, in)
	want, err := expected(path, in, out)
	must(t, err)
	compare(t, got, want)
	if samples, err := e.Time(ctx, rpc.TimeOptions{Number: 1}); err != nil || len(samples) != 1 {
		t.Errorf("time: %v, %v", samples, err)
	}
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
}

func arraysOf(t *testing.T, file string) []ndarray.Named {
	t.Helper()
	arrays, err := ndarray.ReadNPZ(file)
	must(t, err)
	return arrays
}

// answer runs the model on the arrays of a file, and returns its outputs as they are written to OUTPUT.
func answer(t *testing.T, ctx context.Context, e executor.Executor, inputs string) []ndarray.Named {
	t.Helper()
	for _, a := range arraysOf(t, inputs) {
		must(t, e.SetInput(ctx, a.Name, a.Array))
	}
	must(t, e.Run(ctx))
	var outputs []ndarray.Named
	for i, o := range e.Outputs() {
		a, err := e.Output(ctx, i)
		must(t, err)
		outputs = append(outputs, ndarray.Named{Name: o.Name, Array: a})
	}
	return outputs
}

func compare(t *testing.T, got, want []ndarray.Named) {
	t.Helper()
	if d := differs(got, want); d != "" {
		t.Error(d)
	}
}

// differs describes the first difference between got and want, or returns "". Type, shape and integers must be equal,
// and floats within 1e-5 of the larger of 1 and the expected value.
func differs(got, want []ndarray.Named) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d outputs, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) {
			return fmt.Sprintf("output %d is %v %v, want %v %v", i, g.DType, g.Shape, w.DType, w.Shape)
		}
		for j := range w.Len() {
			if x, y := g.Float(j), w.Float(j); w.DType.Code != ndarray.Float && g.Int(j) != w.Int(j) ||
				w.DType.Code == ndarray.Float && !(math.Abs(x-y) <= 1e-5*math.Max(1, math.Abs(y))) {
				return fmt.Sprintf("output %d (%s), element %d is %s, want %s", i, g.Name, j, g.Text(j), w.Text(j))
			}
		}
	}
	return ""
}

// convolved computes what the network of conv_f32 and conv_pools gives: a convolution of 3 channels by 8 filters 5×5,
// edges padded with zeroes, and relu. The weights are in the archive's C, as TVM printed them.
func convolved(archive, inputs string) ([]ndarray.Named, error) {
	const size, channels, filters, reach = 16, 3, 8, 2
	const side = 2*reach + 1
	w, err := weights(archive, filters*channels*side*side)
	if err != nil {
		return nil, err
	}
	given, err := ndarray.ReadNPZ(inputs)
	if err != nil {
		return nil, err
	}
	x := given[0]
	y, err := ndarray.New(x.DType, 1, filters, size, size)
	if err != nil {
		return nil, err
	}
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
	return []ndarray.Named{{Name: "output", Array: y}}, nil
}

// weights reads the numbers of the one constant in an archive's sources.
func weights(archive string, n int) ([]float64, error) {
	a, err := mlf.Open(archive)
	if err != nil {
		return nil, err
	}
	constant := regexp.MustCompile(`fused_constant(?:_let|\[\d+\]) = \{([^}]*)\}`)
	for _, f := range a.Models[0].Sources {
		m := constant.FindSubmatch(f.Data)
		if m == nil {
			continue
		}
		var all []float64
		for _, text := range strings.Split(string(m[1]), ",") {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		if len(all) == n {
			return all, nil
		}
	}
	return nil, fmt.Errorf("no constant of %d numbers in %s", n, archive)
}

// TestConvolved compares the computation with TVM's own result for the same network with other weights.
func TestConvolved(t *testing.T) {
	t.Parallel()
	in, out := mlftest.Arrays(mlftest.Path(t, "conv_f32.aot_c"))
	got, err := convolved(mlftest.Path(t, "conv_f32.aot_c"), in)
	must(t, err)
	compare(t, got, arraysOf(t, out))
}

// TestEarlierEntry takes archives as TVM 0.11 would have registered them: without the wrapper "_run", so that the
// executor starts the main function. That function gets no pool of constants there, and such a model is refused.
func TestEarlierEntry(t *testing.T) {
	t.Parallel()
	builder := newBuilder(testcache.Dir())
	open := func(model string) (*project.Project, error) {
		old := earlier(t, model)
		return builder.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), project.Spec{Board: "host", Model: old})
	}
	if _, err := open("conv_f32"); err == nil || !strings.Contains(err.Error(), "pool for constants") ||
		failure.Next(err) == "" {
		t.Errorf("a model with a pool for constants: %v", err)
	}
	p, err := open("twoin")
	must(t, err)
	_, m, err := p.Model()
	must(t, err)
	if m.Entry != "tvmgen_twoin___tvm_main__" {
		t.Errorf("it starts %q", m.Entry)
	}
	runProject(t, t.Context(), p, mlftest.Path(t, "twoin.aot_packed"))
	if err := p.Close(); err != nil {
		t.Error(err)
	}
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

// TestSeveralModels opens one of two models that an archive holds, by its name.
func TestSeveralModels(t *testing.T) {
	t.Parallel()
	two := mlftest.Path(t, "twoin.aot_c")
	a, err := mlf.Open(two)
	must(t, err)
	if _, err := a.Model("other"); err == nil {
		t.Error("a model that is not there")
	}
	_, err = new(project.Builder).Generate(context.Background(), filepath.Join(t.TempDir(), "p"),
		project.Spec{Board: "host", Model: two, ModelName: "twoim"})
	wantError(t, err, "", "twoin")
	wantError(t, err, failure.Config)
}
