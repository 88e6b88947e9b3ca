// This file puts candidates and constants into firmware: what does not fit into RAM, what is confirmed in flash, and
// arguments that lie there.

package tune

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// A load says how a candidate comes onto a device: as a program for its RAM, or in firmware. One that has neither a
// program nor a function waits for firmware to be built.
type load struct {
	program  *rpc.Program
	function string       // the candidate's name in the firmware
	image    *image.Image // the firmware that it needs; nil: any of its kind
	why      string       // it is so

	layout    *layout
	args      [sha256.Size]byte // of the candidate's arguments
	paused    time.Duration     // that its build waited for timings
	reference bool
}

func (l *load) waits() bool { return l.program == nil && l.function == "" }

// apart has a candidate wait for firmware of its own, after one with others did not start.
func (l *load) apart() {
	if l.program == nil {
		l.function, l.image = "", nil
	}
}

// prepare builds a candidate for RAM, beside an arena of at least so many KiB.
func (k *kind) prepare(ctx context.Context, c Candidate, leastKiB int) (load, error) {
	if err := checkCandidate(c); err != nil {
		return load{}, err
	}
	l, err := k.layoutFor(ctx, c.Args, leastKiB)
	if err != nil {
		return load{}, fmt.Errorf("arguments of %d bytes: %w", bytesOf(c.Args), err)
	}
	return k.prepareIn(ctx, l, c)
}

// prepareIn builds a candidate for the RAM of a layout. One that does not fit gets a load that waits.
func (k *kind) prepareIn(ctx context.Context, in *layout, c Candidate) (l load, err error) {
	l.layout, l.args = in, argsKey(c.Args)
	if l.image, err = k.withConstants(ctx, c); err != nil {
		return l, err
	}
	window, err := k.windowOf(ctx, l.layout)
	if err != nil {
		return l, err
	}
	if window.Bytes == 0 && k.run.o.FlashBatch > 0 {
		l.why = fmt.Sprintf("beside an arena of %d KiB there is no RAM for code", l.layout.arenaKiB)
		return l, nil
	}
	began := time.Now()
	end, err := k.run.gate.Work(ctx)
	if err != nil {
		return l, failure.Stopped(ctx, "build %s", c.ID)
	}
	l.paused = time.Since(began)
	program, err := k.build(ctx, l.layout, c)
	end()
	var large *project.FitError
	if errors.As(err, &large) && k.run.o.FlashBatch > 0 {
		l.why = fmt.Sprintf("it does not fit into RAM: %d bytes too many for the window of %d bytes", large.Over, large.Have)
		return l, nil
	}
	l.program, l.why = &program, fmt.Sprintf("it fits: %d of %d bytes", uint64(len(program.Bytes))+program.Zero,
		window.Bytes)
	return l, err
}

// checkCandidate fails for what no device takes.
func checkCandidate(c Candidate) error {
	if c.Record != nil && !json.Valid(c.Record) {
		return failure.Errorf(failure.Config, "its record is no JSON")
	}
	for i, a := range c.Args {
		bytes, err := ndarray.Bytes(a.DType, a.Shape)
		switch {
		case err != nil:
		case a.Data != nil && len(a.Data) != bytes:
			err = fmt.Errorf("%d bytes of data for %v%s, which takes %d", len(a.Data), a.DType, ndarray.ShapeString(a.Shape),
				bytes)
		case a.Want != nil && len(a.Want) != bytes:
			err = fmt.Errorf("%d bytes are wanted of %v%s, which takes %d", len(a.Want), a.DType,
				ndarray.ShapeString(a.Shape), bytes)
		case a.Flash && (len(a.Data) == 0 || a.Want != nil):
			err = errors.New("what lies in flash has data, and is no output")
		case !isTolerance(a.RelTol) || !isTolerance(a.AbsTol):
			err = fmt.Errorf("tolerances of %v and %v", a.RelTol, a.AbsTol)
		}
		if err != nil {
			return failure.Errorf(failure.Config, "argument %d: %w", i, err)
		}
	}
	return nil
}

// isTolerance reports whether a number can be a tolerance: it is neither negative nor infinite nor NaN.
func isTolerance(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

// constantName is the name of an argument that lies in flash.
func constantName(a Arg) string {
	sum := sha256.Sum256(a.Data)
	return "boardsmith_constant_" + hex.EncodeToString(sum[:8])
}

// constantsOf are the candidate's arguments that lie in flash.
func constantsOf(c Candidate) map[string][]byte {
	all := map[string][]byte{}
	for _, a := range c.Args {
		if a.Flash {
			all[constantName(a)] = a.Data
		}
	}
	return all
}

// withConstants returns firmware in which the candidate's constants lie, besides those of earlier candidates as long as
// they fit; nil if it has none.
func (k *kind) withConstants(ctx context.Context, c Candidate) (*image.Image, error) {
	need := constantsOf(c)
	if len(need) == 0 {
		return nil, nil
	}
	k.building.Lock()
	defer k.building.Unlock()
	all, missing := map[string][]byte{}, false
	for name, data := range k.constants {
		all[name] = data
	}
	for name, data := range need {
		if _, there := all[name]; !there {
			all[name], missing = data, true
		}
	}
	if !missing {
		return k.constant, nil
	}
	i, err := k.image(ctx, nil, all)
	var large *project.FitError
	if errors.As(err, &large) && len(all) > len(need) {
		all = need
		i, err = k.image(ctx, nil, all)
	}
	if err != nil {
		return nil, err
	}
	k.constants, k.constant = all, i
	return i, nil
}

// image builds firmware with operators and constants. Its caller holds k.building.
func (k *kind) image(ctx context.Context, functions map[string]project.Operators,
	constants map[string][]byte,
) (i *image.Image, err error) {
	end, err := k.run.gate.Work(ctx)
	if err != nil {
		return nil, failure.Stopped(ctx, "build firmware")
	}
	defer end()
	limited, cancel := context.WithTimeout(ctx, 10*k.run.o.BuildTimeout)
	defer cancel()
	now := k.current()
	spec := now.spec
	if spec.Archive, err = now.linker.Archive(limited, functions, constants); err != nil {
		return nil, err
	}
	p, err := k.run.o.Builder.Generate(limited, k.folderOf(".flash"), spec)
	if err != nil {
		return nil, err
	}
	if i, err = p.Build(limited); err == nil {
		i, err = k.ownFile(i)
	}
	return i, errors.Join(err, p.Close())
}

// ownFile returns an image whose file no later build replaces, until the run is closed: a place may need it again.
func (k *kind) ownFile(i *image.Image) (*image.Image, error) {
	data, err := os.ReadFile(i.Path)
	if err != nil {
		return nil, err
	}
	own := *i
	own.Path = filepath.Join(k.imagesDir(), i.Digest+".elf")
	return &own, writeWhole(own.Path, data, 0o755)
}

func (k *kind) imagesDir() string { return k.folderOf(".images") }

// operators are the candidate's, with its entry.
func (c *Candidate) operators() project.Operators {
	o := c.Operators
	if len(o.Entries) == 0 {
		o.Entries = []string{c.Entry}
	}
	return o
}

// together builds firmware of jobs that wait for one, and returns those that can be measured now. If they do not fit
// together, they are queued in two parts.
func (p *place) together(ctx context.Context, jobs []*job) (ready []*job) {
	p.letWork()
	functions, constants := map[string]project.Operators{}, map[string][]byte{}
	for n, j := range jobs {
		functions[fmt.Sprintf("boardsmith_candidate_%d", n)] = j.candidate.operators()
		for name, data := range constantsOf(j.candidate) {
			constants[name] = data
		}
	}
	p.run.tell(Event{Board: p.name, What: fmt.Sprintf("building firmware of %d candidates", len(jobs))})
	p.kind.building.Lock()
	i, err := p.kind.image(ctx, functions, constants)
	layout := p.kind.current()
	p.kind.building.Unlock()
	if err != nil && len(jobs) > 1 && ctx.Err() == nil && failure.Of(err) != failure.Host {
		half := len(jobs) / 2
		p.kind.queue.again(jobs[:half:half]...)
		p.kind.queue.again(jobs[half:]...)
		return nil
	}
	for n, j := range jobs {
		j.alone = len(jobs) == 1
		if err == nil {
			j.load.image, j.load.layout, j.load.function = i, layout, fmt.Sprintf("boardsmith_candidate_%d", n)
			ready = append(ready, j)
		} else if f := buildFailure(err); f != nil {
			j.done(p.kind, Result{Failure: f, Why: j.load.why})
		} else {
			j.fail(err)
		}
	}
	return ready
}

// buildFailure is the failure of a candidate that could not be built; nil for an error that is neither its own nor the
// computer's.
func buildFailure(err error) *Failure {
	f := failureOf(err, BlameCandidate)
	var host *command.HostError
	f.crashed = errors.As(err, &host) && host.Crashed()
	switch f.Class {
	case failure.Compile, failure.Link, failure.DoesNotFit, failure.Timeout, failure.Config, failure.Host,
		failure.ToolMissing:
		return f
	}
	return nil
}

// ---- Jobs that wait for firmware ----

// begins counts a candidate that is being measured, until the function that it returns is called.
func (k *kind) begins() (ends func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active++
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.active--
		k.flush()
	}
}

// wait adds a job to those that go into one firmware together.
func (k *kind) wait(j *job) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting = append(k.waiting, j)
	k.flush()
}

// flush queues the jobs that wait, if there are enough of them, or if nothing else is in work that could add one. Its
// caller holds k.mu.
func (k *kind) flush() {
	if n := len(k.waiting); n > 0 && (n >= k.run.o.FlashBatch || n+k.flashing >= k.active) {
		k.queue.again(k.waiting...)
		k.flashing += n
		k.waiting = nil
	}
}

// flashed counts a job that was in firmware and is done.
func (k *kind) flashed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flashing--
}

// current reports whether a result is of a candidate that Measure was called with, as it is now.
func (r *Run) current(result Result) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[result.ID] == result.Content
}

// Confirm measures the best of the candidates that Measure was called with again, for each kind of board all in one
// firmware that is written to one board: code that runs from flash can take another time than from RAM. Their results
// have the same ID with "@flash", and their candidate's in Of; Correlations compares them with those from RAM. What is
// confirmed already is not measured again. Of candidates that share a time one is measured, and of those that were
// measured in flash none.
func (r *Run) Confirm(ctx context.Context, best int) ([]Result, error) {
	var all []Result
	for _, name := range r.Kinds() {
		k := r.kinds[name]
		results, err := k.confirm(ctx, best)
		if err != nil {
			return all, err
		}
		all = append(all, results...)
	}
	return all, nil
}

func (k *kind) confirm(ctx context.Context, best int) (results []Result, err error) {
	if _, err := k.windowOf(ctx, k.current()); err != nil { // until a board has opened
		return nil, err
	}
	k.confirming.Lock()
	defer k.confirming.Unlock()
	var jobs []*job
	known, err := k.run.Results()
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{} // IDs, one for each time in RAM
	for _, ranking := range Rank(known) {
		for _, was := range ranking.Results {
			first := cmp.Or(was.Same, was.ID)
			if was.Kind != k.name || was.Tier != RAM || taken[first] || !k.run.current(was) ||
				len(jobs)+len(results) == best {
				continue
			}
			taken[first] = true
			c, err := k.run.store.candidate(was)
			if err != nil {
				return nil, err
			}
			c.ID, c.content = c.ID+inFlash, was.Content+inFlash
			if is, own, ok, err := k.run.store.find(c.content); err != nil {
				return nil, err
			} else if ok && k.run.finished(is, own) {
				if is, err = k.run.label(k, c, Result{Of: was.ID}, c.content); err != nil {
					return nil, err
				}
				results = append(results, is)
				continue
			}
			jobs = append(jobs, &job{
				gone: ctx.Done(), candidate: c, load: load{why: "it is confirmed", args: argsKey(c.Args)}, queued: time.Now(),
				answer: make(chan answer, 1), of: was.ID,
			})
		}
	}
	if len(jobs) == 0 {
		return results, nil
	}
	k.queue.again(slices.Clone(jobs)...)
	for _, j := range jobs {
		result, err := k.wanted(ctx, j)
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

const inFlash = "@flash"

// worn is the error of a board whose flash must not be written any more, nil for all others.
func worn(err error) error {
	var w *device.WearError
	if errors.As(err, &w) {
		return w
	}
	return nil
}
