package project

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
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
}

// TestBoardsAndArchives runs each archive on each emulated board: its outputs are right, or it is refused with a reason
// that the user can act on. A full run writes boards.md, with the shown archives; a run without a limit tries all pairs
// and also writes boards-x-archives.md.
func TestBoardsAndArchives(t *testing.T) {
	t.Parallel()
	var archives []string
	for _, a := range mlftest.Archives(t) {
		if !strings.HasPrefix(mlftest.Name(a), "matmul_") { // operators, which are no inference
			archives = append(archives, a)
		}
	}
	all := slices.DeleteFunc(bareBoards(t), func(b *boards.Board) bool { return b.KeepsHostTime() || !isNewEnough(t, b) })
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
	t.Run("board", func(t *testing.T) {
		gate := make(chan struct{}, runtime.NumCPU())
		for b, trials := range some {
			t.Run(b.Name, func(t *testing.T) {
				t.Parallel()
				gate <- struct{}{}
				defer func() { <-gate }()
				for _, x := range trials {
					t.Run(mlftest.Name(x.archive), func(t *testing.T) {
						v := try(t, x)
						t.Log(v)
						mu.Lock()
						results[x] = v
						mu.Unlock()
					})
				}
			})
		}
	})
	if !drawn.InFull() || len(results) < len(tried) || t.Failed() {
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

// try generates the archive's project for the board and runs it. If the error names an option, it uses that option.
func try(t *testing.T, x trial) (v verdict) {
	t.Helper()
	b := newBuilder()
	b.Jobs = 1
	for {
		options, err := boards.ParseOptions(v.options)
		must(t, err)
		p, err := generate(t, Spec{Board: x.board.Name, Model: x.archive, Options: options}, b)
		if err == nil {
			err = buildError(t, p)
		}
		if large, ok := errors.AsType[*FitError](err); ok && large.Option != "" && len(v.options) < 4 {
			v.options = replaced(v.options, strings.Fields(large.Option))
			continue
		}
		v.why, err = refusal(x, err)
		must(t, err)
		if v.why == "" {
			v.run(t, p, x.archive)
		}
		return v
	}
}

// replaced puts later options in the place of earlier ones of the same name.
func replaced(options, later []string) []string {
	all := map[string]string{}
	for _, o := range slices.Concat(options, later) {
		name, _, _ := strings.Cut(o, "=")
		all[name] = o
	}
	return slices.Sorted(maps.Values(all))
}

// refusal returns in a few words why an archive was refused. It returns the error itself if it is no refusal, or not
// one that this board may have.
func refusal(x trial, err error) (why string, bad error) {
	name := mlftest.Name(x.archive)
	dsp := hasDSP(x.board)
	var large *FitError
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

// run measures the built project of an archive, and runs it.
func (v *verdict) run(t *testing.T, p *Project, archive string) {
	t.Helper()
	v.measure(t, p)
	a, m, err := p.Model()
	must(t, err)
	need, err := fit.NeedOf(p.Board(), a, m, int(p.packetBytes()))
	must(t, err)
	v.ram += need.Bytes

	s := running(t, p)
	e := opened(t, p, s)
	v.infer(t, e, archive)
	must(t, e.Close(t.Context()))
	must(t, s.Close(t.Context()))
}

func (v *verdict) infer(t *testing.T, e executor.Executor, archive string) {
	t.Helper()
	checkAnswer(t, e, archive)
	samples, err := e.Time(testkit.Context(t), rpc.TimeOptions{Number: 1, Repeat: 2})
	must(t, err)
	if v.seconds = samples[0]; len(samples) != 2 || math.Abs(samples[1]-samples[0]) > v.jitter || v.seconds <= 0 {
		t.Errorf("two equal inferences took %v s", samples)
	}
}

// measure determines the memory that the image uses, without arena and stack.
func (v *verdict) measure(t *testing.T, p *Project) {
	t.Helper()
	u := usageOf(t, p)
	v.flash, v.ram = u.FlashAndRAM()
	v.ram -= u.Arena.Need
}

func kib(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.*f K", map[bool]int{true: 1, false: 0}[n < 100<<10], float64(n)/1024)
}

// String returns a cell of a table. A mark is for options other than the board's own.
func (v verdict) String() string {
	if v.why != "" {
		return v.why
	}
	mark := ""
	if len(v.options) > 0 {
		mark = "¹"
	}
	return fmt.Sprintf("%s<br>%s + %s%s", shortTime(v.seconds), kib(v.flash), kib(v.ram), mark)
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

// table returns a table in Markdown.
func table(rows [][]string) string {
	var w strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&w, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			w.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return w.String()
}

// boardRows returns a table with a row for each board.
func boardRows(all []*boards.Board, archives []string, results map[trial]verdict) string {
	rows := make([][]string, 1+len(all))
	rows[0] = []string{"board"}
	for _, a := range archives {
		rows[0] = append(rows[0], mlftest.Name(a))
	}
	for i, b := range all {
		rows[1+i] = []string{b.Name}
		for _, a := range archives {
			rows[1+i] = append(rows[1+i], results[trial{b, a}].String())
		}
	}
	return table(rows)
}

// archiveRows returns the page with a row for each archive.
func archiveRows(all []*boards.Board, archives []string, results map[trial]verdict) string {
	head := []string{"archive"}
	for _, b := range all {
		head = append(head, b.Name)
	}
	tiny, others := [][]string{head}, [][]string{head}
	var notes []string
	for _, a := range archives {
		row := []string{mlftest.Name(a)}
		for _, b := range all {
			v := results[trial{b, a}]
			if row = append(row, v.String()); v.why == "" && len(v.options) > 0 {
				notes = append(notes, fmt.Sprintf("%s on %s: `OPTIONS=\"%s\"`", row[0], b.Name, strings.Join(v.options, " ")))
			}
		}
		if isTiny(a) {
			tiny = append(tiny, row)
		} else {
			others = append(others, row)
		}
	}
	page := tableIntro + "\n## MLPerf Tiny's reference networks\n\n" + table(tiny) +
		"\n## Other models\n\n" + table(others)
	if len(notes) > 0 {
		page += "\n¹ " + strings.Join(notes, "; ") + "\n"
	}
	return page
}
