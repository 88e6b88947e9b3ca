// This file loads models and operators into the RAM of a device, beside firmware that stays.

package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/rpc"
)

// ModelOperators returns the code of the project's model, for the RAM of a device: its sources, objects and headers,
// those of the C interface with what makes them callable, and as Entries the functions of its system library.
func (p *Project) ModelOperators() (Operators, error) {
	_, m, err := p.Model()
	if err != nil {
		return Operators{}, err
	}
	var o Operators
	for _, f := range slices.Concat(m.Sources, m.Objects, m.Headers) {
		o.Files = append(o.Files, OperatorFile{path.Base(f.Name), f.Data})
	}
	c, err := adapter(m)
	if err != nil {
		return Operators{}, err
	}
	o.Entries = m.Functions
	if c != nil {
		o.Files = append(o.Files, OperatorFile{path.Base(adapterFile), c})
		o.Entries = nil
		for _, function := range []string{"run", "get_c_metadata"} {
			o.Entries = append(o.Entries, m.Prefix()+"_"+function+"="+m.Header.Adapter(function))
		}
	}
	return o, nil
}

// Resident generates, in a folder of its own, firmware for the project's board that has room in RAM for the project's
// model instead of holding it, and builds it. The caller closes it. If the board has not enough RAM, it returns a
// *FitError with the bytes that are missing. Further errors: those of Generate, Build and OperatorLinker.
func (p *Project) Resident(ctx context.Context, dir string) (*Project, error) {
	o, err := p.ModelOperators()
	if err != nil {
		return nil, err
	}
	blank, err := BlankArchive()
	if err != nil {
		return nil, err
	}
	b := p.Board()
	s := Spec{Board: p.state.Board.Name, Template: p.state.Template.Name, Archive: blank, Options: p.state.Options}
	region, mapped := b.Region(b.Place.UploadRegion())
	l, err := p.OperatorLinker(ctx)
	if err != nil {
		return nil, err
	}
	// Linked for a window without end, the model shows how large one it needs.
	program, err := l.Link(ctx, o, rpc.Window{Base: max(uint64(region.Origin), hypothetical), Bytes: 1 << 40})
	if err != nil {
		return nil, err
	}
	need := uint64(len(program.Bytes)) + program.Zero
	s.Options.UploadKiB = roundUp(need)
	if s.Options, err = MakeRoom(b, s.Options); err != nil && mapped {
		have, all := int64(region.Size), int64(s.Options.UploadKiB)*1024
		if region.Origin == 0 {
			all *= 2 // as boards checks
		}
		if b.Place.StackRegion() == region.Name {
			all += int64(cmp.Or(s.Options.StackBytes, b.StackBytes))
		}
		if b.Place.ArenaRegion() == region.Name {
			all += int64(s.Options.ArenaKiB) * 1024
		}
		if all <= have {
			return nil, err
		}
		return nil, &fit.Error{
			Board: b.Name, What: fmt.Sprintf("RAM region %q, for a model of %d bytes,", region.Name, need),
			Over: all - have, Need: all, Have: have,
		}
	}
	r, err := p.builder.Generate(ctx, dir, s)
	if err != nil {
		return nil, err
	}
	if _, err := r.Build(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// hypothetical is where code is linked whose size is asked for.
const hypothetical = 0x40000000

// LoadRAM compiles operators, loads them into RAM beside the project's firmware, which runs at the other end of the
// session, and links them. The module is to be freed by Unlink. A *FitError says how many bytes of the window are
// missing.
func (p *Project) LoadRAM(ctx context.Context, s *rpc.Session, o Operators) (rpc.Module, error) {
	l, err := p.OperatorLinker(ctx)
	if err != nil {
		return rpc.Module{}, err
	}
	windows, err := s.Windows(ctx)
	if err != nil {
		return rpc.Module{}, err
	}
	if len(windows) == 0 {
		return rpc.Module{}, failure.New(failure.DoesNotFit, "unlink a module", "no RAM for code is free")
	}
	largest := slices.MaxFunc(windows, func(a, b rpc.Window) int { return int(int64(a.Bytes) - int64(b.Bytes)) })
	program, err := l.Link(ctx, o, largest)
	if err != nil {
		return rpc.Module{}, err
	}
	return s.Upload(ctx, program)
}

// leastArenaKiB is enough for a session and small arguments.
const leastArenaKiB = 2

// MakeRoom lowers the arena of options for a board as far as their window for code needs; an arena that was asked for
// stays. Its error is of class does-not-fit if there is no room for the window.
func MakeRoom(b *boards.Board, o boards.Options) (boards.Options, error) {
	region, mapped := b.Region(b.Place.UploadRegion())
	if o.ArenaKiB == 0 && mapped && b.Place.ArenaRegion() == region.Name {
		// The window and its alignment come out of what the arena had.
		if room := int(region.Size)/1024 - 2*o.UploadKiB - b.StackBytes/1024 - 8; b.ArenaKiB > room {
			o.ArenaKiB = max(room, leastArenaKiB)
		}
	}
	_, err := b.Settle(o)
	return o, err
}
