// This file makes firmware that stays on a device, and loads models and operators into the RAM beside it.

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
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/ramlink"
	"github.com/boardsmith/boardsmith/rpc"
)

// ModelOperators returns the code of the project's model, for the RAM of a device: its sources, objects and headers,
// those of the C interface with what makes them callable, and as Entries the functions of its system library.
func (p *Project) ModelOperators() (Operators, error) {
	_, m, err := p.Model()
	if err != nil {
		return Operators{}, err
	}
	o := ramlink.CodeOf(m)
	c, err := generator.Adapter(nil, m)
	if err != nil {
		return Operators{}, err
	}

	o.Entries, o.Signatures = m.Functions, m.Signatures()
	if c != nil {
		o.Files = append(o.Files, mlf.File{Name: path.Base(generator.AdapterFile), Data: c})

		// The names are the model's, the functions are the adapter's.
		o.Entries = nil
		for _, function := range []string{"run", "get_c_metadata"} {
			o.Entries = append(o.Entries, m.Prefix()+"_"+function+"="+m.Header.Adapter(function))
		}
	}

	return o, nil
}

// Resident generates, in a folder of its own, firmware for the project's board that has room in RAM for the project's
// model instead of holding it, and builds it. Its arena, stack and packet buffer are where the project places them.
// Board and Template of from say where these are, as for Generate; zero fields mean those that the project records.
// Other fields have no effect. The caller closes the returned project. If the board has not enough RAM,
// Resident returns a *FitError with the bytes that are missing. Further errors: those of
// boards.Options.CheckLoadedPlace, Generate, Build and OperatorLinker.
func (p *Project) Resident(ctx context.Context, dir string, from Spec) (*Project, error) {
	if err := p.state.Options.CheckLoadedPlace(); err != nil {
		return nil, err
	}
	o, err := p.ModelOperators()
	if err != nil {
		return nil, err
	}

	blank, err := Operators{}.Archive()
	if err != nil {
		return nil, err
	}

	b := p.Board()
	s := Spec{
		Board: cmp.Or(from.Board, p.BoardFrom()), Template: cmp.Or(from.Template, p.TemplateFrom()), Archive: blank,
		Options: p.state.Options, Libraries: p.libraryCopies(),
	}

	region, mapped := b.Region(b.Place.UploadRegion())
	need, err := p.sizeInRAM(ctx, dir, s, o, max(uint64(region.Origin), hypothetical))
	if err != nil {
		return nil, err
	}

	s.Options.UploadKiB = ramlink.RoundUp(need)
	if s.Options, err = lowerArena(b, s.Options); err != nil && mapped {
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

		// The region is large enough, so the options have another fault.
		if all <= have {
			return nil, err
		}
		return nil, &fit.Error{
			Board: b.Name, Part: fmt.Sprintf("RAM region %q, for a model of %d bytes,", region.Name, need),
			Over: all - have, Need: all, Have: have,
		}
	}

	return p.builder.generatedAndBuilt(ctx, dir, s)
}

// generatedAndBuilt returns a project with an image. The caller closes it.
func (b *Builder) generatedAndBuilt(ctx context.Context, dir string, s Spec) (*Project, error) {
	r, err := b.Generate(ctx, dir, s)
	if err != nil {
		return nil, err
	}
	if _, err := r.Build(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// sizeInRAM returns how large a window the operators need: they are linked for one without end. Libraries are compiled
// before, in a project in dir.
func (p *Project) sizeInRAM(ctx context.Context, dir string, s Spec, o Operators, at uint64) (_ uint64, err error) {
	with := p
	if len(p.state.Libraries) > 0 {
		// This build is only for the libraries: the size of the window is not known yet.
		s.Options.UploadKiB = 0
		if with, err = p.builder.generatedAndBuilt(ctx, dir, s); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, with.Close()) }()
	}

	l, err := with.OperatorLinker(ctx)
	if err != nil {
		return 0, err
	}

	program, err := l.Link(ctx, o, rpc.Window{Base: at, Bytes: 1 << 40})
	return uint64(len(program.Bytes)) + program.Zero, err
}

// hypothetical is where code is linked whose size is asked for.
const hypothetical = 0x40000000

// LoadRAM compiles operators, loads them into RAM beside the project's firmware, which runs at the other end of the
// session, and links them. The module is to be freed by Unlink. A *FitError has the number of bytes that the window
// lacks.
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

// lowerArena lowers the arena of options for a board as far as their window for code needs; an arena that was asked for
// stays. Its error is of class does-not-fit if there is no room for the window.
func lowerArena(b *boards.Board, o boards.Options) (boards.Options, error) {
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
