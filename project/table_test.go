package project_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// reportFolder gets the pages that full runs write. They are not committed.
const reportFolder = "../build/report"

// shownArchives are the models of docs/figures.md, which a full run tries on every board.
var shownArchives = []string{"digits_i8.aot_c", "dscnn_i8.aot_c"}

// trialsDrawn is the number of pairs of a board and an archive that a plain run draws.
const trialsDrawn = 2

// A trial is one archive on one board.
type trial struct {
	board   *boards.Board
	archive string // path
}

// A verdict is the result of a trial.
type verdict struct {
	why     string   // why it does not run there, in a few words; "" if its answers are right
	options []string // that it needed
	flash   int64    // bytes of the image
	ram     int64    // bytes of variables, and of the arena that the model takes
	seconds float64  // of one inference
	jitter  float64  // seconds by which two equal inferences may differ
	err     error    // what must not be
}

// TestBoardsAndArchives runs each archive on each emulated board: its outputs are right, or it is refused with a reason
// that the user can act on. A full run writes boards.md, with the shown archives; a run without a limit tries all pairs
// and also writes boards-x-archives.md.
func TestBoardsAndArchives(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links to an emulator need POSIX")
	}
	var archives []string
	for _, a := range mlftest.Archives(t) {
		if !strings.HasPrefix(mlftest.Name(a), "matmul_") { // operators, which are no inference
			archives = append(archives, a)
		}
	}
	all := chips(t, func(b *boards.Board) bool { return !b.KeepsHostTime() && project.NewEnough(t, b) })
	var pairs []trial
	for _, b := range all {
		for _, a := range archives {
			pairs = append(pairs, trial{b, a})
		}
	}
	tried := drawn.Of(t, "boards and archives", pairs, trialsDrawn)
	if drawn.InFull() {
		tried = slices.DeleteFunc(slices.Clone(pairs), func(x trial) bool {
			return !isShown(x.archive) && !slices.Contains(tried, x)
		})
	}
	some := map[*boards.Board][]trial{}
	for _, x := range tried {
		some[x.board] = append(some[x.board], x)
	}
	results := map[trial]verdict{}
	var mu sync.Mutex
	c := cache.New(testcache.Dir(), cache.Options{})
	skipped := 0
	t.Run("board", func(t *testing.T) {
		gate := make(chan struct{}, runtime.NumCPU())
		for b, trials := range some {
			t.Run(b.Name, func(t *testing.T) {
				if why := hasCompiler(t, b) + hasEmulator(t, b); why != "" {
					skipped++
					t.Skip(why)
				}
				t.Parallel()
				gate <- struct{}{}
				defer func() { <-gate }()
				for _, x := range trials {
					began := time.Now()
					v := try(t, x, c)
					if failure.Of(v.err) == failure.ToolMissing { // a programmer; the rest is there
						mu.Lock()
						skipped++
						mu.Unlock()
						t.Skipf("%v: %s", v.err, failure.Next(v.err))
					}
					mu.Lock()
					results[x] = v
					mu.Unlock()
					t.Logf("%s on %s: %v, after %v", mlftest.Name(x.archive), b.Name, v, time.Since(began).Round(time.Millisecond))
					if v.err != nil {
						t.Errorf("%s on %s: %v", mlftest.Name(x.archive), b.Name, v.err)
					}
				}
			})
		}
	})
	if !drawn.InFull() || skipped > 0 || t.Failed() {
		return
	}
	shown := slices.DeleteFunc(slices.Clone(archives), func(a string) bool { return !isShown(a) })
	writeReport(t, "boards.md", boardRows(all, shown, results))
	if drawn.InSoak() {
		writeReport(t, "boards-x-archives.md", archiveRows(all, archives, results))
	}
}

func isShown(archive string) bool { return slices.Contains(shownArchives, mlftest.Name(archive)) }

// writeReport writes a page to reportFolder.
func writeReport(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(reportFolder, 0o755))
	must(t, atomicwriter.WriteFile(filepath.Join(reportFolder, name), []byte(text), 0o644))
}

// try generates the archive's project for the board and runs it. If the hint names an option, it uses that option.
func try(t *testing.T, x trial, c *cache.Cache) (v verdict) {
	ctx := testkit.Context(t)
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		return verdict{err: err}
	}
	defer os.RemoveAll(dir) // hundreds of them would fill a disk
	for {
		options, err := boards.ParseOptions(v.options)
		if err != nil {
			v.err = err
			return v
		}
		err = v.run(ctx, x, &project.Builder{Host: device.Host{Cache: c}, Jobs: 1}, project.Spec{
			Board: x.board.Name, Model: x.archive, Options: options,
		}, filepath.Join(dir, "p"))
		var fit *project.FitError
		if errors.As(err, &fit) && fit.Option != "" && len(v.options) < 4 {
			v.options = merged(v.options, strings.Fields(fit.Option))
			continue
		}
		v.why, v.err = refusal(x, err)
		return v
	}
}

// merged puts later options in the place of earlier ones of the same name.
func merged(options, later []string) []string {
	all := map[string]string{}
	for _, o := range slices.Concat(options, later) {
		name, _, _ := strings.Cut(o, "=")
		all[name] = o
	}
	var list []string
	for _, o := range all {
		list = append(list, o)
	}
	sort.Strings(list)
	return list
}

// refusal returns in a few words why an archive was refused. It returns the error itself if it is no refusal, or not
// one that this board may have.
func refusal(x trial, err error) (why string, bad error) {
	name := mlftest.Name(x.archive)
	dsp := hasDSP(x.board)
	var large *project.FitError
	switch {
	case err == nil && strings.HasSuffix(name, "_dsp") && !dsp:
		return "", errors.New("runs on a core without DSP instructions")
	case err == nil:
		return "", nil
	case failure.Next(err) == "":
		return "", fmt.Errorf("without a hint: %w", err)
	case errors.As(err, &large) && !slices.Contains([]string{"memory", "arena", "stack", "packet buffer"}, large.Part):
		return "", fmt.Errorf("an error that does not depend on the model: %w", err)
	case errors.As(err, &large):
		where := large.Region
		if large.Part != "memory" {
			where = large.Part
		}
		return fmt.Sprintf("%s −%s", where, kib(large.Over)), nil
	case errors.Is(err, fit.ErrTarget) && strings.Contains(name, "_llvm_"):
		return "other core", nil
	case strings.Contains(err.Error(), "bytes of constants") && strings.Contains(name, "aot_packed_llvm"):
		return "incomplete", nil
	case strings.HasSuffix(name, "_dsp") && !dsp && failure.Of(err) == failure.Compile &&
		strings.Contains(failure.Next(err), "whose core has these instructions"):
		return "needs DSP", nil
	}
	return "", err
}

// hasDSP reports whether a board's core has Arm's DSP instructions.
func hasDSP(b *boards.Board) bool {
	return slices.ContainsFunc(b.CFlags, func(flag string) bool {
		core := strings.TrimPrefix(flag, "-mcpu=cortex-")
		return slices.Contains([]string{"m4", "m7", "m33", "m55"}, strings.Split(core, "+")[0])
	})
}

// run takes the archive through generate, build, flash and open to its outputs.
func (v *verdict) run(ctx context.Context, x trial, b *project.Builder, s project.Spec, dir string) (err error) {
	p, err := b.Generate(ctx, dir, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	i, err := p.Build(ctx)
	if err != nil {
		return err
	}
	if err := v.measure(p, i); err != nil {
		return err
	}
	session, err := p.Run(ctx, &device.Desk{Programmer: "none"}, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close(ctx)) }()
	_, m, err := p.Model()
	if err != nil {
		return err
	}
	e, err := executor.Open(ctx, session, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close(ctx)) }()
	return v.infer(ctx, e, x.archive)
}

func (v *verdict) infer(ctx context.Context, e executor.Executor, archive string) error {
	in, out := mlftest.Arrays(archive)
	inputs, err := ndarray.ReadNPZ(in)
	if err != nil {
		return err
	}
	for _, a := range inputs {
		if err := e.SetInput(ctx, a.Name, a.Array); err != nil {
			return err
		}
	}
	if err := e.Run(ctx); err != nil {
		return err
	}
	var got []ndarray.Named
	for i, o := range e.Outputs() {
		a, err := e.Output(ctx, i)
		if err != nil {
			return err
		}
		got = append(got, ndarray.Named{Name: o.Name, Array: a})
	}
	want, err := expected(archive, in, out)
	if err != nil {
		return err
	}
	if d := differs(got, want); d != "" {
		return errors.New("wrong: " + d)
	}
	samples, err := e.Time(ctx, rpc.TimeOptions{Number: 1, Repeat: 2})
	if err != nil {
		return err
	}
	if v.seconds = samples[0]; len(samples) != 2 || math.Abs(samples[1]-samples[0]) > v.jitter || v.seconds <= 0 {
		return fmt.Errorf("two equal inferences took %v s", samples)
	}
	return nil
}

// measure returns the memory that the image uses, and the part of the arena that the model takes.
func (v *verdict) measure(p *project.Project, i *image.Image) error {
	if err := v.measureImage(p, i); err != nil {
		return err
	}
	a, m, err := p.Model()
	if err != nil {
		return err
	}
	o, err := p.Board().Settle(p.Options())
	if err != nil {
		return err
	}
	need, err := fit.NeedOf(p.Board(), a, m, o.PacketBytes)
	v.ram += need.Bytes
	return err
}

// measureImage returns the memory that the image uses, without arena and stack.
func (v *verdict) measureImage(p *project.Project, i *image.Image) error {
	u, err := p.Usage(i)
	if err != nil {
		return err
	}
	v.flash, v.ram = u.FlashAndRAM()
	v.ram -= u.Arena.Need
	return nil
}

func kib(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.*f K", map[bool]int{true: 1, false: 0}[n < 100<<10], float64(n)/1024)
}

func (v verdict) String() string {
	if v.err != nil {
		return "failed"
	}
	if v.why != "" {
		return v.why
	}
	return fmt.Sprintf("%s<br>%s + %s", shortTime(v.seconds), kib(v.flash), kib(v.ram))
}

// shortTime formats a time with three significant digits.
func shortTime(s float64) string {
	unit, scale := "µs", 1e6
	switch {
	case s >= 1:
		unit, scale = "s", 1
	case s >= 1e-3:
		unit, scale = "ms", 1e3
	}
	n := s * scale
	return fmt.Sprintf("%.*f %s", max(0, 2-int(math.Floor(math.Log10(n)))), n, unit)
}

const tableIntro = `# Boards × archives

Written by ` + "`go tool mage test:soak`" + ` (` + "`TestBoardsAndArchives`" + `), which builds every archive for every emulated board and
runs it, as ` + "`BOARD=… MODEL=… go tool mage build flash run`" + ` does. A cell with a time means that all outputs were right:
integers are equal, and floats within 1e-5·max(1, |expected|) of TVM's own results. It contains
the time of one inference, and below it flash + RAM:

* **time** is virtual time of QEMU with ` + "`-icount shift=4`" + `: every instruction takes 16 ns. It counts instructions, at the
  resolution of the board's timer. It is the same in every run, and does not depend on cycles, caches or wait states.
* **flash** is everything in the region of the code: operators, parameters, runtime, RPC server, and the initial values
  of variables. The parameters of a ` + "`graph`" + ` archive are not in the image; the host sends them into RAM.
* **RAM** is all variables, and the part of the arena that runtime and model use while the host runs them. The stack is
  not included.

A cell without a time gives the reason why the archive was refused before anything was flashed:

* *region* −*n*: the region, the arena or the packet buffer is *n* too small, and no option fixes it
* *needs DSP*: the C code uses Arm's DSP instructions, which the core does not have
* *other core*: the archive contains objects for another core
* *incomplete*: TVM does not write the entry and the constants of such archives

A ¹ marks options other than the board's own, listed below. K is 1,024 bytes.
`

// isTiny reports whether an archive is one of MLPerf Tiny's networks, which this repository does not contain.
func isTiny(archive string) bool { return filepath.Base(filepath.Dir(archive)) == "mlperf_tiny" }

// boardRows returns a table with a row for each board.
func boardRows(all []*boards.Board, archives []string, results map[trial]verdict) string {
	var w strings.Builder
	w.WriteString("| board |")
	for _, a := range archives {
		fmt.Fprintf(&w, " %s |", mlftest.Name(a))
	}
	w.WriteString("\n|---|" + strings.Repeat("---|", len(archives)) + "\n")
	for _, b := range all {
		fmt.Fprintf(&w, "| %s |", b.Name)
		for _, a := range archives {
			v := results[trial{b, a}]
			fmt.Fprintf(&w, " %s%s |", v, v.mark())
		}
		w.WriteString("\n")
	}
	return w.String()
}

// archiveRows returns the page with a row for each archive.
func archiveRows(all []*boards.Board, archives []string, results map[trial]verdict) string {
	var w strings.Builder
	w.WriteString(tableIntro)
	var notes []string
	section := func(title string, wanted func(string) bool) {
		fmt.Fprintf(&w, "\n## %s\n\n| archive |", title)
		for _, b := range all {
			fmt.Fprintf(&w, " %s |", b.Name)
		}
		w.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
		for _, a := range archives {
			if !wanted(a) {
				continue
			}
			fmt.Fprintf(&w, "| %s |", mlftest.Name(a))
			for _, b := range all {
				v := results[trial{b, a}]
				if v.mark() != "" {
					notes = append(notes, fmt.Sprintf("%s on %s: `OPTIONS=\"%s\"`", mlftest.Name(a), b.Name,
						strings.Join(v.options, " ")))
				}
				fmt.Fprintf(&w, " %s%s |", v, v.mark())
			}
			w.WriteString("\n")
		}
	}
	section("MLPerf Tiny's reference networks", isTiny)
	section("Other models", func(a string) bool { return !isTiny(a) })
	if len(notes) > 0 {
		w.WriteString("\n¹ " + strings.Join(notes, "; ") + "\n")
	}
	return w.String()
}

// mark returns the mark of a result with other options than the board's own.
func (v verdict) mark() string {
	if v.why == "" && len(v.options) > 0 {
		return "¹"
	}
	return ""
}

// expected returns TVM's results, or the test's own computation if TVM has none.
func expected(archive, in, out string) ([]ndarray.Named, error) {
	if out != "" {
		return ndarray.ReadNPZ(out)
	}
	return convolved(archive, in)
}
