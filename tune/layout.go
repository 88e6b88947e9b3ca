// This file divides a board's memory between what is loaded and what it works on.

package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// A layout is one way to divide the memory of a kind's boards, with the firmware that has it. Candidates are linked for
// one layout.
type layout struct {
	kind     *kind
	spec     project.Spec // of its firmware without candidates
	folder   *project.Project
	resident *image.Image // that firmware
	linker   *project.OperatorLinker
	arenaKiB int
	asked    bool // the arena's size is an option of the run

	opened chan struct{} // closed when the first place has opened, or the last one is given up
	window rpc.Window    // for code, from then on; without bytes: there is none, candidates lie in firmware
}

// A shortError is the answer to a job whose candidate needs a larger arena than its layout has.
type shortError struct{ arenaKiB int }

func (e *shortError) Error() string {
	return fmt.Sprintf("an arena of %d KiB is too small", e.arenaKiB)
}

const (
	leastArenaKiB = 2 // is enough for a session and small arguments
	mostArenaKiB  = 1 << 20
	mostUploadKiB = 64 // of a window that nobody has asked for
)

// layoutOptions are the options that a run has for boards.
var layoutOptions = []string{"arena_kib", "upload_kib", "stack_bytes", "place"}

// memory returns the options for a kind of board. Its error is of class config for options that change no memory.
func (o *Options) memory(name string) (boards.Options, error) {
	m, own := o.Memory[name]
	if !own {
		m = o.Memory[""]
	}
	others := slices.DeleteFunc(m.Set(), func(name string) bool { return slices.Contains(layoutOptions, name) })
	if len(others) > 0 {
		return m, failure.New(failure.Config, "candidates are measured with "+strings.Join(layoutOptions, ", ")+" alone",
			"%s: no effect on candidates", strings.Join(others, ", "))
	}
	return m, project.CheckLoadedPlace(m)
}

// checkMemory fails for options that are not for candidates, or of a board that no word names.
func (o *Options) checkMemory(words []string) error {
	var path, list []string
	if o.Builder != nil {
		path = o.Builder.Path
	}
	for _, word := range words {
		name, _, _ := strings.Cut(word, "=")
		if name = boards.NameOf(name, path); !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	for name := range o.Memory {
		if name != "" && !slices.Contains(list, name) {
			return failure.Errorf(failure.Config, "options of board %q, but the run's boards are %s", name,
				strings.Join(list, ", "))
		}
		if _, err := o.memory(name); err != nil {
			return err
		}
	}
	return nil
}

// current is the layout that candidates are built for.
func (k *kind) current() *layout {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.layout
}

// bytesOf is the sum of a candidate's arguments in the arena.
func bytesOf(args []Arg) (sum int64) {
	for _, a := range args {
		if n, err := ndarray.Bytes(a.DType, a.Shape); err == nil && !a.Flash {
			sum += int64(n)
		}
	}
	return sum
}

// layoutFor returns a layout whose arena has at least so many KiB, and as many as the arguments have. If there is none,
// it builds firmware, which the next idle place takes. Errors: those of divide.
func (k *kind) layoutFor(ctx context.Context, args []Arg, least int) (*layout, error) {
	k.building.Lock()
	defer k.building.Unlock()
	now := k.current()
	switch {
	case k.run.isClosed(): // Close has the layouts, or waits for building
		return nil, failure.Errorf(failure.Interrupted, "the run was closed")
	case now.asked && least > now.arenaKiB:
		return nil, failure.Errorf(failure.DoesNotFit, "the option arena_kib of board %s is %d", k.name, now.arenaKiB)
	case now.asked:
		return now, nil
	}
	if least = max(least, int((bytesOf(args)+1023)/1024)); least <= now.arenaKiB {
		return now, nil
	}
	if k.excess != nil && least >= k.excessKiB {
		return nil, k.excess
	}
	k.run.tell(Event{What: fmt.Sprintf("building firmware of %s with an arena of at least %d KiB", k.name, least)})
	if least > mostArenaKiB {
		return nil, failure.Errorf(failure.DoesNotFit, "an arena has at most %d KiB", mostArenaKiB)
	}
	next, err := k.divide(ctx, least, min(2*least, mostArenaKiB))
	if failure.Of(err) == failure.DoesNotFit {
		k.excess, k.excessKiB = err, least // other candidates need as much
	}
	if err != nil {
		return nil, err
	}
	k.use(next)
	k.constants, k.constant = nil, nil
	k.queue.again(&job{opens: true, load: load{layout: next, image: next.resident}})
	return next, nil
}

// measure measures the candidate, beside a larger arena if it needs one.
func (k *kind) measure(ctx context.Context, c Candidate) (Result, error) {
	least := 0
	for {
		result, err := k.measureBeside(ctx, c, least)
		var short *shortError
		if !errors.As(err, &short) {
			return result, err
		}
		least = short.arenaKiB + 1
		if _, err := k.layoutFor(ctx, nil, least); failure.Of(err) == failure.DoesNotFit {
			result.Failure.Message += fmt.Sprintf("; the arena has %d KiB, and cannot have more: %v", short.arenaKiB, err)
			return result, nil
		}
	}
}

// use makes a layout the current one.
func (k *kind) use(l *layout) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.layouts = append(k.layouts, l)
	k.layout = l
	if k.places == 0 && k.lost != nil {
		l.open()
	}
}

// divide builds firmware for a layout with an arena of at least so many KiB, of the board's own size or so many more if
// there is room, and the largest window for code beside it: at most a quarter of its memory, and none if there is no
// other way. What was asked for stays. Errors: those of Generate and Build, of class does-not-fit too.
func (k *kind) divide(ctx context.Context, least, more int) (*layout, error) {
	end, err := k.run.gate.Work(ctx)
	if err != nil {
		return nil, failure.Stopped(ctx, "build firmware")
	}
	defer end()
	ctx, cancel := k.run.whileOpen(ctx)
	defer cancel()
	ctx, expire := context.WithTimeout(ctx, 10*k.run.o.BuildTimeout)
	defer expire()
	o, err := k.run.o.memory(k.name)
	if err != nil {
		return nil, err
	}
	b := k.board.Placed(o)
	windows := []int{o.UploadKiB}
	if o.UploadKiB == 0 {
		windows = windowsOf(b)
	}
	l := &layout{kind: k, spec: k.spec, opened: make(chan struct{})}
	for _, o.UploadKiB = range windows {
		if err = l.fill(ctx, b, o, least, max(b.ArenaKiB, more)); failure.Of(err) != failure.DoesNotFit {
			break
		}
	}
	if err == nil {
		l.linker, err = l.folder.OperatorLinker(ctx)
	}
	if err == nil {
		return l, nil
	}
	if l.folder != nil {
		err = errors.Join(err, l.folder.Close())
	}
	return nil, k.advise(err)
}

// advise returns an error of firmware that does not fit with the option of the run that helps: that of the one kind of
// board.
func (k *kind) advise(err error) error {
	var large *project.FitError
	if !errors.As(err, &large) || large.Option == "" {
		return err
	}
	return failure.New(failure.DoesNotFit, "repeat with "+failure.Option("Options.Memory", k.name+":"+large.Option),
		"%w", err)
}

// windowsOf lists the sizes of a window that a board may have, in KiB, the best one first.
func windowsOf(b *boards.Board) (all []int) {
	first := b.UploadKiB
	region, mapped := b.Region(b.Place.UploadRegion())
	if first == 0 {
		for first = mostUploadKiB; mapped && uint64(first)*1024 > uint64(region.Size)/4; first /= 2 {
		}
	}
	if !mapped {
		return []int{first}
	}
	for ; first > 0; first /= 2 {
		all = append(all, first)
	}
	if b.UploadKiB == 0 {
		all = append(all, 0)
	}
	return all
}

// generate generates the layout's firmware, in a folder of its own.
func (l *layout) generate(ctx context.Context) (err error) {
	if l.folder != nil {
		return l.folder.Generate(ctx, l.spec)
	}
	n := ""
	if len(l.kind.layouts) > 0 {
		n = fmt.Sprintf(".%d", len(l.kind.layouts))
	}
	l.folder, err = l.kind.run.o.Builder.Generate(ctx, l.kind.folderOf(n), l.spec)
	return err
}

// fill builds the layout's firmware with the options, and with the largest arena that fits, from most down to least
// KiB.
func (l *layout) fill(ctx context.Context, b *boards.Board, o boards.Options, least, most int) error {
	l.asked = o.ArenaKiB > 0
	if !l.asked {
		o.ArenaKiB = most
	}
	for {
		l.spec.Options = o
		err := l.generate(ctx)
		if err == nil {
			l.resident, err = l.folder.Build(ctx)
		}
		if err == nil {
			settled, err := l.folder.Board().Settle(o)
			l.arenaKiB = settled.ArenaKiB
			return err
		}
		var large *project.FitError
		if l.asked || !errors.As(err, &large) || large.What != "memory" || large.Region != b.Place.ArenaRegion() {
			return err
		}
		if o.ArenaKiB -= int((large.Over + 1023) / 1024); o.ArenaKiB < max(least, leastArenaKiB) {
			return err
		}
	}
}

// open lets candidates be built for the layout. Its caller holds the kind's mu.
func (l *layout) open() {
	select {
	case <-l.opened:
	default:
		close(l.opened)
	}
}
