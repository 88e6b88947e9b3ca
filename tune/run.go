// This file opens and closes runs, and takes candidates.

package tune

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/timegate"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// A Run measures candidates and keeps what it found in a folder: stopped at any moment, it goes on where it was. Many
// goroutines may use it.
type Run struct {
	dir   string
	o     Options
	kinds map[string]*kind
	store *store
	gate  timegate.Gate // of compilers, and of measurements on this computer's processors

	stop   context.CancelFunc // ends the places
	closed <-chan struct{}    // closed then
	done   sync.WaitGroup     // of the places

	mu      sync.Mutex
	working map[string]chan struct{} // candidates that are being measured, by their contents
	asked   map[string]string        // the contents of the candidates that Measure was called with, by their IDs
}

// A kind is one kind of board, and all of the run that are of it.
type kind struct {
	name  string
	run   *Run
	queue *queue
	board *boards.Board
	spec  project.Spec // of firmware without candidates, without options
	made  string       // project.Project.MadeWith of that

	confirming sync.Mutex        // one Confirm at a time
	building   sync.Mutex        // of other firmware
	excess     error             // of the smallest arena that did not fit; nil: there was none
	excessKiB  int               // its size
	constants  map[string][]byte // that lie in flash, by name
	constant   *image.Image      // the firmware that they are in; nil: there are none

	mu         sync.Mutex
	active     int                           // candidates that are being measured
	waiting    []*job                        // those of them that wait for others to be put into firmware with
	flashing   int                           // those of them that are in firmware, or that it is being built of
	layout     *layout                       // that candidates are built for
	layouts    []*layout                     // all
	places     int                           // that are not given up
	lost       error                         // why the last one was
	best       map[[sha256.Size]byte]float64 // seconds, by arguments
	programs   programs
	references map[string]float64          // seconds, by place
	measured   map[[sha256.Size]byte]*twin // by linked bytes and arguments
}

// A twin is a measurement that candidates with the same bytes share.
type twin struct {
	done    chan struct{}
	content string // of the candidate whose result it is; "": it has none
}

// OpenRun begins a run, or goes on with the one in the folder. Each word of boards is a place to measure: the name of a
// board, or NAME=DEVICE for one of several that are attached, as Desk.Attach takes it; a process or an emulated board
// may be named more than once. Firmware is built for each kind, and written to boards that do not hold it. Errors:
// those of project and device; of class config for a folder that another process uses.
func OpenRun(ctx context.Context, dir string, desk *device.Desk, boards []string, o Options) (*Run, error) {
	if o.Reference != nil {
		if err := checkCandidate(*o.Reference); err != nil {
			return nil, fmt.Errorf("the reference: %w", err)
		}
	}
	if len(boards) == 0 {
		return nil, failure.New(failure.Config, "name at least one board", "a run without boards")
	}
	o = o.settled()
	if err := o.checkMemory(boards); err != nil {
		return nil, err
	}
	dir = abspath.Of(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	st, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	r := &Run{
		dir: dir, o: o, kinds: map[string]*kind{}, store: st, working: map[string]chan struct{}{},
		asked: map[string]string{},
	}
	if r.o.Builder == nil {
		r.o.Builder = &project.Builder{}
	}
	spec := r.o.Builder.Absolute(project.Spec{Template: o.Template, Libraries: o.Libraries})
	r.o.Template, r.o.Libraries = spec.Template, spec.Libraries
	places, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop, r.closed = stop, places.Done()
	if err := st.keepSettings(r.o, boardFiles(boards, r.o.Builder.Path)); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if err := r.start(ctx, places, desk, boards); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (o Options) settled() Options {
	if o.Samples <= 0 {
		o.Samples = 3
	}
	if o.MinSample <= 0 {
		o.MinSample = time.Millisecond
	}
	if o.BuildTimeout <= 0 {
		o.BuildTimeout = time.Minute
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 10 * time.Second
	}
	if o.StepTimeout <= 0 {
		o.StepTimeout = 30 * time.Second
	}
	if o.Every <= 0 {
		o.Every = 100
	}
	if o.Drift <= 0 {
		o.Drift = 0.05
	}
	if o.MaxRecoveries <= 0 {
		o.MaxRecoveries = 3
	}
	o.Memory = maps.Clone(o.Memory)
	maps.DeleteFunc(o.Memory, func(name string, m boards.Options) bool {
		return name == "" && m == (boards.Options{})
	})
	if len(o.Memory) == 0 {
		o.Memory = nil
	}
	if o.FlashBatch == 0 {
		o.FlashBatch = 8
	}
	return o
}

// wholeTimeout is of a candidate's whole measurement. What goes before and after it has the same limit, since another
// one would be sent to the device each time.
func (o *Options) wholeTimeout() time.Duration { return 10*o.CallTimeout + o.StepTimeout }

// start makes the kinds and begins to open the places, which end with working.
func (r *Run) start(ctx, working context.Context, desk *device.Desk, boards []string) error {
	var places []*place
	for n, word := range boards {
		p, err := r.newPlace(ctx, desk, word, n)
		if err != nil {
			return err
		}
		places = append(places, p)
	}
	for _, p := range places {
		r.done.Go(func() { p.work(working) })
	}
	return nil
}

// Close ends the run: what is being measured is interrupted, and measured again when the run is opened the next time.
func (r *Run) Close() error {
	r.stop()
	for _, k := range r.kinds {
		k.queue.close()
	}
	r.done.Wait()
	var errs []error
	for _, k := range r.kinds {
		k.building.Lock()
		for _, l := range k.layouts {
			errs = append(errs, l.folder.Close())
		}
		k.building.Unlock()
		errs = append(errs, os.RemoveAll(k.imagesDir()))
	}
	return errors.Join(append(errs, r.store.close())...)
}

func (r *Run) isClosed() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

// whileOpen returns a context that also ends with Close.
func (r *Run) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-r.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Results reads what is finished, in order of finishing, from the run's folder.
func (r *Run) Results() ([]Result, error) { return ReadResults(r.dir) }

// Measure compiles, loads, checks and times one candidate, and returns when its result is in the run's folder. A
// candidate of equal content (kind, files, flags, arguments and record, compiled with the same compiler, flags and
// libraries) that is finished costs nothing: its result is returned. If that was measured under another ID, Same is
// this ID. With Options.Retry, a failure that an earlier run has kept does not count as finished. What goes wrong with
// a candidate is a Failure in its result; one with Retry is not in the folder. An error means that nothing is known of
// the candidate: ctx ended, or there is no board left to measure it on.
func (r *Run) Measure(ctx context.Context, c Candidate) (Result, error) {
	if err := checkID(c.ID); err != nil {
		return Result{}, err
	}
	if c.Entry == "" {
		return Result{}, failure.New(failure.Config, "give the name of its function", "candidate %q has no entry", c.ID)
	}
	k, err := r.kindOf(c)
	if err != nil {
		return Result{}, err
	}
	line, content, err := r.store.describe(k.name, k.made, c)
	if err != nil {
		return Result{}, err
	}
	c.content = content
	r.mu.Lock()
	r.asked[c.ID] = content
	r.mu.Unlock()
	for {
		result, own, ok, err := r.store.find(content)
		if err != nil {
			return Result{}, err
		}
		if ok && r.finished(result, own) {
			if err := r.store.keepCandidate(c.ID, c.content, line); err != nil {
				return Result{}, err
			}
			return r.label(k, c, Result{}, content)
		}
		r.mu.Lock()
		busy, taken := r.working[content]
		if !taken {
			mine := make(chan struct{})
			r.working[content] = mine
			r.mu.Unlock()
			defer func() {
				r.mu.Lock()
				delete(r.working, content)
				r.mu.Unlock()
				close(mine)
			}()
			return r.finish(ctx, k, c, line)
		}
		r.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return Result{}, failure.Stopped(ctx, "measure %s", c.ID)
		}
	}
}

// checkID fails for what can be no candidate's ID.
func checkID(id string) error {
	if id != "" && !strings.HasSuffix(id, inFlash) && utf8.ValidString(id) {
		return nil
	}
	return failure.New(failure.Config, "give the candidate another ID", `%q cannot be a candidate's ID: it is empty, `+
		`not UTF-8, or ends with "%s" as those of Run.Confirm do`, id, inFlash)
}

// finished reports whether a result that this process or an earlier one has written is not to be measured again.
func (r *Run) finished(result Result, own bool) bool {
	return own || result.Failure == nil || !r.o.Retry
}

// label has the candidate's ID stand for its content, which has the finished result of a key, and returns this.
func (r *Run) label(k *kind, c Candidate, of Result, key string) (Result, error) {
	k.stamp(c, &of)
	result, added, err := r.store.share(of, key)
	if err == nil && added {
		r.tell(Event{What: "finished " + c.ID, Result: &result})
	}
	return result, err
}

func (r *Run) kindOf(c Candidate) (*kind, error) {
	if k := r.kinds[c.Kind]; k != nil {
		return k, nil
	}
	if c.Kind == "" && len(r.kinds) == 1 {
		for _, k := range r.kinds {
			return k, nil
		}
	}
	return nil, failure.Errorf(failure.Config, "candidate %s: the run has no board %q", c.ID, c.Kind)
}

// hostTries is how often a candidate is built if the computer is at fault.
const hostTries = 3

// finish measures a candidate that nobody else measures, and keeps the result.
func (r *Run) finish(ctx context.Context, k *kind, c Candidate, line []byte) (result Result, err error) {
	if err := r.store.keepCandidate(c.ID, c.content, line); err != nil {
		return Result{}, err
	}
	crashes := 0
	for range hostTries {
		result, err = k.measure(ctx, c)
		if err != nil || result.ID == c.ID { // it is kept
			return result, err
		}
		if result.Failure == nil || result.Failure.Blame != BlameHost {
			break
		}
		if result.Failure.crashed {
			crashes++
		}
	}
	if crashes == hostTries && k.compiles(ctx) {
		f := result.Failure
		f.Class, f.Blame, f.Retry = failure.Compile, BlameCandidate, false
		f.Message = fmt.Sprintf("the compiler crashes each time, and not for another source: %s", f.Message)
	}
	if result.shares != "" {
		return r.label(k, c, Result{Build: result.Build}, result.shares)
	}
	return r.keep(k, c, result, r.store.add)
}

// compiles reports whether the compiler and the linker work for a source that they have not seen.
func (k *kind) compiles(ctx context.Context) bool {
	end, err := k.run.gate.Work(ctx)
	if err != nil {
		return false
	}
	defer end()
	const entry = "boardsmith_compiles"
	source := fmt.Appendf(nil, "int %s(void) { return 0; } // %d\n", entry, time.Now().UnixNano())
	_, err = k.build(ctx, k.current(), Candidate{Entry: entry, Operators: project.Operators{
		Files: []project.OperatorFile{{Name: "compiles.c", Data: source}},
	}})
	return err == nil
}

// stamp sets what a result has of its candidate.
func (k *kind) stamp(c Candidate, r *Result) {
	r.ID, r.Kind, r.Record, r.Finished = c.ID, k.name, c.Record, time.Now().UTC()
	r.Content, r.Made = c.content, k.made
	if !json.Valid(r.Record) {
		r.Record = nil
	}
}

// keep has a candidate's result written into the run's folder, unless it is a failure that says nothing about the
// candidate.
func (r *Run) keep(k *kind, c Candidate, result Result, write func(Result) error) (Result, error) {
	k.stamp(c, &result)
	if result.Failure != nil && result.Failure.Retry {
		result.elf = nil
		r.tell(Event{Board: result.Board, What: "could not measure " + c.ID, Result: &result})
		return result, nil
	}
	if result.elf != nil {
		k.mu.Lock()
		err := k.programs.keep(result, result.elf)
		k.mu.Unlock()
		if err != nil {
			return Result{}, err
		}
		result.elf = nil
	}
	if err := write(result); err != nil {
		return Result{}, err
	}
	r.tell(Event{Board: result.Board, What: "finished " + c.ID, Result: &result})
	return result, nil
}

// LeaveOut takes the candidates for which gone returns true out of the run's results: those that the caller no longer
// has, or has another version of. If it measures one of them later, that is among the results again.
func (r *Run) LeaveOut(gone func(Candidate) bool) error {
	results, err := r.Results()
	if err != nil {
		return err
	}
	var ids []string
	for _, result := range results {
		if result.Of != "" {
			continue // it goes with its candidate
		}
		c, err := r.store.candidate(result)
		if err != nil {
			return err
		}
		if gone(c) {
			ids = append(ids, result.ID)
		}
	}
	return r.store.leaveOut(ids)
}

func (r *Run) tell(e Event) {
	if r.o.Told != nil {
		r.o.Told(e)
	}
}

// measureBeside builds the candidate for a layout with an arena of at least so many KiB, and waits for a place to
// measure it, or for another one with the same bytes. Its error is a *shortError if the arena is too small.
func (k *kind) measureBeside(ctx context.Context, c Candidate, leastKiB int) (Result, error) {
	if _, err := k.windowOf(ctx, k.current()); err != nil { // until a board has opened
		return Result{}, err
	}
	defer k.begins()()
	began := time.Now()
	l, err := k.prepare(ctx, c, leastKiB)
	built := time.Since(began) - l.paused
	if err != nil {
		if f := buildFailure(err); f != nil && ctx.Err() == nil {
			return Result{Failure: f, Build: built}, nil
		}
		return Result{}, err
	}
	if l.waits() {
		return k.submit(ctx, c, l, built)
	}
	key := twinKey(l, c)
	k.mu.Lock()
	t, known := k.measured[key]
	if !known {
		t = &twin{done: make(chan struct{})}
		k.measured[key] = t
	}
	k.mu.Unlock()
	if known {
		select {
		case <-t.done:
		case <-ctx.Done():
			return Result{}, failure.Stopped(ctx, "measure %s", c.ID)
		}
		if _, _, ok, err := k.run.store.find(t.content); ok || err != nil {
			return Result{shares: t.content, Build: built}, err
		}
		return k.submit(ctx, c, l, built)
	}
	defer close(t.done)
	result, err := k.submit(ctx, c, l, built)
	if err == nil && (result.Failure == nil || !result.Failure.Retry) {
		t.content = c.content
		return result, nil
	}
	k.mu.Lock()
	delete(k.measured, key)
	k.mu.Unlock()
	return result, err
}

// twinKey is of everything that decides what a measurement gives.
func twinKey(l load, c Candidate) [sha256.Size]byte {
	h, p := sha256.New(), l.program
	part(h, p.Bytes)
	_ = binary.Write(h, binary.LittleEndian, []uint64{p.Base, p.Zero, p.Registry})
	part(h, []byte(c.Entry))
	part(h, l.args[:])
	return [sha256.Size]byte(h.Sum(nil))
}

// argsKey is of a candidate's arguments.
func argsKey(args []Arg) [sha256.Size]byte {
	h := sha256.New()
	for _, a := range args {
		part(h, fmt.Append(nil, a.DType, a.Shape, a.RelTol, a.AbsTol, a.Data == nil, a.Want == nil, a.Flash, a.Seed))
		part(h, a.Data)
		part(h, a.Want)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func part(h hash.Hash, b []byte) {
	_ = binary.Write(h, binary.LittleEndian, int64(len(b))) // a hash takes all
	h.Write(b)
}

func (k *kind) build(ctx context.Context, in *layout, c Candidate) (rpc.Program, error) {
	limited, cancel := context.WithTimeout(ctx, k.run.o.BuildTimeout)
	defer cancel()
	p, err := in.linker.Link(limited, c.operators(), in.window)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return p, failure.Errorf(failure.Timeout, "building took longer than %v", k.run.o.BuildTimeout)
	}
	return p, err
}

// submit queues a candidate and waits for its result.
func (k *kind) submit(ctx context.Context, c Candidate, l load, built time.Duration) (Result, error) {
	j := &job{gone: ctx.Done(), candidate: c, load: l, built: built, queued: time.Now(), answer: make(chan answer, 1)}
	if l.waits() {
		k.wait(j)
		defer k.flashed()
	} else if err := k.queue.push(ctx, j); err != nil {
		return Result{}, k.ended(ctx, err)
	}
	return k.wanted(ctx, j)
}

// wanted waits for the result of a job.
func (k *kind) wanted(ctx context.Context, j *job) (Result, error) {
	select {
	case a := <-j.answer:
		return k.answered(ctx, a)
	case <-ctx.Done():
		return Result{}, failure.Stopped(ctx, "measure %s", j.candidate.ID)
	case <-k.run.closed:
		return Result{}, failure.Errorf(failure.Interrupted, "measure %s: the run was closed", j.candidate.ID)
	case <-k.queue.ended:
		select {
		case a := <-j.answer:
			return k.answered(ctx, a)
		default:
			return Result{}, k.ended(ctx, errNoPlace)
		}
	}
}

// answered adds to the answer of a queue that has ended why it has.
func (k *kind) answered(ctx context.Context, a answer) (Result, error) {
	if errors.Is(a.err, errNoPlace) {
		return Result{}, k.ended(ctx, a.err)
	}
	return a.result, a.err
}

// ended says why nothing can be queued any more.
func (k *kind) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "measure")
	}
	if k.run.isClosed() {
		return failure.Errorf(failure.Interrupted, "the run was closed")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost != nil {
		return fmt.Errorf("no board %s is left: %w", k.name, k.lost)
	}
	return err
}

// windowOf is where candidates are linked to lie, once a place has opened.
func (k *kind) windowOf(ctx context.Context, l *layout) (rpc.Window, error) {
	select {
	case <-l.opened:
	case <-ctx.Done():
		return rpc.Window{}, failure.Stopped(ctx, "wait for a board %s", k.name)
	case <-k.run.closed:
		return rpc.Window{}, failure.Errorf(failure.Interrupted, "the run was closed")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.places == 0 {
		return rpc.Window{}, fmt.Errorf("no board %s is left: %w", k.name, k.lost)
	}
	return l.window, nil
}

// All measures candidates as places come free: it draws as many ahead as builders and places need, from a goroutine of
// its own. Results come in order of finishing. It ends with the sequence, or after the first error. It does not wait
// for a sequence that waits: one that may do so ends by itself when ctx does.
func (r *Run) All(ctx context.Context, candidates iter.Seq[Candidate]) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		a := all{run: r, results: make(chan outcome), slots: make(chan struct{}, r.ahead())}
		drawn := make(chan struct{})
		go func() {
			defer close(drawn)
			for c := range candidates {
				if !a.begin(ctx, c) {
					return
				}
			}
		}()
		go func() {
			select {
			case <-drawn:
			case <-ctx.Done():
			}
			a.end()
		}()
		for o := range a.results {
			if !yield(o.result, o.err) || o.err != nil {
				cancel()
				for range a.results {
				}
				return
			}
		}
		if ctx.Err() != nil {
			yield(Result{}, failure.Stopped(ctx, "measure"))
		}
	}
}

// An all is a call of All.
type all struct {
	run     *Run
	results chan outcome
	slots   chan struct{}

	mu      sync.Mutex // no worker begins after ended
	ended   bool
	workers sync.WaitGroup
}

type outcome struct {
	result Result
	err    error
}

// begin measures a candidate once there is a slot; false if there will be none.
func (a *all) begin(ctx context.Context, c Candidate) bool {
	select {
	case a.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.workers.Go(func() {
		defer func() { <-a.slots }()
		result, err := a.run.Measure(ctx, c)
		select {
		case a.results <- outcome{result, err}:
		case <-ctx.Done():
		}
	})
	return true
}

// end waits for what has begun.
func (a *all) end() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.workers.Wait()
	close(a.results)
}

// ahead is how many candidates are in work at once.
func (r *Run) ahead() int {
	n := runtime.NumCPU()
	if r.o.Builder.Jobs > 0 {
		n = r.o.Builder.Jobs
	}
	for _, k := range r.kinds {
		k.mu.Lock()
		n += 2 * k.places
		k.mu.Unlock()
	}
	return n
}

// failureOf makes a failure of an error, for which the computer is to blame if it is a fault of the computer.
func failureOf(err error, blame Blame) *Failure {
	f := &Failure{Class: failure.Of(err), Blame: blame, Message: err.Error()}
	if f.Class == failure.Host || f.Class == failure.ToolMissing {
		f.Blame = BlameHost
	}
	f.Retry = f.Blame != BlameCandidate
	return f
}

// folderOf returns the run's folder for firmware of the kind, and for what belongs to it.
func (k *kind) folderOf(what string) string {
	return filepath.Join(k.run.dir, "firmware", boards.FileName(k.name)+what)
}

// Kinds are the names of the run's kinds of board, sorted.
func (r *Run) Kinds() []string {
	var names []string
	for name := range r.kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
