// This file writes docs/figures.md, the page of figures for users.

package develop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

const (
	figuresFile  = "docs/figures.md"
	reportFolder = "build/report" // pages of test runs, which nobody commits
)

// sizeTables are the pages whose tables the figures contain. Tests of package project write them.
var sizeTables = []string{"boards.md", "standalone-sizes.md"}

// figures measures, and writes figuresFile. It takes a few minutes.
func (r *repository) figures(ctx context.Context) error {
	commit, err := r.commit(ctx)
	if err != nil {
		return err
	}
	load := systemLoad()
	for _, tool := range runtimeFigures.needs {
		if _, err := exec.LookPath(tool); err != nil {
			return failure.Errorf(failure.ToolMissing, "the runtime's figures: %w", err)
		}
	}
	runtimeTable, err := r.runCheck(ctx, runtimeFigures, nil)
	if err != nil {
		return failure.Errorf(failure.Internal, "%s: %w\n%s", runtimeFigures.typed(), err, runtimeTable)
	}
	tables, err := r.sizeTables(ctx)
	if err != nil {
		return err
	}
	speed, err := r.measure(ctx)
	if err != nil {
		return err
	}
	page, err := figuresPage(commit, load, runtimeTable, speed, tables)
	if err != nil {
		return failure.Errorf(failure.Internal, "%s: %w", figuresFile, err)
	}
	if err := r.writePage(figuresFile, page); err != nil {
		return err
	}
	r.JSONLine(jsonlines.Done{})
	return nil
}

// sizeTables runs the tests that measure firmware on emulated boards, and returns the tables that they write.
func (r *repository) sizeTables(ctx context.Context) (tables []string, err error) {
	for _, name := range sizeTables {
		if err := os.RemoveAll(filepath.Join(r.Dir, reportFolder, name)); err != nil {
			return nil, err
		}
	}
	env := []string{drawn.Variable + "=" + drawn.Full, "BOARDSMITH_ARCHIVES="}
	err = r.goTest(ctx, env, "-count=1", "-run=^(TestBoardsAndArchives|TestStandaloneSizes)$", "./project")
	if err != nil {
		return nil, err
	}
	if len(r.failures) > 0 {
		return nil, failure.Errorf(failure.Internal, "the tests that measure firmware failed")
	}
	for _, name := range sizeTables {
		page, err := os.ReadFile(filepath.Join(r.Dir, reportFolder, name))
		if err != nil {
			return nil, failure.Errorf(failure.Internal, "the tests wrote no table: %w", err)
		}
		tables = append(tables, tableOf(string(page)))
	}
	return tables, nil
}

// commit returns the checked-out commit, of which no file may differ.
func (r *repository) commit(ctx context.Context) (string, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = r.Dir
		printed, err := cmd.Output()
		return strings.TrimSpace(string(printed)), err
	}
	commit, err := git("rev-parse", "--short=12", "HEAD")
	changed, statusErr := git("status", "--porcelain")
	if err = errors.Join(err, statusErr); err != nil || changed != "" {
		return "", failure.New(failure.Config, "commit or stash the changes",
			"%s names a commit, from which the working tree differs: %s %v", figuresFile, changed, err)
	}
	return commit, nil
}

// systemLoad returns Linux's mean number of running processes in the last 15 minutes, which the times depend on.
func systemLoad() string {
	data, err := os.ReadFile("/proc/loadavg")
	if words := strings.Fields(string(data)); err == nil && len(words) > 2 {
		return words[2]
	}
	return "not known"
}

// tableOf returns the lines of a page that belong to tables.
func tableOf(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "|") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// figuresPage returns the page. A missing figure is an error.
func figuresPage(commit, load, runtimeTable string, speed speeds, sizes []string) (string, error) {
	peer, err := peerTable(runtimeTable)
	if err != nil {
		return "", err
	}
	times, err := timesTable(speed)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(figuresText, commit, time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), load, peer, times, sizes[0], sizes[1]), nil
}

// peerRE matches a row of `make measure` with a figure of TVM's runtime: name, measured, ceiling, budget, TVM's.
var peerRE = regexp.MustCompile(`^(\S.*?) {2,}([\d.]+) +[\d.]+ +[\d.]+ +([\d.]+)$`)

// peerTable returns the rows of the runtime's figures that have one of TVM's runtime beside them.
func peerTable(runtimeTable string) (string, error) {
	var b strings.Builder
	for line := range strings.Lines(runtimeTable) {
		if m := peerRE.FindStringSubmatch(strings.TrimRight(line, " \n")); m != nil {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", m[1], m[2], m[3])
		}
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("make measure printed no figure beside one of TVM: %s", runtimeTable)
	}
	return b.String(), nil
}

// timesTable returns the measured goals of building, calling and tuning. Those of framing, and ratios, are for
// developers.
func timesTable(speed speeds) (string, error) {
	var b strings.Builder
	for _, g := range goals {
		if strings.HasPrefix(g.benchmark, "internal/framing.") || g.shown == "%" {
			continue
		}
		value, ok := speed.value(g)
		if !ok {
			return "", fmt.Errorf("not measured: %s", g.what)
		}
		fmt.Fprintf(&b, "| %s | %.4g %s |\n", g.what, value, g.shown)
	}
	return b.String(), nil
}

// writePage writes a page of this repository and prints its name.
func (r *repository) writePage(name, text string) error {
	path := filepath.Join(r.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := atomicwriter.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	r.Printf("wrote %s", name)
	return nil
}

const figuresText = `# Figures

Written by ` + "`go tool mage figures`" + `, which measures them; nothing in it is edited by hand.

| | |
|---|---|
| commit | %s |
| day | %s |
| system | %s/%s, %d cores; load before the run: %s |

## The runtime beside TVM's

The C runtime with RPC server and ahead-of-time executor, beside that of TVM 0.14, for a Cortex-M3. Sizes are of the
whole firmware. Calls are instructions, copies instructions per byte; "by 1" and "by 128" are the bytes that the link
delivers at once.

| | boardsmith | TVM 0.14 |
|---|--:|--:|
%s
## Building, calling and tuning

Wall time on the system above. With a load above 0, other programs used it, too, and times are longer.

| | |
|---|--:|
%s
## Models on emulated boards

Each cell has the time of one inference, and below it flash + RAM. A cell without a time gives the reason why the
archive is refused before anything is flashed: the memory that is too small, and by how much.

* **time** is virtual time of QEMU: every instruction takes 16 ns. It is the same in every run, and does not depend on
  cycles, caches or wait states.
* **flash** is everything in the region of the code: operators, parameters, runtime, RPC server, and the initial values
  of variables.
* **RAM** is all variables, and the part of the arena that runtime and model use. The stack is not included.

%s
K is 1,024 bytes; ¹ marks a result with other options than the board's own.

## Standalone firmware

Firmware for ` + "`mps2_an385`" + `, a Cortex-M3, with an RPC server and with ` + "`APP=standalone`" + `. Sizes are bytes. The workspace is
the part of the standalone firmware's RAM for tensors between operators, and for what operators allocate; TVM has
planned it in ` + "`aot_c`" + ` archives, boardsmith plans that of graphs. "In use at once" is the least that any plan needs.

%s
` + "`go tool mage test:soak`" + ` writes these tables for every archive, also for those that ` + "`BOARDSMITH_ARCHIVES`" + ` names, to
` + "`build/report`" + `.

## Fuzzing

[fuzzing.tsv](fuzzing.tsv) has the processor minutes of each run of a fuzz target, and of the tests that kill processes
and clients. ` + "`sh tools/fuzz.sh sum`" + ` prints them by target, and their sum.
`
