package measure

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/tolerance"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

var (
	int8s   = ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}
	float   = ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}
	bools   = ndarray.DType{Code: ndarray.UInt, Bits: 1, Lanes: 1}
	uint64s = ndarray.DType{Code: ndarray.UInt, Bits: 64, Lanes: 1}
)

// classifier is a model with one input and one number for each of three classes.
func classifier() *mlf.Model {
	return &mlf.Model{
		Name:    "m",
		Inputs:  []mlf.Tensor{{Name: "x", DType: float, Shape: []int64{1, 3}, Bytes: 12}},
		Outputs: []mlf.Tensor{{Name: "scores", DType: float, Shape: []int64{1, 3}, Bytes: 12}},
	}
}

func floats(shape []int64, values ...float32) *ndarray.Array {
	a := &ndarray.Array{DType: float, Shape: shape}
	for _, v := range values {
		a.Data = binary.LittleEndian.AppendUint32(a.Data, math.Float32bits(v))
	}
	return a
}

func bytesOf(d ndarray.DType, shape []int64, data ...byte) *ndarray.Array {
	return &ndarray.Array{DType: d, Shape: shape, Data: data}
}

// scores returns an array of one sample.
func scores(values ...float32) *ndarray.Array { return floats([]int64{1, 3}, values...) }

// labels returns labels of so many samples.
func labels(values ...byte) ndarray.Named {
	return named("labels", bytesOf(int8s, []int64{int64(len(values))}, values...))
}

func named(name string, a *ndarray.Array) ndarray.Named { return ndarray.Named{Name: name, Array: a} }

// echo is a device whose model returns its input, and that measures runs.
type echo struct {
	model *mlf.Model
	in    *ndarray.Array
	runs  int
	fail  func(run int) error // nil: no run fails
}

func (e *echo) Inputs() []mlf.Tensor  { return e.model.Inputs }
func (e *echo) Outputs() []mlf.Tensor { return e.model.Outputs }
func (e *echo) SetInput(ctx context.Context, _ string, a *ndarray.Array) error {
	e.in = a
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "an input")
	}
	return nil
}
func (e *echo) Run(ctx context.Context) error { _, err := e.RunTimed(ctx); return err }
func (e *echo) Output(ctx context.Context, _ int) (*ndarray.Array, error) {
	return e.in, ctx.Err()
}

func (e *echo) Time(ctx context.Context, _ rpc.TimeOptions) ([]float64, error) {
	return []float64{1}, ctx.Err()
}
func (e *echo) Clock() rpc.Clock            { return rpc.HostClock }
func (e *echo) Close(context.Context) error { return nil }
func (e *echo) RunTimed(ctx context.Context) (standalone.Ticks, error) {
	e.runs++
	if e.fail != nil {
		if err := e.fail(e.runs); err != nil {
			return standalone.Ticks{}, err
		}
	}
	return standalone.Ticks{Count: uint64(e.runs * 10), Hz: 1000}, ctx.Err()
}

func (e *echo) Stack(ctx context.Context) (standalone.Stack, error) {
	return standalone.Stack{Used: 300, Size: 1000}, ctx.Err()
}

// overRPC hides what only standalone firmware has.
type overRPC struct{ executor.Executor }

// run runs a set on a device of an unknown board.
func run(ctx context.Context, e executor.Executor, s *Set, o Options) (*Outputs, Result, error) {
	var r Result
	err := r.Run(ctx, e, s, o)
	return r.Outputs, r, err
}

// newSet returns a set of arrays.
func newSet(arrays []ndarray.Named, m *mlf.Model) (*Set, error) {
	return ReadSet(context.Background(), Files{Arrays: arrays}, m)
}

func set(t *testing.T, arrays ...ndarray.Named) *Set {
	t.Helper()
	s, err := newSet(arrays, classifier())
	must(t, err)
	return s
}

var threeInputs = named("x", floats([]int64{3, 3}, 1, 0, 0, 0, 1, 0, 0, 1, 0))

// TestReport validates a set with labels and expected outputs, of which one each is wrong.
func TestReport(t *testing.T) {
	s := set(t, threeInputs,
		named("output0", floats([]int64{3, 1, 3}, 1, 0, 0, 0, 1, 0, 0, 1, 0.5)),
		labels(0, 1, 2))
	var steps []int
	r, all, err := run(t.Context(), &echo{model: classifier()}, s, Options{Progress: func(done, total int) {
		steps = append(steps, done, total)
	}})
	must(t, err)
	if r.Samples != 3 || r.Equal != 2 || r.Correct != 2 || r.Rule != "exact" || *r.MaxDistance != 0.5 ||
		!slices.Equal(steps, []int{1, 3, 2, 3, 3, 3}) {
		t.Errorf("%+v, %v", r, steps)
	}
	testkit.Equal(t, "mismatches", r.Mismatches, []Mismatch{{"sample, sample 2", "scores", 2, "0", "0.5"}})
	testkit.Equal(t, "confusion", r.Confusion, []Cell{{0, 0, 1}, {1, 1, 1}, {2, 1, 1}})
	if c := all.Cost; c.Unit != inSeconds || c.Samples != 3 || c.Min != 0.01 || c.Median != 0.02 || c.Max != 0.03 ||
		c.Resolution != 0.001 {
		t.Errorf("%+v", c)
	}
	if all.StackUsed != 300 || all.StackSize != 1000 {
		t.Errorf("%+v", all)
	}
	wantError(t, r.Err(), failure.WrongAnswer, "1 of 3 samples differ")
	testkit.WantText(t, strings.Join(r.Table(), "\n"), "       2 . 1 .")
}

// TestRoundingAdvice: a comparison by bytes that fails because of rounding alone has the rule that allows for it.
func TestRoundingAdvice(t *testing.T) {
	for _, c := range []struct {
		rule    Rule
		got     float32
		advised bool
	}{
		{Rule{}, 3.0000002, true},
		{Rule{}, 3.01, false},
		{Rule{Abs: 1e-9}, 3.0000002, false},
	} {
		s := set(t, named("x", scores(1, 2, c.got)), named("scores", scores(1, 2, 3)))
		r, _, err := run(t.Context(), &echo{model: classifier()}, s, Options{Rule: c.rule})
		must(t, err)
		if err := r.Err(); err == nil || strings.Contains(failure.Next(err), "rel=1e-05") != c.advised {
			t.Errorf("%v of %v: %v, %q", c.rule, c.got, err, failure.Next(err))
		}
	}
}

// TestRules compares the same outputs by each rule.
func TestRules(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		rule      string
		got, want *ndarray.Array
		equal     bool
	}{
		{"exact", scores(nan, 2, 3), scores(nan, 2, 3), true},
		{"exact", scores(1, 2, 3), scores(1, 2, 3.0000002), false},
		{"exact", scores(0, 2, 3), scores(float32(math.Copysign(0, -1)), 2, 3), false},
		{"abs=0.01", scores(0, 2, 3), scores(float32(math.Copysign(0, -1)), 2, 3), true},
		{"abs=0.01", scores(1, 2, 3), scores(1.011, 2, 3), false},
		{"rel=0.01", scores(100, 2, 0.001), scores(100, 2, 0), false},
		{"abs=0.001,rel=0.01", scores(100, 2, 0.0009), scores(100.9, 2, 0), true},
		{"abs=1e+30", scores(nan, 2, 3), scores(1, 2, 3), false},
		{"top1", scores(1, 5, 3), scores(0, 1, 0), true},
		{"top1", scores(5, 5, 3), scores(0, 1, 0), false}, // the first of two
		{"top1", scores(nan, 5, 3), scores(0, 1, 0), false},
	} {
		rule, err := ParseRule(c.rule)
		if err != nil || rule.String() != c.rule {
			t.Fatalf("%s: %v, %v", c.rule, rule, err)
		}
		s := set(t, named("x", c.got), named("scores", c.want))
		r, _, err := run(t.Context(), &echo{model: classifier()}, s, Options{Rule: rule})
		must(t, err)
		if (r.Err() == nil) != c.equal || (r.Equal == 1) != c.equal {
			t.Errorf("%s of %v and %v: %v", c.rule, c.got, c.want, r.Err())
		}
		areZeros := c.rule == "exact" && c.got.Float(0) == 0 && !c.equal
		testkit.Equal(t, c, strings.Contains(failure.Next(r.Err()), "zeros"), areZeros)
		_, err = json.Marshal(r)
		must(t, err) // NaN has no form
		testkit.WantErrorIf(t, !c.equal, rule.Compare(c.got, c.want), failure.WrongAnswer)
	}
	a, b := scores(1, 2, 3), floats([]int64{3}, 1, 2, 3)
	wantError(t, (Rule{Abs: 9}).Compare(a, b), failure.WrongAnswer)
	wantError(t, (Rule{Abs: -1}).Compare(a, a), failure.Config)
	wantError(t, (Rule{Top1: true}).Compare(floats([]int64{1}, 1), floats([]int64{1}, 1)), failure.Config)
	for _, text := range []string{
		"exactly", "abs", "abs=", "abs=-1", "abs=nan", "abs=0", "abs=1,abs=2", "top1,abs=1", ",",
	} {
		_, err := ParseRule(text)
		wantError(t, err, failure.Config)
	}
}

// TestExamplesRule compares the outputs of a model's examples by the model's rule. Another rule, also the exact one,
// and expected outputs from elsewhere replace it.
func TestExamplesRule(t *testing.T) {
	near := named("scores", scores(1.25, 5, 3))
	examples, err := ndarray.EncodeNPZ([]ndarray.Named{named("x", scores(1, 5, 3)), near, labels(1)})
	must(t, err)
	m := classifier()
	m.Examples, m.Compare = examples, "abs=0.5"
	wants, other := filepath.Join(t.TempDir(), "want.npz"), filepath.Join(t.TempDir(), "labels.npz")
	must(t, ndarray.WriteNPZ(wants, []ndarray.Named{near}))
	must(t, ndarray.WriteNPZ(other, []ndarray.Named{labels(2)}))
	for _, c := range []struct {
		files          Files
		rule           string
		equal, correct int
	}{
		{Files{}, "", 1, 1},
		{Files{}, "exact", 0, 1},
		{Files{Expected: wants}, "", 0, 1},
		{Files{Expected: wants}, "top1", 1, 1},
		{Files{Labels: other}, "", 1, 0},
	} {
		s, err := ReadSet(t.Context(), c.files, m)
		must(t, err)
		rule, err := ParseRule(c.rule)
		must(t, err)
		r, _, err := run(t.Context(), &echo{model: m}, s, Options{Rule: rule})
		if err != nil || r.Equal != c.equal || r.Correct != c.correct {
			t.Errorf("%+v by %q: %+v, %v", c.files, c.rule, r, err)
		}
	}
	m.Compare = "nearly"
	_, err = ReadSet(t.Context(), Files{}, m)
	wantError(t, err, failure.Config, `the model's examples: "nearly" is none of`)
}

// TestNamesOfArrays: an output's own name comes before that of a place, and parts of an array are mapped as the array.
func TestNamesOfArrays(t *testing.T) {
	one := func(v float32) *ndarray.Array { return floats([]int64{1}, v) }
	x := named("x", one(0)).Array
	of := func(name string) mlf.Tensor { return mlf.Tensor{Name: name, DType: x.DType, Shape: x.Shape} }
	m := &mlf.Model{Inputs: []mlf.Tensor{of("x")}, Outputs: []mlf.Tensor{of("output1"), of("output0")}}

	dir := t.TempDir()
	in, expected := filepath.Join(dir, "in"), filepath.Join(dir, "expected.npz")
	must(t, os.Mkdir(in, 0o755))
	must(t, ndarray.WriteNPZ(filepath.Join(in, "a.npz"), []ndarray.Named{named("z_0", one(5))}))
	must(t, ndarray.WriteNPZ(expected, []ndarray.Named{named("output0", one(1)), named("output1", one(2))}))
	s, err := ReadSet(t.Context(), Files{Inputs: in, Expected: expected, Names: map[string]string{"z": "x"}}, m)
	must(t, err)

	for i, want := range []*ndarray.Array{one(2), one(1)} {
		if got := s.columns[outputKind][i].of(0); !bytes.Equal(got.Data, want.Data) {
			t.Errorf("output %d: %v", i, got.Data)
		}
	}
	testkit.Equal(t, "sample", s.columns[inputKind][0].names[0], "a.npz, sample 0")
}

// TestWideIntegers compares integers that a float64 does not tell apart.
func TestWideIntegers(t *testing.T) {
	int64s := ndarray.DType{Code: ndarray.Int, Bits: 64, Lanes: 1}
	for _, c := range []struct {
		dtype     ndarray.DType
		rule      Rule
		got, want uint64
		near      bool
		far       float64
	}{
		{int64s, Rule{Abs: 1}, 1<<60 + 100, 1 << 60, false, 100},
		{int64s, Rule{Abs: 1e18}, 1 << 63, 1<<63 - 1, false, 1 << 64}, // the least and the largest
		{int64s, Rule{Rel: 0.5}, math.MaxUint64, 1, false, 2},         // -1
		{uint64s, Rule{Abs: 100}, math.MaxUint64 - 100, math.MaxUint64, true, 100},
		{uint64s, Rule{}, 1<<63 + 1, 1 << 63, false, 1},
	} {
		array := func(v uint64) *ndarray.Array {
			return bytesOf(c.dtype, []int64{1}, binary.LittleEndian.AppendUint64(nil, v)...)
		}
		if m, far := c.rule.compare(array(c.got), array(c.want)); (m == nil) != c.near || far != c.far {
			t.Errorf("%v: %s and %s are %v apart, %v", c.rule, array(c.got).Text(0), array(c.want).Text(0), far, m)
		}
	}
	for d, least := range map[ndarray.DType]uint64{int64s: 1 << 62, uint64s: 1 << 63} {
		data := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, least), least+1)
		if at, ok := tolerance.ArgMax(bytesOf(d, []int64{2}, data...)); at != 1 || !ok {
			t.Errorf("%v: %d, %v", d, at, ok)
		}
	}
}

// TestErr: what is exactly a limit that was written as a decimal number is right. NaN with other bits than expected has
// no distance.
func TestErr(t *testing.T) {
	for correct := range 1001 {
		limit, err := strconv.ParseFloat(fmt.Sprintf("%d.%d", correct/10, correct%10), 64)
		must(t, err)
		o := Outputs{Samples: 1000, Classes: 2, Correct: correct, MinAccuracy: limit / 100}
		must(t, o.Err())
		if o.Correct--; correct > 0 && o.Err() == nil {
			t.Errorf("%d of 1000 are %g %%", o.Correct, limit)
		}
	}

	wantError(t, (&Outputs{Samples: 1, Rule: (Rule{}).String()}).Err(), failure.WrongAnswer)
}

// TestBadSets: arrays before others of three samples, and what their error and its next step have.
func TestBadSets(t *testing.T) {
	for _, c := range map[string]struct {
		array ndarray.Named
		want  []string
	}{
		"an unknown name": {named("xs", threeInputs.Array), []string{`array "xs" is none of`, `did you mean "x"?`}},
		"no name":         {named("temperature", threeInputs.Array), []string{"leave it out"}},
		"another shape": {named("x", floats([]int64{3, 1}, 1, 2, 3)), []string{
			"wrong shape: float32 (3, 1) is neither one sample, float32 (1, 3), nor N samples, float32 (N, 3)",
			"convert the samples",
		}},
		"a scalar": {named("x", floats(nil, 1)), []string{"is neither one sample"}},
		"another type": {
			named("x", bytesOf(int8s, []int64{1, 3}, 1, 2, 3)), []string{"wrong type: int8 (1, 3) is neither"},
		},
		"a short array":     {named("x", scores(1)), []string{"must have 12 bytes"}},
		"a negative extent": {named("x", floats([]int64{-1, 3})), []string{"negative"}},
		"an empty batch":    {named("output0", floats([]int64{0, 3})), []string{"no samples"}},
		"of another model":  {named("output0", floats([]int64{3, 2}, 1, 2, 3, 4, 5, 6)), []string{"this model returns"}},
		"too few labels":    {labels(1), []string{"3 samples, and 1 of labels", "one for each sample"}},
		"a label too large": {labels(0, 1, 3), []string{"sample 2: the label 3 is not one of the model's classes, 0 to 2"}},
		"a negative label":  {labels(0, 0xff, 1), []string{"the label -1"}},
		"a huge label": {
			named("labels", bytesOf(uint64s, []int64{1}, 255, 255, 255, 255, 255, 255, 255, 255)),
			[]string{"the label 18446744073709551615 is no class"},
		},
		"labels of booleans": {
			named("labels", bytesOf(bools, []int64{3}, 0, 1, 0)), []string{"labels are integers on one axis, not bool"},
		},
		"labels of floats":   {named("labels", floats([]int64{3}, 0, 1, 0)), []string{"the number of its class"}},
		"labels on two axes": {named("labels", bytesOf(int8s, []int64{2, 2}, 0, 1, 0, 1)), []string{"on one axis"}},
		"both forms":         {named("x_0", scores(1, 2, 3)), []string{"another one of the same tensor"}},
		"a numbered batch":   {named("x_0", threeInputs.Array), []string{"holds 3 samples"}},
		"a gap":              {named("output0_1", scores(1, 2, 3)), []string{"number 0 is expected"}},
	} {
		_, err := newSet([]ndarray.Named{c.array, threeInputs}, classifier())
		wantError(t, err, failure.Config, c.want...)
	}
	_, err := newSet([]ndarray.Named{labels(1)}, classifier())
	wantError(t, err, failure.Config, "no samples")
	_, err = ReadSet(t.Context(), Files{Inputs: filepath.Join(t.TempDir(), "none")}, classifier())
	wantError(t, err, failure.Config, "or a folder")
}

// TestBadOptions: options that cannot be, or that do not fit the set, are refused before anything runs.
func TestBadOptions(t *testing.T) {
	labelled := set(t, threeInputs, labels(0, 1, 2))
	noLargest := set(t, named("x", scores(1, 2, 3)), named("output0", scores(float32(math.NaN()), 1, 2)))
	for _, c := range []struct {
		s    *Set
		o    Options
		want string
	}{
		{set(t, threeInputs), Options{Accuracy: 0.5}, "no labels"},
		{labelled, Options{Accuracy: 2}, "not from 0 to 1"},
		{labelled, Options{Accuracy: math.NaN()}, "not from 0 to 1"},
		{labelled, Options{Rule: Rule{Abs: -1}}, "not a positive number"},
		{labelled, Options{Rule: Rule{Abs: 1, Top1: true}}, "no tolerance"},
		{noLargest, Options{Rule: Rule{Top1: true}}, "no largest element"},
	} {
		e := &echo{model: classifier()}
		_, _, err := run(t.Context(), e, c.s, c.o)
		wantError(t, err, failure.Config, c.want)
		if e.runs > 0 {
			t.Errorf("%s, after %d runs", c.want, e.runs)
		}
	}
}

// TestNoClasses: labels and top-1 need an output with a number per class.
func TestNoClasses(t *testing.T) {
	m := classifier()
	m.Outputs[0].DType, m.Outputs[0].Shape = bools, []int64{2, 2}
	x := named("x", scores(1, 2, 3))
	_, err := newSet([]ndarray.Named{x, labels(0)}, m)
	wantError(t, err, failure.Config)
	s, err := newSet([]ndarray.Named{x, named("output0", bytesOf(bools, []int64{2, 2}, 0, 1, 0, 1))}, m)
	must(t, err)
	_, _, err = run(t.Context(), &echo{model: m}, s, Options{Rule: Rule{Top1: true}})
	wantError(t, err, failure.Config)
}

// TestNoInputs: the samples of a model without inputs are its expected outputs.
func TestNoInputs(t *testing.T) {
	m := classifier()
	m.Inputs = nil
	s, err := newSet([]ndarray.Named{named("scores", floats([]int64{2, 3}, 1, 2, 3, 3, 2, 1))}, m)
	must(t, err)
	r, _, err := run(t.Context(), &echo{model: m, in: scores(1, 2, 3)}, s, Options{})
	must(t, err)
	if r.Samples != 2 || r.Equal != 1 {
		t.Errorf("%+v", r)
	}
}

// TestOtherModel: a set of one model does not run on another one.
func TestOtherModel(t *testing.T) {
	m := classifier()
	m.Inputs[0].Name = "z"
	_, _, err := run(t.Context(), &echo{model: m}, set(t, threeInputs), Options{})
	wantError(t, err, failure.Config, "other inputs")
}

// TestAccuracy: labels alone pass, unless an accuracy is required.
func TestAccuracy(t *testing.T) {
	s := set(t, threeInputs, named("labels", bytesOf(int8s, []int64{3, 1}, 0, 1, 2)))
	for least, fails := range map[float64]bool{0: false, 0.66: false, 0.67: true, 1: true} {
		r, all, err := run(t.Context(), overRPC{&echo{model: classifier()}}, s, Options{Accuracy: least})
		must(t, err)
		if (r.Err() != nil) != fails || r.Compared() || all.Cost.Samples != 3 || all.StackUsed != 0 {
			t.Errorf("%v: %v, %+v", least, r.Err(), r)
		}
	}
}

// TestDeviceFails: the report covers the samples before the failure, and the error names the sample.
func TestDeviceFails(t *testing.T) {
	broken := errors.New("broken")
	e := &echo{model: classifier(), fail: func(run int) error {
		if run == 3 {
			return broken
		}
		return nil
	}}
	r, all, err := run(t.Context(), e, set(t, threeInputs), Options{})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "sample 2: running the model") || r.Samples != 2 ||
		all.Cost.Samples != 2 {
		t.Errorf("%v, %+v", err, r)
	}
}

// A counter is a model with a state, which writes to its input: output n is the input plus the number of runs.
type counter struct{ *echo }

func (c counter) Run(ctx context.Context) error { return c.step(ctx) }

func (c counter) Time(ctx context.Context, _ rpc.TimeOptions) ([]float64, error) {
	return []float64{1}, errors.Join(c.step(ctx), c.step(ctx)) // one run is not counted
}

func (c counter) step(ctx context.Context) error {
	c.runs++
	values := make([]float32, 3)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(c.in.Data[4*i:])) + float32(c.runs)
	}
	c.in = floats(c.in.Shape, values...)
	return ctx.Err()
}

// TestTimingDisturbsNoComparison: over RPC, where a time needs runs of its own, a model with a state that writes to its
// input is compared as it runs alone.
func TestTimingDisturbsNoComparison(t *testing.T) {
	want := named("output0", floats([]int64{3, 3}, 2, 1, 1, 2, 3, 2, 3, 4, 3))
	e := counter{&echo{model: classifier()}}
	r, all, err := run(t.Context(), overRPC{e}, set(t, threeInputs, want), Options{})
	if err != nil || r.Err() != nil || all.Cost.Samples != 3 {
		t.Errorf("%v, %v, %+v", err, r.Err(), r)
	}
}

// TestStopped ends the context during a long validation, and the limit of one call.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := &echo{model: classifier(), fail: func(run int) error {
		if run == 2 {
			cancel()
		}
		return nil
	}}
	r, _, err := run(ctx, e, set(t, threeInputs), Options{})
	if failure.Of(err) != failure.Interrupted || r.Samples != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	hangs := &echo{model: classifier(), fail: func(int) error { time.Sleep(20 * time.Millisecond); return nil }}
	_, _, err = run(t.Context(), hangs, set(t, threeInputs), Options{Timeout: time.Millisecond})
	wantError(t, err, failure.Timeout, "Options.Timeout")
}

// TestRead reads sets from files and folders.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, arrays ...ndarray.Named) string {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, ndarray.WriteNPZ(path, arrays))
		return path
	}
	one := scores(1, 2, 3)
	write("set/a.npz", named("x_0", one), labels(0, 1), named("x_1", one))
	write("set/b.npz", threeInputs, labels(2, 1, 0))
	write("other/notes.txt", named("x", one))
	five := write("labels.npz", labels(0, 0, 0, 0, 0))
	want := write("want.npz", named("output0", floats([]int64{5, 3}, make([]float32, 15)...)))
	file := write("one.npz", named("x", one))
	for name, c := range map[string]struct {
		files Files
		len   int
		want  string
	}{
		"folder":           {Files{Inputs: filepath.Join(dir, "set")}, 5, ""},
		"with outputs":     {Files{Inputs: filepath.Join(dir, "set"), Expected: want}, 5, ""},
		"labels twice":     {Files{Inputs: filepath.Join(dir, "set"), Labels: five}, 0, "have these arrays too"},
		"wrong file":       {Files{Inputs: file, Labels: want}, 0, `array "output0" is none of: labels`},
		"a folder without": {Files{Inputs: filepath.Join(dir, "other")}, 0, "0 files"},
	} {
		s, err := ReadSet(t.Context(), c.files, classifier())
		if c.want == "" {
			if err != nil || s.Len() != c.len || !s.HasLabels() || s.HasExpected() != (c.files.Expected != "") {
				t.Errorf("%s: %+v, %v", name, s, err)
			}
			continue
		}
		wantError(t, err, failure.Config, c.want)
	}
	s, err := ReadSet(t.Context(), Files{Inputs: filepath.Join(dir, "set")}, classifier())
	must(t, err)
	if s.name(2) != "b.npz, sample 2" || s.label(2) != 2 || len(s.columns[inputKind][0].parts[2]) != 12 {
		t.Errorf("%s, %d, %+v", s.name(2), s.label(2), s)
	}
}

// TestManyLabels expects an error for more labels than a set has samples, before memory is taken for them.
func TestManyLabels(t *testing.T) {
	a := bytesOf(int8s, []int64{8 << 20}, make([]byte, 8<<20)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := labelsOf(a)
	runtime.ReadMemStats(&after)
	wantError(t, err, "", "8388608 labels are more than 1048576", "divide")
	if after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("%d bytes of memory", after.TotalAlloc-before.TotalAlloc)
	}
}

// TestFolderOfNPY reads .npy files, which have the names of arrays or none.
func TestFolderOfNPY(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, a *ndarray.Array) {
		data, err := ndarray.EncodeNPZ([]ndarray.Named{named("a", a)})
		must(t, err)
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		must(t, err)
		npy, err := fs.ReadFile(z, "a.npy")
		must(t, err)
		writeFile(t, filepath.Join(dir, name), string(npy))
	}
	one := scores(1, 2, 3)
	write("named/labels.npy", labels(0, 1, 2).Array)
	write("named/output0.npy", threeInputs.Array)
	write("named/x.npy", threeInputs.Array)
	for i := range 11 {
		write(fmt.Sprintf("numbered/x_%d.npy", i), scores(float32(i), 0, 0))
	}
	write("numbered/labels.npy", labels(0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1).Array)
	write("nameless/10.npy", scores(10, 0, 0))
	write("nameless/9.npy", scores(9, 0, 0))
	write("nameless/x_01.npy", threeInputs.Array)
	write("one.npy", one)
	write("want/x.npy", one)
	first := func(s *Set) (values []float32) {
		for _, data := range s.columns[inputKind][0].parts {
			values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(data)))
		}
		return values
	}
	for folder, want := range map[string][]float32{
		"named":    {1, 0, 0},
		"numbered": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		"nameless": {10, 9, 1, 0, 0},
		"one.npy":  {1},
	} {
		s, err := ReadSet(t.Context(), Files{Inputs: filepath.Join(dir, folder)}, classifier())
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}
		if !slices.Equal(first(s), want) || s.HasLabels() != (folder == "named" || folder == "numbered") ||
			s.HasExpected() != (folder == "named") {
			t.Errorf("%s: %v, %+v", folder, first(s), s)
		}
	}
	f := Files{Inputs: filepath.Join(dir, "one.npy"), Expected: filepath.Join(dir, "want")}
	_, err := ReadSet(t.Context(), f, classifier())
	wantError(t, err, "", `array "x" is none of`)
	two := classifier()
	two.Inputs = append(two.Inputs, mlf.Tensor{Name: "y", DType: float, Shape: []int64{1, 3}, Bytes: 12})
	_, err = ReadSet(t.Context(), Files{Inputs: filepath.Join(dir, "nameless")}, two)
	wantError(t, err, failure.Config, "NAME.npy")
}

// TestManyClasses: a table of many classes is a list.
func TestManyClasses(t *testing.T) {
	r := &Outputs{Classes: 1000, Confusion: []Cell{{3, 3, 9}, {4, 5, 1}, {7, 8, 6}}}
	testkit.Equal(t, "table", r.Table(), []string{"6 times class 8 in place of 7", "1 times class 5 in place of 4"})
}

// FuzzReadSet makes sets of arrays with any shape, type and name.
func FuzzReadSet(f *testing.F) {
	f.Add("x", uint8(2), uint8(32), int64(3), int64(3), 36)
	f.Add("labels", uint8(0), uint8(8), int64(3), int64(1), 3)
	f.Add("x_0", uint8(2), uint8(32), int64(1), int64(3), 12)
	f.Add("output0", uint8(2), uint8(32), int64(1)<<62, int64(0), 0)
	f.Fuzz(func(t *testing.T, name string, code, bits uint8, n, m int64, size int) {
		if size < 0 || size > 1<<12 {
			return
		}
		a := bytesOf(ndarray.DType{Code: code, Bits: bits, Lanes: 1}, []int64{n, m}, make([]byte, size)...)
		for _, arrays := range [][]ndarray.Named{{named(name, a)}, {threeInputs, named(name, a)}} {
			s, err := newSet(arrays, classifier())
			if err != nil {
				continue
			}
			if _, _, err := run(t.Context(), &echo{model: classifier()}, s, Options{}); err != nil {
				t.Errorf("a set that was accepted fails: %v", err)
			}
		}
	})
}
