// Package accept tests a board on the board itself, in the order in which a port is brought up, and writes a page of
// what was found, for the board's author to keep beside the board file.
//
// It builds firmware of its own, whose functions it calls. It neither checks board files (package boards) nor templates
// (package project), and prints nothing.
package accept

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// A Trial is what is tested, and how. Board must be set.
type Trial struct {
	Board    string           // name or file, as in project.Spec
	Template string           // "" means the board's first
	Which    string           // one of several devices, as for Desk.Attach
	Builder  *project.Builder // nil means the zero value
	Desk     *device.Desk     // likewise
	Log      hclog.Logger     // nil: no log
	Short    bool             // fewer repetitions: Step.Short of them
	// Done is called after each step that did not fail; nil: not called
	Done func(Result)
}

// A Step is one of the tests.
type Step struct {
	Name string
	Doc  string // what is tested
	Look string // what to look at if it fails
}

// A Result is what a step found.
type Result struct {
	Step
	Details []string // in a few words each, with what was measured
	Skipped string   // why nothing was tested; "" if something was
}

// An Error is the step at which a board failed.
type Error struct {
	Board string
	Step  Step
	Err   error
}

func (e *Error) Error() string {
	return fmt.Sprintf("board %s: step %s: %v", e.Board, e.Step.Name, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// FailureClass returns that of Err.
func (e *Error) FailureClass() failure.Class { return failure.Of(e.Err) }

// NextStep returns what to look at. If what failed does not lie in the board, it is Err's own advice.
func (e *Error) NextStep() string {
	switch failure.Of(e.Err) {
	case failure.ToolMissing, failure.ProbeMissing, failure.Compile, failure.Link:
		return ""
	}

	// The link's own advice is the board's start; bytes that arrive show that it has started.
	var silent *transport.HandshakeError
	if errors.As(e.Err, &silent) && silent.Received > 0 && silent.Changed == "" {
		return bytesArrive
	}

	return e.Step.Look
}

const bytesArrive = "bytes arrive from the board, so its UART sends: look at the receive interrupt (UART_IRQ), the " +
	"receive pin and, if frames are damaged, the rate (chip_uart_hz); docs/board.md, Troubleshooting"

// Steps lists the steps in their order.
func Steps() (list []Step) {
	for _, s := range steps {
		list = append(list, s.Step)
	}
	return list
}

// Run builds the firmware, writes it to the device, and takes the steps until one fails. The report has the results
// until then, also with an error. Errors: *Error for a failed step; those of project and of Desk.Attach.
func Run(ctx context.Context, t Trial) (*Report, error) { return runSteps(ctx, t, steps) }

func runSteps(ctx context.Context, t Trial, list []step) (*Report, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "acceptance of board %s", t.Board)
	}

	home, err := scratch.Make("boardsmith-accept-")
	if err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	defer home.Remove()

	r := &run{Trial: t, home: home.Dir}
	defer r.end()

	if r.Builder == nil {
		r.Builder = &project.Builder{}
	}
	if r.Desk == nil {
		r.Desk = &device.Desk{}
	}
	if r.Log == nil {
		r.Log = hclog.NewNullLogger()
	}

	return r.all(ctx, list)
}

// A run is one call of Run.
type run struct {
	Trial
	home      string // a temporary folder
	board     *boards.Board
	partial   bool           // the board file is completed by the build
	images    []*image.Image // which differ in accept_variant
	projects  []*project.Project
	device    *device.Device
	session   *rpc.Session            // nil: none
	functions map[string]rpc.Function // of the session, by name
	platform  rpc.Platform            // of the last session's start
	report    *Report
}

func (r *run) all(ctx context.Context, list []step) (*Report, error) {
	file, err := boards.Find(r.Board, r.Builder.Path)
	if err != nil {
		return nil, err
	}

	// An operating system's board is complete only after a build, so the firmware precedes the device.
	first, err := r.build(ctx, 0)
	if err != nil {
		return nil, err
	}

	r.board, r.partial = r.projects[0].Board(), file.Partial
	r.report = newReport(file, r.projects[0].Template(), first, r.Short)

	if r.device, err = r.Desk.Attach(ctx, r.board, r.Which); err != nil {
		return nil, err
	}

	for _, s := range list {
		result := Result{Step: s.Step}
		err := s.test(r, ctx, &result)
		if ctx.Err() != nil {
			return r.report, failure.Stopped(ctx, "acceptance of board %s: step %s", r.board.Name, s.Name)
		}

		if err != nil {
			failed := &Error{r.board.Name, s.Step, err}
			r.report.Failed = failed
			return r.report, failed
		}

		r.report.Results = append(r.report.Results, result)
		if r.Done != nil {
			r.Done(result)
		}
	}

	return r.report, nil
}

// build builds the firmware with a number for accept_variant, unless it was built.
func (r *run) build(ctx context.Context, variant int) (*image.Image, error) {
	for len(r.images) <= variant {
		a, err := firmware(len(r.images))
		if err != nil {
			return nil, err
		}

		i, err := r.buildModel(ctx, a)
		if err != nil {
			return nil, err
		}

		r.images = append(r.images, i)
	}

	return r.images[variant], nil
}

// buildModel builds a project of an archive.
func (r *run) buildModel(ctx context.Context, a *mlf.Archive) (*image.Image, error) {
	p, err := r.Builder.Generate(ctx, fmt.Sprintf("%s/%d", r.home, len(r.projects)), project.Spec{
		Board: r.Board, Template: r.Template, Archive: a,
	})
	if err != nil {
		return nil, err
	}

	// A project holds the lock on its folder, also if its build fails: end closes it.
	r.projects = append(r.projects, p)
	return p.Build(ctx)
}

const closeWithin = 2 * time.Second

// end releases everything. A session of a board that failed may not answer.
func (r *run) end() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()

	err := r.close(ctx)
	if r.device != nil {
		err = errors.Join(err, r.device.Close())
	}

	for _, p := range r.projects {
		err = errors.Join(err, p.Close())
	}

	if err != nil && r.Log != nil {
		r.Log.Debug("end of acceptance", "error", err)
	}
}

// close ends the current session.
func (r *run) close(ctx context.Context) error {
	if r.session == nil {
		return nil
	}

	s := r.session
	// The functions' handles belong to the session.
	r.session, r.functions = nil, nil

	return s.Close(ctx)
}

// call calls a function of the firmware in the current session.
func (r *run) call(ctx context.Context, name string, args ...any) (int64, error) {
	f, cached := r.functions[name]
	if !cached {
		lib, err := r.session.SystemLib(ctx)
		if err != nil {
			return 0, err
		}
		if f, err = lib.Function(ctx, name); err != nil {
			return 0, err
		}
		if r.functions == nil {
			r.functions = map[string]rpc.Function{}
		}
		r.functions[name] = f
	}

	value, err := f.Call(ctx, args...)
	if err != nil {
		r.functions = nil // they end with a reset of the device
		return 0, err
	}

	n, ok := value.(int64)
	if !ok {
		return 0, failure.Errorf(failure.WrongAnswer, "%s returned a %T", name, value)
	}

	return n, nil
}

// answers checks that the firmware computes.
func (r *run) answers(ctx context.Context) error {
	const sent = 1234567
	n, err := r.call(ctx, "accept_twice", sent)
	if err == nil && n != 2*sent {
		err = failure.Errorf(failure.WrongAnswer, "accept_twice(%d) returned %d", sent, n)
	}
	return err
}
