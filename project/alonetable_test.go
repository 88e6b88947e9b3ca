package project_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
)

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
func planOf(path string) (plan modelPlan, err error) {
	a, err := mlf.Open(path)
	if err != nil {
		return plan, err
	}
	m, err := a.Model("")
	if err != nil {
		return plan, err
	}
	c, err := cmodel.Generate(a, m, cmodel.Options{})
	if err != nil {
		return plan, err
	}
	i := slices.IndexFunc(c.Generated, func(f mlf.File) bool { return strings.HasSuffix(f.Name, ".json") })
	if i < 0 {
		return plan, fmt.Errorf("%s: no JSON file", path)
	}
	return plan, json.Unmarshal(c.Generated[i].Data, &plan)
}

// TestStandaloneSizes builds and runs models with an RPC server and standalone: standalone firmware takes less flash
// and RAM, and no more time. A full run writes the table.
func TestStandaloneSizes(t *testing.T) {
	t.Parallel()
	board, err := boards.Find(aloneBoard, nil)
	if err != nil {
		t.Fatal(err)
	}
	if why := hasCompiler(t, board) + hasEmulator(t, board); why != "" {
		t.Skip(why)
	}
	archives := slices.DeleteFunc(mlftest.Archives(t), func(path string) bool { return !isCompared(path) })
	var rows []aloneRow
	for _, path := range drawn.Of(t, "archives in both kinds of firmware", archives, 1) {
		t.Run(mlftest.Name(path), func(t *testing.T) {
			row, err := compareFirmware(t, board, path)
			if err != nil {
				t.Fatalf("%v: %s", err, failure.Next(err))
			}
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

func compareFirmware(t *testing.T, board *boards.Board, path string) (aloneRow, error) {
	t.Helper()
	row := aloneRow{archive: mlftest.Name(path)}
	c := cache.New(testcache.Dir(), cache.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // a host writes all parameters of a graph
	defer cancel()
	spec := project.Spec{Board: board.Name, Model: path}
	builder := &project.Builder{Host: device.Host{Cache: c}, Jobs: 1}
	err := row.rpc.run(ctx, trial{board, path}, builder, spec, filepath.Join(t.TempDir(), "p"))
	if err != nil {
		return row, fmt.Errorf("with an RPC server: %w", err)
	}
	plan, err := planOf(path)
	if err != nil {
		return row, err
	}
	row.plan = plan
	p, err := generateAlone(t, &project.Builder{Host: device.Host{Cache: c}, Jobs: 1}, spec)
	if err != nil {
		return row, err
	}
	f, err := openAlone(t, p, 5*time.Minute)
	if err != nil {
		return row, err
	}
	defer f.session.Close()
	i, err := p.Built()
	if err != nil {
		return row, err
	}
	row.alone.jitter = aloneJitter
	if err := row.alone.measureImage(p, i); err != nil {
		return row, err
	}
	return row, row.alone.infer(ctx, f.model, path)
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
