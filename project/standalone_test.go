package project

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// aloneBoards are one board of each way to run standalone firmware.
var aloneBoards = []string{"host", "mps2_an385", "mps2_an521", "qemu_riscv32"}

// An aloneFirmware is a project of standalone firmware, and its session.
type aloneFirmware struct {
	*Project
	session *standalone.Session
	model   executor.Executor
}

// runAlone generates standalone firmware, builds it, and opens its model. It skips the test without the board's tools.
func runAlone(t *testing.T, s Spec, by ...*Builder) (aloneFirmware, error) {
	t.Helper()
	s.Options.App = boards.Standalone
	p, err := generate(t, s, by...)
	if err != nil {
		return aloneFirmware{}, err
	}
	return openAlone(t, p)
}

func startAlone(t *testing.T, s Spec, by ...*Builder) aloneFirmware {
	t.Helper()
	f, err := runAlone(t, s, by...)
	must(t, err)
	return f
}

// openAlone builds standalone firmware and opens its model.
func openAlone(t *testing.T, p *Project) (aloneFirmware, error) {
	t.Helper()
	needBoard(t, p.Board())
	ctx := testkit.Context(t)
	session, err := p.RunStandalone(ctx, newDesk(), "")
	if err != nil {
		return aloneFirmware{Project: p}, err
	}
	t.Cleanup(func() { session.Close() })
	e, err := executor.OpenStandalone(ctx, session, modelOf(t, p))
	return aloneFirmware{p, session, e}, err
}

// TestStandalone runs archives as standalone firmware: the outputs are those of TVM. A plain run has one archive on
// the computer and one on an emulated board, a full run all archives.
func TestStandalone(t *testing.T) {
	t.Parallel()
	type pair struct{ archive, board string }
	pairs := append([]pair{{"sine.aot_c", "host"}}, drawn.Of(t, "standalone firmware", []pair{
		{"twoin.aot_packed", "mps2_an385"},
		{"conv_f32.graph", "mps2_an521"},
		{"conv_pools.aot_c_pools", "qemu_riscv32"},
	}, 1)...)
	if drawn.InFull() {
		pairs = nil
		for i, path := range mlftest.Archives(t) {
			on := aloneBoards
			if strings.HasPrefix(mlftest.Name(path), "matmul_") { // schedules of one operator
				on = on[i%len(on):][:1]
			}
			for _, board := range on {
				pairs = append(pairs, pair{mlftest.Name(path), board})
			}
		}
	}
	for _, x := range pairs {
		t.Run(x.archive+"/"+x.board, func(t *testing.T) {
			path := mlftest.Path(t, x.archive)
			f, err := runAlone(t, Spec{Board: x.board, Model: path})
			why, bad := refusal(trial{findBoard(t, x.board), path}, err)
			if bad != nil || why != "" && !mayRefuse(x.archive, x.board) {
				t.Fatalf("refused: %s: %v", why, err)
			} else if why != "" {
				t.Logf("refused: %s", why)
				return
			}
			checkOutputs(t, f, path)
			checkAlone(t, f.Project, x.board)
			checkStack(t, f, x.archive, x.board)
		})
	}
}

// objectsFor are the boards whose core the objects of graph archives are for.
var objectsFor = map[string]string{
	"digits_i8.graph_llvm_rv32":     "qemu_riscv32",
	"digits_i8.graph_llvm_thumbv7m": "mps2_an385",
	"digits_i8.graph_llvm_x86_64":   "host",
}

// mayRefuse reports whether standalone firmware may be refused for an archive: for objects without the model's entry or
// for another core, and for DSP instructions.
func mayRefuse(archive, board string) bool {
	fits, hasObjects := objectsFor[archive]
	return strings.Contains(archive, ".aot_packed_llvm_") || strings.HasSuffix(archive, "_dsp") ||
		hasObjects && (board != fits || board == "host" && runtime.GOARCH != "amd64")
}

// checkOutputs runs the model with the inputs beside an archive: the outputs are the expected ones, and it takes time.
func checkOutputs(t *testing.T, f aloneFirmware, archive string) {
	t.Helper()
	checkAnswer(t, f.model, archive)
	times, err := f.model.Time(testkit.Context(t), rpc.TimeOptions{Number: 1})
	if err != nil || len(times) != 1 || times[0] <= 0 {
		t.Errorf("time: %v, %v", times, err)
	}
}

// leftOut are names in symbols of what standalone firmware does not contain.
var leftOut = []string{"malloc", "sbrk", "printf", "_dtoa", "fopen", "MicroTVMRpcServer", "TVMGraphExecutor", "TVMLogf"}

// checkAlone returns an error for an image with a heap, the C library's input and output, or an RPC server.
func checkAlone(t *testing.T, p *Project, board string) {
	t.Helper()
	symbols := elfSymbols(t, p)
	for _, s := range symbols {
		if s.Name == "TVMLogf" && board == "host" {
			continue // the empty one: the system's library may call __assert_fail, which aborts
		}
		isUndefined := s.Section == elf.SHN_UNDEF // of a process: the system's library
		// The linker script of Zephyr 3.3 keeps the names of its log's modules, and no code of them.
		isName := elf.ST_TYPE(s.Info) == elf.STT_FILE || strings.HasPrefix(s.Name, "log_const_")
		if slices.ContainsFunc(leftOut, func(name string) bool { return strings.Contains(s.Name, name) }) &&
			!isUndefined && !isName {
			t.Errorf("the image has %s", s.Name)
		}
	}
	if board != "host" && len(symbols) < 50 {
		t.Errorf("only %d symbols: were they removed?", len(symbols))
	}
}

// checkStack compares what the firmware measured of its stack with the depth that was computed from the image.
func checkStack(t *testing.T, f aloneFirmware, archive, board string) {
	t.Helper()
	got, err := f.model.(interface {
		Stack(ctx context.Context) (standalone.Stack, error)
	}).Stack(t.Context())
	must(t, err)
	if board == "host" {
		if got != (standalone.Stack{}) {
			t.Errorf("the stack of a process: %+v", got)
		}
		return
	}
	u := usageOf(t, f.Project)
	sure := len(u.Stack.Unsure) == 0
	if hasObjects := strings.Contains(archive, "_llvm_"); !sure && !hasObjects {
		t.Errorf("it is not known what calls %q", u.Stack.Unsure)
	}
	if got.Used < 200 || sure && got.Used > u.Stack.Need || got.Used > got.Size || got.Size != u.Stack.Have {
		t.Errorf("the firmware used %d of %d bytes of its stack; computed: %d of %d", got.Used, got.Size, u.Stack.Need,
			u.Stack.Have)
	}
	t.Logf("stack: %d of %d bytes, computed %d (sure: %v)", got.Used, got.Size, u.Stack.Need, sure)
}

// floats matches functions that compute with floats on a core without them, and that format them.
var floats = regexp.MustCompile(`^__aeabi_([fd](add|sub|rsub|mul|div|cmp|2)|u?[il]2[fd])|^__\w+[sd]f\d?$|printf|dtoa|ecvt|fcvt`)

// TestStandaloneInteger looks at an image of an integer model for a core without floats: it neither computes with them
// nor formats them.
func TestStandaloneInteger(t *testing.T) {
	t.Parallel()
	for archive, want := range map[string]bool{"digits_i8.aot_c": false, "sine.aot_c": true} {
		p := generated(t, Spec{Board: aloneBoard, Model: mlftest.Path(t, archive), Options: alone})
		checkAlone(t, p, aloneBoard)
		hasFloats := slices.ContainsFunc(elfSymbols(t, p), func(s elf.Symbol) bool { return floats.MatchString(s.Name) })
		if hasFloats != want {
			t.Errorf("%s has functions for floats: %v", archive, hasFloats)
		}
	}
}

// elfSymbols lists the symbols of a project's image.
func elfSymbols(t *testing.T, p *Project) []elf.Symbol {
	t.Helper()
	symbols, err := openELF(t, built(t, p)).Symbols()
	must(t, err)
	return symbols
}

// TestStandaloneSources compares the projects of one model's variants: what a user writes is the same.
func TestStandaloneSources(t *testing.T) {
	t.Parallel()
	former := map[string]string{}
	for _, v := range []string{"aot_c", "aot_packed", "graph", "graph_linked"} {
		p := generated(t, Spec{Model: mlftest.Path(t, "sine."+v), Options: alone})
		for _, name := range []string{"src/main.c", "model/codegen/host/src/boardsmith_standalone.c"} {
			text := readFile(t, p.at(name))
			if cmp.Or(former[name], text) != text {
				t.Errorf("%s of %s differs", name, v)
			}
			former[name] = text
		}
		absent(t, p.at("crt/src/rpc/server.c"))
	}
}

// four is an input of mlftest.Tiny.
func four(t *testing.T, e executor.Executor) ndarray.Named {
	t.Helper()
	a, err := ndarray.New(e.Inputs()[0].DType, 4)
	must(t, err)
	copy(a.Data, []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	return ndarray.Named{Name: e.Inputs()[0].Name, Array: a}
}

// TestStandaloneFailures has models fail: each error says what happened, and the firmware then goes on.
func TestStandaloneFailures(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "boards that fail alone", aloneBoards, 1) {
		t.Run(board, func(t *testing.T) {
			t.Run("return", func(t *testing.T) {
				err := failAlone(t, board, "return in[0] == 1 ? -7 : 0;", time.Minute)
				wantAdvice(t, err, failure.Fault, "returned the error -7 (0xfffffff9)")
			})
			t.Run("fault", func(t *testing.T) {
				err := failAlone(t, board, "if (in[0] == 1) { __builtin_trap(); } return 0;", time.Minute)
				if f := faultOf(t, err); f.Operator != "twice" || f.Prior {
					t.Errorf("got %v", err)
				}
			})
			t.Run("timeout", func(t *testing.T) {
				err := failAlone(t, board, "while (*(volatile int32_t*)in == 1) {} return 0;", 3*time.Second)
				if wantError(t, err, failure.Timeout); faultOf(t, err).Record.Reason != fault.ReasonTimeout {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// failAlone runs a model that fails with its first input, and then with another one, which works. It returns the first
// error.
func failAlone(t *testing.T, board, statement string, limit time.Duration) error {
	t.Helper()
	f := startAlone(t, Spec{Board: board, Model: mlftest.Edited(t, "return 0;", statement)})
	in := four(t, f.model)
	run := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		if err := f.model.SetInput(ctx, in.Name, in.Array); err != nil {
			return err
		}
		return f.model.Run(ctx)
	}
	failed := run(limit)
	if failure.Of(failed) == failure.Timeout && !errors.As(failed, new(*fault.Error)) {
		// On a busy computer, an emulator is slower than the host's time: the next request then fetches the record.
		failed = run(time.Minute)
	}
	t.Log(failed)
	if errors.As(failed, new(*fault.Error)) {
		wantError(t, f.model.Run(t.Context()), failure.Config)
	}
	in.Data[0] = 5
	if out := answer(t, f.model, in)[0].Array; out.Data[0] != 10 {
		t.Errorf("after the failure: %v", out)
	}
	return failed
}

// TestStandaloneNoise damages bytes in both directions between the host and the firmware: the outputs are right all the
// same, and a link that damages every line is an explained error.
func TestStandaloneNoise(t *testing.T) {
	t.Parallel()
	path := mlftest.Path(t, "conv_f32.aot_c")
	f := startAlone(t, Spec{Board: "host", Model: path})
	d, err := new(device.Desk).Attach(t.Context(), f.Board(), "")
	must(t, err)
	defer d.Close()
	i := built(t, f.Project)
	for _, noise := range []float64{0.0002, 0.2} {
		ctx := testkit.Context(t)
		link, err := d.Link(ctx, i)
		must(t, err)
		noisy := transporttest.Damage(link, 1, transporttest.Noise{Flip: noise})
		s := standalone.New(noisy, standalone.Options{StartTimeout: 3 * time.Second})
		defer s.Close()
		_, err = s.Identify(ctx, 1)
		if noise > 0.1 {
			wantAdvice(t, err, failure.Boot)
			continue
		}
		must(t, err)
		e, err := executor.OpenStandalone(ctx, s, modelOf(t, f.Project))
		must(t, err)
		checkAnswer(t, e, path)
	}
}

// TestSamples compiles the inputs in: the firmware runs with them, and refuses others.
func TestSamples(t *testing.T) {
	t.Parallel()
	path := mlftest.Path(t, "twoin.aot_c")
	in, out := mlftest.Arrays(path)
	samples := arraysOf(t, in)
	f := startAlone(t, Spec{Board: "host", Model: path, Samples: samples})
	ctx := testkit.Context(t)
	wantError(t, f.model.SetInput(ctx, samples[0].Name, samples[0].Array), failure.Config)
	wantError(t, f.session.SetInput(ctx, 0, []byte{1}), failure.Transport)
	compare(t, answer(t, f.model), arraysOf(t, out))
	kept, err := f.Samples()
	if err != nil || len(kept) != len(samples) {
		t.Errorf("%d samples in the project, %v", len(kept), err)
	}
}

// TestStandaloneOutputs asks the firmware for an output without a run of the session: it is refused.
func TestStandaloneOutputs(t *testing.T) {
	t.Parallel()
	f := startAlone(t, Spec{Board: "host", Model: mlftest.Edited(t, "return 0;", "return in[0] == 1 ? -7 : 0;")})
	ctx := testkit.Context(t)
	run := func(first byte, times int) error {
		must(t, f.session.SetInput(ctx, 0, []byte{first, 0, 0, 0}))
		_, err := f.session.Run(ctx, times)
		return err
	}
	output := func(when string, want bool) {
		t.Helper()
		out, err := f.session.Output(ctx, 0, 16)
		if (err == nil) != want || !want && failure.Of(err) != failure.Transport {
			t.Errorf("%s: % x, %v", when, out, err)
		}
	}
	output("before a run", false)
	must(t, run(5, 1))
	output("after a run", true)
	_, err := f.session.Identify(ctx, 2)
	must(t, err)
	output("in another session", false)
	must(t, run(5, 0))
	output("after no run", false)
	must(t, run(5, 1))
	wantError(t, run(1, 1), "", "run returned the error")
	output("after a run that failed", false)
}

// TestBadSamples gives samples that are not the model's.
func TestBadSamples(t *testing.T) {
	t.Parallel()
	path := mlftest.Path(t, "twoin.aot_c")
	in, _ := mlftest.Arrays(path)
	good := arraysOf(t, in)
	half := slices.Clone(good)
	half[0].Array = &ndarray.Array{DType: half[0].DType, Shape: []int64{1}, Data: half[0].Data[:half[0].DType.Size()]}
	unknown := slices.Clone(good)
	unknown[0].Name = "nothing"
	for name, s := range map[string]Spec{
		"one is missing":  {Samples: good[:1], Options: alone},
		"another shape":   {Samples: half, Options: alone},
		"another name":    {Samples: unknown, Options: alone},
		"two of one name": {Samples: append(slices.Clone(good), good[0]), Options: alone},
		"an RPC server":   {Samples: good},
		"an arena":        {Options: boards.Options{App: boards.Standalone, ArenaKiB: 8}},
		"another app":     {Options: boards.Options{App: "server"}},
	} {
		t.Run(name, func(t *testing.T) {
			s.Model = path
			_, err := generate(t, s)
			wantError(t, err, failure.Config)
		})
	}
}

// TestStandaloneBudget has many short runs in one request take longer than its time: the device ends them itself.
func TestStandaloneBudget(t *testing.T) {
	t.Parallel()
	slow := "for (volatile int i = 0; i < 1000000; i++) {} return 0;"
	f := startAlone(t, Spec{Board: "host", Model: mlftest.Edited(t, "return 0;", slow)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := f.session.Run(ctx, 1<<20)
	if faultOf(t, err).Record.Reason != fault.ReasonTimeout {
		t.Errorf("got %v", err)
	}
	_, err = f.session.Run(t.Context(), 1)
	must(t, err)
}

// This file compares standalone firmware with firmware that has an RPC server.

const (
	aloneBoard = "mps2_an385"

	instructionSeconds = 16e-9 // of an emulated board, with -icount shift=4
	aloneJitter        = 1e-6  // seconds
)

const aloneTableIntro = `# Standalone firmware: size and speed

Written by ` + "`TestStandaloneSizes`" + ` in a full run, from firmware for ` + "`mps2_an385`" + `, a Cortex-M3, with an RPC server and
with ` + "`APP=standalone`" + `. All outputs are TVM's. Flash and RAM are bytes; RAM is all variables, and what the running model
takes of the arena, without the stack. With an RPC server, a ` + "`graph`" + ` has its parameters in RAM, and the host runs it
operator by operator. Instructions of one inference are virtual time of QEMU; those of standalone firmware repeat to
within 63, which is a microsecond.

**Workspace** is the part of the standalone firmware's RAM for the tensors between operators, and for what operators
allocate. TVM has planned it in ` + "`aot_c`" + ` archives; in ` + "`graph`" + ` archives, boardsmith plans it by lifetimes. **In use at
once** is the least that any plan of the same operators needs, where the archive shows it. **TVM's plan** is that of the
` + "`graph`" + ` archive's storage list, without what operators allocate. Inputs and outputs are in none of the three.

`

// An aloneRow is one archive in both kinds of firmware.
type aloneRow struct {
	archive    string
	rpc, alone verdict
	plan       modelPlan
}

// A modelPlan is the part of tvm_<model>.json about memory.
type modelPlan struct {
	Workspaces []struct {
		Bytes int64 `json:"bytes"`
	} `json:"workspaces"`
	Graph *struct {
		AtOnce int64 `json:"bytes_in_use_at_once"`
		TVMs   int64 `json:"bytes_by_tvms_plan"`
	} `json:"graph"`
}

func (p modelPlan) workspace() (sum int64) {
	for _, w := range p.Workspaces {
		sum += w.Bytes
	}
	return sum
}

// planOf returns the memory plan of an archive's model.
func planOf(t *testing.T, path string) (plan modelPlan) {
	t.Helper()
	a, err := mlf.Open(path)
	must(t, err)
	c, err := cmodel.Generate(a, a.Models[0], cmodel.Options{})
	must(t, err)
	i := slices.IndexFunc(c.Generated, func(f mlf.File) bool { return strings.HasSuffix(f.Name, ".json") })
	must(t, json.Unmarshal(c.Generated[i].Data, &plan))
	return plan
}

// TestStandaloneSizes builds and runs models with an RPC server and standalone: standalone firmware takes less flash
// and RAM, and no more time. A full run takes larger models, too, and writes the table.
func TestStandaloneSizes(t *testing.T) {
	t.Parallel()
	archives := slices.DeleteFunc(mlftest.Archives(t), func(path string) bool {
		return !isCompared(path) || !drawn.InFull() && !strings.HasPrefix(mlftest.Name(path), "conv_f32.")
	})
	var rows []aloneRow
	for _, path := range drawn.Of(t, "archives in both kinds of firmware", archives, 1) {
		t.Run(mlftest.Name(path), func(t *testing.T) {
			row := compareFirmware(t, path)
			rows = append(rows, row)
			row.check(t)
			t.Log(row)
		})
	}
	if drawn.InFull() && !t.Failed() {
		writeReport(t, "standalone-sizes.md", aloneTableIntro+tableOf(rows))
	}
}

// isCompared selects MLPerf Tiny's networks and two smaller models, with the C interface and as graphs.
func isCompared(path string) bool {
	model, variant, _ := strings.Cut(mlftest.Name(path), ".")
	return (isTiny(path) || model == "dscnn_i8" || model == "conv_f32") && (variant == "aot_c" || variant == "graph")
}

func compareFirmware(t *testing.T, path string) aloneRow {
	t.Helper()
	row := aloneRow{archive: mlftest.Name(path), plan: planOf(t, path)}
	spec := Spec{Board: aloneBoard, Model: path}
	row.rpc.run(t, generated(t, spec), path)
	f := startAlone(t, spec)
	row.alone.jitter = aloneJitter
	row.alone.measure(t, f.Project)
	row.alone.infer(t, f.model, path)
	return row
}

// check compares the two kinds of firmware.
func (r aloneRow) check(t *testing.T) {
	t.Helper()
	isGraph := r.plan.Graph != nil
	if r.alone.ram >= r.rpc.ram || !isGraph && r.alone.flash >= r.rpc.flash {
		t.Errorf("%d of flash and %d of RAM, with an RPC server %d and %d", r.alone.flash, r.alone.ram, r.rpc.flash,
			r.rpc.ram)
	}
	// The difference of the two entries, and the timer's resolution.
	if r.alone.seconds > r.rpc.seconds*1.001+1e-6 {
		t.Errorf("%v s, with an RPC server %v", r.alone.seconds, r.rpc.seconds)
	}
	if isGraph && r.plan.workspace() != r.plan.Graph.AtOnce {
		t.Errorf("a workspace of %d, of which %d are in use at once", r.plan.workspace(), r.plan.Graph.AtOnce)
	}
}

// tableOf returns the table's text.
func tableOf(rows []aloneRow) string {
	var w strings.Builder
	w.WriteString("| archive | RPC server: flash | RAM | instructions | standalone: flash | RAM | instructions " +
		"| workspace | in use at once | TVM's plan |\n|---|" + strings.Repeat("--:|", 9) + "\n")
	for _, r := range rows {
		w.WriteString(r.String() + "\n")
	}
	return w.String()
}

// String returns the table's line.
func (r aloneRow) String() string {
	line := fmt.Sprintf("| %s | %s | %s | %s |", r.archive, figures(r.rpc), figures(r.alone), grouped(r.plan.workspace()))
	if g := r.plan.Graph; g != nil {
		return fmt.Sprintf("%s %s | %s |", line, grouped(g.AtOnce), grouped(g.TVMs))
	}
	return line + " | |"
}

func figures(v verdict) string {
	return fmt.Sprintf("%s | %s | %s", grouped(v.flash), grouped(v.ram),
		grouped(int64(math.Round(v.seconds/instructionSeconds))))
}

// grouped formats a number with commas.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// TestOwnFirmware builds the example of a user's own firmware. The model's outputs are right, the firmware's own code
// runs beside the server, and its faults and endless calls are explained.
func TestOwnFirmware(t *testing.T) {
	t.Parallel()
	const example = "../examples/own-firmware"
	model := mlftest.Path(t, "digits_i8.aot_c")
	p := generated(t, Spec{Board: "own_mps2_an386", Template: example + "/firmware", Model: model}, newBuilder(example))
	needBoard(t, p.Board())
	editFile(t, p.at("app/main.c"), "  (void)num_args;\n", `  if (num_args == 1) {
    beats = *(volatile uint32_t*)0xC0000000U;
  }
  while (num_args == 2) {
  }
`)
	runProject(t, p, model)

	s := running(t, p)
	checkBeats(t, s)
	must(t, s.SetBudget(t.Context(), 100*time.Millisecond))
	for n, reason := range []fault.Reason{fault.ReasonHardware, fault.ReasonTimeout} {
		_, err := callIn(t, s, "app.beats", make([]any, n+1)...)
		if f := faultOf(t, err); f.Record.Reason != reason || len(f.Frames) == 0 || f.Frames[0].Function != "app_beats" ||
			filepath.Base(f.Frames[0].File) != "main.c" {
			t.Errorf("%d arguments: %v", n+1, err)
		}
	}
}

// checkBeats waits until an example's own code has counted.
func checkBeats(t *testing.T, s *rpc.Session) {
	t.Helper()
	first, err := callIn(t, s, "app.beats")
	for now := first; now == first && err == nil; {
		now, err = callIn(t, s, "app.beats")
	}
	must(t, err)
}
