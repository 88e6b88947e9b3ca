package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	readFile  = testkit.ReadFile
	wantError = testkit.WantError
)

func TestMain(m *testing.M) {
	code := m.Run()
	testcache.Clean()
	os.Exit(code)
}

// cached returns a computer whose builds all tests share.
func cached() device.Host { return device.Host{Cache: cache.New(testcache.Dir(), cache.Options{})} }

// measured measures an archive of the tests with TVM's own outputs.
func measured(t *testing.T, archive string, s project.Spec) *Result {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the host board and links to an emulator need POSIX")
	}
	b, err := boards.Find(s.Board, nil)
	must(t, err)
	if _, err := exec.LookPath(b.Toolchain.CC); err != nil {
		t.Skip(err)
	}
	s.Model = mlftest.Path(t, archive)
	in, out := mlftest.Arrays(s.Model)
	r, err := Model(t.Context(), s, Options{
		Files: Files{Inputs: in, Expected: out}, Rule: Rule{Rel: 1e-4}, Builder: &project.Builder{Host: cached()},
	})
	if errors.As(err, new(*failure.MissingToolError)) {
		t.Skip(err)
	}
	must(t, err)
	if r.Err() != nil || r.Outputs.Equal != 1 {
		t.Errorf("%v: %+v", r.Err(), r.Outputs)
	}
	var flash, ram int64
	left := map[string]int64{} // what functions and variables take is among what their parts take
	for _, p := range r.Parts {
		flash, ram = flash+p.Flash, ram+p.RAM
		left["flash of "+p.Name], left["RAM of "+p.Name] = p.Flash, p.RAM
	}
	if flash != r.Flash || ram != r.RAM || flash < 5000 || ram < 100 {
		t.Errorf("flash %d, RAM %d; the parts have %d and %d", r.Flash, r.RAM, flash, ram)
	}
	for of, symbols := range map[string]map[string]int64{"flash of ": r.FlashOf, "RAM of ": r.RAMOf} {
		for symbol, n := range symbols {
			part, _, _ := strings.Cut(symbol, ": ")
			left[of+part] -= n
		}
	}
	for part, n := range left {
		if n < 0 {
			t.Errorf("%s: its symbols have %d bytes more", part, -n)
		}
	}
	operators := 0
	for name := range r.FlashOf {
		if strings.HasPrefix(name, "operators: ") {
			operators++
		}
	}
	if operators == 0 || len(r.FlashOf) < 20 || len(r.RAMOf) < 5 {
		t.Errorf("%d functions of operators among %d, %d variables", operators, len(r.FlashOf), len(r.RAMOf))
	}
	return r
}

// TestModel measures a graph over RPC in a process, and standalone firmware on an emulated board, whose cost is
// instructions, the same in a second run.
func TestModel(t *testing.T) {
	t.Parallel()
	t.Run("host", func(t *testing.T) {
		t.Parallel()
		r := measured(t, "sine.graph", project.Spec{Board: "host"})
		if c := r.Cost; c.Unit != inSeconds || c.Samples != 10 || !(c.Min > 0) || c.Min > c.Median || c.Median > c.Max {
			t.Errorf("%+v", c)
		}
		if r.ArenaUsed == 0 || r.ArenaUsed != r.Arena || r.Arena > r.ArenaSize || len(r.RAMUnsure) > 0 {
			t.Errorf("arena: %d of %d used, computed %d; %q", r.ArenaUsed, r.ArenaSize, r.Arena, r.RAMUnsure)
		}
		if r.RAM > 1_000_000 || r.Computer == "" || len(r.InputsSHA256) != 64 {
			t.Errorf("RAM %d of %+v, measured by %q with inputs %q", r.RAM, r.Parts, r.Computer, r.InputsSHA256)
		}
		if r.App != boards.RPC || len(r.Operators) == 0 || !(r.Operators[0].Median > 0) || r.Model != "sine.graph" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("mps2_an385", func(t *testing.T) {
		t.Parallel()
		s := project.Spec{Board: "mps2_an385", Options: boards.Options{App: boards.Standalone}}
		r, again := measured(t, "sine.aot_c", s), measured(t, "sine.aot_c", s)
		if c := r.Cost; c.Unit != inInstructions || c.Samples != 3 || c.Median < 100 || c.Resolution < 1 ||
			r.Stack < 100 || r.Computer != "" {
			t.Errorf("%+v, stack %d", c, r.Stack)
		}
		testkit.Equal(t, "an equal measurement", again.Compare(r, Limits{}), Comparison{})
	})
}

// TestRecheck: a cost above its limit is measured again beside the earlier firmware, and is no growth if that takes as
// long now. A cost that stays above the limit is one, also if the cache has no earlier firmware.
func TestRecheck(t *testing.T) {
	t.Parallel()
	standalone := project.Spec{Board: "host", Options: boards.Options{App: boards.Standalone}}
	old := measured(t, "sine.aot_c", standalone)
	for _, c := range []struct {
		name    string
		change  func(*Result)
		again   int // at least
		exceeds bool
	}{
		{"a busy computer", func(r *Result) {}, 2, false},
		{"other firmware", func(r *Result) { r.BuildID = strings.Repeat("0", 32) }, 10, true},
		{"a baseline of no time", func(r *Result) {
			r.BuildID, r.Cost.Median, r.Cost.Min = strings.Repeat("0", 32), 0, 0
		}, 10, true},
		{"another computer", func(r *Result) { r.Computer = "x" }, 0, false},
		{"a slower baseline", func(r *Result) {
			r.Cost = Cost{Unit: inSeconds, Samples: 10, Median: 1, Min: 1, Low: 1, High: 1}
		}, 0, false},
	} {
		earlier := *old
		for _, v := range []*float64{&earlier.Cost.Median, &earlier.Cost.Min, &earlier.Cost.Low, &earlier.Cost.High} {
			*v /= 100
		}
		c.change(&earlier)
		limits := Limits{Cost: 1}
		s := standalone
		s.Model = mlftest.Path(t, "sine.aot_c")
		r, err := Model(t.Context(), s, Options{
			Builder:  &project.Builder{Host: cached()},
			Desk:     &device.Desk{Host: cached()},
			Baseline: &Baseline{Results: []*Result{&earlier}}, Limits: limits,
		})
		must(t, err)
		err = r.Compare(&earlier, limits).Err(r)
		if len(r.Rechecks) < c.again || c.again == 0 && len(r.Rechecks) > 0 || (err != nil) != c.exceeds {
			t.Errorf("%s: measured again %v, %v", c.name, r.Rechecks, err)
		}
		if _, err := json.Marshal(r); err != nil { // of a ratio to no time
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestSamples: a negative number of samples is an error, not a cost of 0, and so are too few for a baseline.
func TestSamples(t *testing.T) {
	spec := project.Spec{Board: "host", Model: "../examples/samples/digits_i8.aot_packed.tar"}
	_, err := Model(t.Context(), spec, Options{Samples: -1})
	wantError(t, err, failure.Config, "Samples is -1")
	path := filepath.Join(t.TempDir(), "b.json")
	few := &Result{Cost: Cost{Unit: inSeconds, Samples: 5}}
	wantError(t, UpdateBaseline(t.Context(), path, []*Result{few}), failure.Config, "Options.Samples=6")
	few.Cost.Samples = 6
	must(t, UpdateBaseline(t.Context(), path, []*Result{few}))
}

// grown returns a result, and one that has grown.
func grown() (old, current *Result) {
	r := func(flash int64, cost float64) *Result {
		return &Result{
			Board: "b", Model: "m", App: "rpc", Flash: 1000 + flash, RAM: 50,
			Stack: 100, StackPath: []string{"main 60", "run 40"},
			Cost:    Cost{Unit: inInstructions, Median: cost, Mean: cost, Low: cost, High: cost, Resolution: 3},
			Parts:   []fit.Share{{Name: "runtime", Flash: 600, RAM: 50}, {Name: "operators", Flash: 400 + flash}},
			FlashOf: map[string]int64{"operators: conv": 300 + flash, "runtime: main": 100},
		}
	}
	return r(0, 10000), r(20, 10002)
}

func TestCompare(t *testing.T) {
	old, current := grown()
	limits, err := ParseLimits("flash=1.5")
	must(t, err)
	c := current.Compare(old, limits)
	want := []Change{{
		Quantity: "flash", Unit: "bytes", Old: 1000, New: 1020, Limit: 0.015, Exceeds: true,
		Causes: []Cause{{"operators", 400, 420}, {"operators: conv", 300, 320}},
	}}
	testkit.Equal(t, "comparison", c, Comparison{Changes: want})
	wantError(t, c.Err(current), failure.DoesNotFit,
		"m on b as rpc: flash 1000 -> 1020 bytes (+2.00 %), above the limit of +1.5 %")
	limits.Flash = 0.02
	must(t, current.Compare(old, limits).Err(current)) // a change within its limit

	old, current = grown()
	old.Flash, current.Cost.Median, current.Cost.Low, current.Stack = current.Flash, 10300, 10300, 140
	current.StackPath = []string{"main 60", "run 80"}
	changes := current.Compare(old, limits).Changes
	if len(changes) != 2 || changes[0].Quantity != "cost" || !changes[0].Exceeds ||
		!reflect.DeepEqual(changes[1].Causes, []Cause{{"run", 40, 80}}) {
		t.Errorf("%+v", changes)
	}
}

// TestUnknown: a stack that is no longer known is an error, one that becomes known and a new doubt are changes.
func TestUnknown(t *testing.T) {
	old, current := grown()
	current.Flash, current.Stack = old.Flash, 0
	c := current.Compare(old, Limits{})
	wantError(t, c.Err(current), failure.DoesNotFit,
		"m on b as rpc: stack 100 -> unknown bytes, so that its limit cannot be checked")
	c = old.Compare(current, Limits{})
	if len(c.Changes) != 1 || c.Err(old) != nil || c.Changes[0].String() != "stack unknown -> 100 bytes" {
		t.Errorf("%+v", c)
	}
	old, current = grown()
	current.Flash, current.RAMUnsure = old.Flash, []string{"f allocates"}
	c = current.Compare(old, Limits{})
	if len(c.Changes) != 1 || c.Err(current) != nil ||
		c.Changes[0].String() != "ram 50 -> 50 bytes (+0.00 %); it may be more: f allocates" {
		t.Errorf("%+v", c)
	}
	if c = current.Compare(current, Limits{}); len(c.Changes) > 0 {
		t.Errorf("an old doubt is a change: %+v", c)
	}
}

// TestConditions: what else determines a result is noted if it differs; costs of two computers, of two units and of too
// few samples are not compared.
func TestConditions(t *testing.T) {
	result := func(change func(*Result)) *Result {
		r := &Result{Board: "b", Model: "m", App: "rpc", Flash: 10, Toolchain: "gcc", Computer: "x, 1"}
		r.Cost = Cost{Unit: inSeconds, Samples: 10, Median: 1, Low: 1, High: 1}
		change(r)
		return r
	}
	old := result(func(*Result) {})
	for _, c := range []struct {
		change       func(*Result)
		note         string
		incomparable string
	}{
		{func(r *Result) { r.Toolchain = "clang" }, "flags or libraries differ: clang, not gcc", ""},
		{func(r *Result) { r.Options = []string{"place=stack=dtcm"} }, "differ: place=stack=dtcm, not none", ""},
		{func(r *Result) { r.InputsSHA256 = "12" }, "the inputs differ", ""},
		{func(r *Result) { r.Computer, r.Cost.Low = "y, 1", 9 }, "of two computers, y, 1 and x, 1", ""},
		{func(r *Result) { r.Cost.Unit = inInstructions }, "", "its unit is instructions, not s"},
		{func(r *Result) { r.Cost.Unit = inDeviceSeconds }, "", "its unit is device-s, not s"},
		{func(r *Result) { r.Cost.Samples, r.Cost.Median = 1, 9 }, "", "an interval of 95 %: 1, and at least 6"},
		{func(r *Result) { r.Cost, r.InputsSHA256, r.Computer = Cost{}, "12", "" }, "", ""}, // a build
	} {
		current := result(c.change)
		got := current.Compare(old, Limits{})
		notes := strings.Join(got.Notes, "\n")
		if len(got.Changes) > 0 || !strings.Contains(notes, c.note) || (notes == "") != (c.note == "") ||
			!strings.Contains(got.Incomparable, c.incomparable) || (got.Incomparable == "") != (c.incomparable == "") {
			t.Errorf("%s%s: %+v", c.note, c.incomparable, got)
		}
		testkit.WantErrorIf(t, c.incomparable != "", got.Err(current), failure.Config)
	}
}

// TestNoise: times differ if their intervals do not overlap, and exceed a limit if even the ends next to each other do.
func TestNoise(t *testing.T) {
	for _, c := range []struct {
		unit             string
		old, now, half   float64 // medians, and half of the interval of each
		changed, exceeds bool
	}{
		{inSeconds, 1, 1.015, 0.01, false, false},
		{inSeconds, 1, 1.015, 0.001, true, false},
		{inDeviceSeconds, 1, 1.03, 0.001, true, true},
		{inDeviceSeconds, 1, 1.05, 0.1, false, false},
		{inSeconds, 1, 0.9, 0.001, true, false},
		{inSeconds, 1e-6, 2e-6, 0, false, false},
	} {
		result := func(median float64) *Result {
			return &Result{Cost: Cost{
				Unit: c.unit, Samples: 10, Median: median, Low: median - c.half, High: median + c.half, Resolution: 1e-6,
			}}
		}
		changes := result(c.now).Compare(result(c.old), Limits{Cost: 0.02}).Changes
		if (len(changes) > 0) != c.changed || c.changed && changes[0].Exceeds != c.exceeds {
			t.Errorf("%+v: %+v", c, changes)
		}
	}
}

func TestParseLimits(t *testing.T) {
	l, err := ParseLimits(" ram=0, time=0.5%")
	must(t, err)
	testkit.Equal(t, "limits", l, Limits{Cost: 0.005, Flash: 0.01, RAM: 0, Stack: 0.01})
	for _, text := range []string{"rom=1", "flash", "flash=-1", "flash=NaN", "flash=Inf", "flash=1kB"} {
		_, err := ParseLimits(text)
		wantError(t, err, failure.Config)
	}
}

func TestBaseline(t *testing.T) {
	old, current := grown()
	current.Outputs = &Outputs{Samples: 1}
	lost := &Result{Board: "b", Model: "x", Failure: &Failure{Class: "fault"}}
	b := &Baseline{}
	b.Update([]*Result{old})
	b.Update([]*Result{lost, current})
	path := filepath.Join(t.TempDir(), "b.json")
	must(t, b.Write(path))
	b, err := ReadBaseline(path)
	if err != nil || len(b.Results) != 1 || b.Find(old) == nil || b.Find(old).Flash != 1020 ||
		b.Find(old).Outputs != nil || b.Find(lost) != nil || current.Outputs == nil {
		t.Errorf("%+v, %v", b, err)
	}
	_, err = ReadBaseline(t.TempDir()) // no file that a measurement would write
	wantError(t, err, failure.Config, "name a file in it")
	const broken = `{"format":1,"results":[{"board":"b","model":"m",%s}]}`
	for _, text := range []string{
		"", "<<<<<<< HEAD\n{}", `{"format":2}`, `{"format":1,"results":[null]}`, `{"format":1,"results":[{},{}]}`,
		`{"format":1,"x":1}`, fmt.Sprintf(broken, `"flash":-1`), fmt.Sprintf(broken, `"failure":{"class":"fault"}`),
		fmt.Sprintf(broken, `"cost":{"unit":"instructions","median":9,"low95":9,"high95":8}`),
		fmt.Sprintf(broken, `"cost":{"unit":"hours","median":1}`), fmt.Sprintf(broken, `"flash":"1"`), "[]",
	} {
		writeFile(t, path, text)
		_, err := ReadBaseline(path)
		isNewer := strings.Contains(failure.Next(err), "use the version of boardsmith that wrote it")
		if failure.Of(err) != failure.Config || failure.Next(err) == "" || isNewer != strings.Contains(text, "2") ||
			strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: %v; %s", text, err, failure.Next(err))
		}
	}
}

// TestUpdateBaseline: of many that update a file at once, none loses its result; one that is stopped does not wait.
func TestUpdateBaseline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "b.json"), filepath.Join(dir, "link")
	must(t, UpdateBaseline(t.Context(), path, nil))
	must(t, os.Symlink("b.json", link))
	const writers = 8
	var failed [writers]error
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			r := &Result{Board: "b", Model: fmt.Sprint(i), Flash: 1}
			failed[i] = UpdateBaseline(t.Context(), []string{path, link}[i%2], []*Result{r})
		})
	}
	all.Wait()
	b, err := ReadBaseline(path)
	if err := errors.Join(append(failed[:], err)...); err != nil || len(b.Results) != writers {
		t.Fatalf("%+v, %v", b, err)
	}
	wantError(t, UpdateBaseline(t.Context(), filepath.Join(path, "x"), nil), failure.Config)
}

// recording returns a CSV of two whole runs of 10 ms with 2 mA and 4 mA, between two that are cut.
func recording(samples int) string {
	var b strings.Builder
	b.WriteString("Timestamp(ms),Current(uA),D0,D1\n")
	row := 0
	add := func(microamperes, pin, n int) {
		for range n {
			fmt.Fprintf(&b, "%g,%d,%d,0\n", float64(row)*10/float64(samples), microamperes, pin)
			row++
		}
	}
	add(9000, 1, 3)
	add(10, 0, 5)
	add(2000, 1, samples)
	add(10, 0, 5)
	add(4000, 1, samples)
	add(10, 0, 5)
	add(9000, 1, 3)
	return b.String()
}

func TestReadEnergy(t *testing.T) {
	near := func(a, b float64) bool { return a > b*0.999999 && a < b*1.000001 }
	e, err := ReadEnergy(strings.NewReader(recording(20)), "d0", 3)
	if err != nil || e.Runs != 2 || !near(e.Min, 60e-6) || !near(e.Max, 120e-6) || !near(e.Mean, 90e-6) ||
		!near(e.Median, 10e-3) {
		t.Errorf("%+v, %v", e, err)
	}
	volts := strings.NewReplacer("D1", "voltage [mV]", ",0\n", ",1500\n").Replace(recording(20))
	e, err = ReadEnergy(strings.NewReader(volts), "D0", 0)
	if err != nil || !near(e.Mean, 45e-6) {
		t.Errorf("with a column of the voltage: %+v, %v", e, err)
	}
	for want, text := range map[string]string{
		"no column current":        "time(s),D0\n",
		`no column "D0"`:           "time(s),current(A),D0-D7\n",
		"its unit is unknown":      "time,current(A),D0\n",
		"a run of 5 samples only":  recording(5),
		"no whole pulse":           "time(s),current(A),D0\n1,1,1\n2,1,0\n",
		"does not increase":        "time(s),current(A),D0\n1,1,0\n1,1,0\n",
		`row 1: pin is "2"`:        "time(s),current(A),D0\n1,1,2\n",
		`row 1: current is "high"`: "time(s),current(A),D0\n1,high,0\n",
		"wrong number of fields":   "time(s),current(A),D0\n1\n",
		"EOF":                      "",
	} {
		_, err := ReadEnergy(strings.NewReader(text), "D0", 3)
		wantError(t, err, failure.Config, want)
	}
	_, err = ReadEnergy(strings.NewReader(recording(20)), "D0", 0)
	wantError(t, err, failure.Config, "voltage")
}

// TestTables: a table of Markdown has both values and the cause of what exceeds a limit; a cell is one cell, and no
// column is empty.
func TestTables(t *testing.T) {
	old, current := grown()
	b := &Baseline{}
	b.Update([]*Result{old})
	lost := &Result{Board: "b|c", Model: "x<i>", App: "rpc"}
	lost.Failure = &Failure{Class: "fault", Error: "it\nstopped"}
	current.StackUnsure, current.Energy = []string{"f is recursive"}, &Energy{Mean: 2.5e-5}
	current.Options = []string{"operator_opt=O3"}
	var text bytes.Buffer
	table := Table{Results: []*Result{current, lost}, Baseline: b}
	must(t, table.WriteMarkdown(&text))
	const want = `| board | model | firmware | per inference | flash | RAM | stack | energy |
|---|---|---|--:|--:|--:|--:|--:|
| b | m | rpc | 10,002 instructions | 1,000 → 1,020 (+2.00 %) | 50 | ≥ 100 | 25 µJ |
| b\|c | x&lt;i> | rpc | fault |  |  |  |  |

* m on b as rpc: stack may be more: f is recursive
* m on b as rpc: **flash 1000 -> 1020 bytes (+2.00 %), above the limit of +0 %** operators +20, operators: conv +20
* m on b as rpc: the options differ: operator_opt=O3, not none
* x&lt;i> on b\|c as rpc: it stopped
`
	testkit.Equal(t, "table", text.String(), want)
	text.Reset()
	must(t, table.WriteCSV(&text))
	if lines := strings.Split(text.String(), "\n"); len(lines) != 4 ||
		lines[1] != "b,m,rpc,instructions,10002,10002,10002,,1020,50,100,,,2.5e-05,stack may be more: f is recursive," ||
		!strings.HasSuffix(lines[2], ",fault") {
		t.Errorf("%s", text.String())
	}
}

// TestPage: docs/measure.md has a row for each field of a result and of a change.
func TestPage(t *testing.T) {
	page := string(readFile(t, "../docs/measure.md"))
	name := regexp.MustCompile(`^\w+`)
	for _, object := range []any{
		Result{}, Cost{}, Operator{}, fit.Share{}, fit.RegionUse{}, Failure{}, Change{}, Cause{}, Energy{},
	} {
		typ := reflect.TypeOf(object)
		for i := range typ.NumField() {
			testkit.WantText(t, page, "`"+name.FindString(typ.Field(i).Tag.Get("json"))+"`")
		}
	}
}

func TestContexts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the host board needs POSIX")
	}
	s := project.Spec{Board: "host", Model: mlftest.Path(t, "sine.aot_c")}
	b := &project.Builder{Host: cached()}
	built, err := b.Generate(t.Context(), t.TempDir(), s)
	must(t, err)
	defer built.Close()
	i, err := built.Build(t.Context())
	must(t, err)
	set := set(t, threeInputs)
	path := filepath.Join(t.TempDir(), "x.npz")
	must(t, ndarray.WriteNPZ(path, []ndarray.Named{threeInputs}))
	failuretest.Ended(t, failuretest.Calls{
		"Result.Run": func(ctx context.Context) error {
			return new(Result).Run(ctx, &echo{model: classifier()}, set, Options{})
		},
		"ReadSet": func(ctx context.Context) error {
			_, err := ReadSet(ctx, Files{Inputs: path}, classifier())
			return err
		},
		"Build": func(ctx context.Context) error { _, err := Build(ctx, built, i); return err },
		"Model": func(ctx context.Context) error { _, err := Model(ctx, s, Options{Builder: b}); return err },
		"UpdateBaseline": func(ctx context.Context) error {
			path := filepath.Join(t.TempDir(), "b.json")
			lock, err := filelock.Open(path + ".lock")
			must(t, err)
			defer lock.Close()
			return UpdateBaseline(ctx, path, nil)
		},
		"Project": func(ctx context.Context) error {
			p, err := b.Generate(context.Background(), t.TempDir(), s)
			must(t, err)
			defer p.Close()
			_, err = Project(ctx, p, Options{})
			return err
		},
	})
}
