// This file builds candidates: linked for the RAM of a layout, or in firmware.

package tune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// build links a job's candidate for RAM, beside an arena of at least minKiB. If the candidate does not fit, the job
// needs firmware.
func (f *firmware) build(ctx context.Context, j *job, minKiB int) error {
	c := j.candidate
	if err := checkCandidate(c); err != nil {
		return err
	}

	l, err := f.layoutFor(ctx, c.Args, minKiB)
	if err != nil {
		return fmt.Errorf("arguments of %d bytes: %w", arenaBytes(c.Args), err)
	}
	return f.buildIn(ctx, l, j)
}

// buildIn is build for a given layout.
func (f *firmware) buildIn(ctx context.Context, in *layout, j *job) (err error) {
	j.layout = in
	if j.image, err = f.withConstants(ctx, j.candidate); err != nil {
		return err
	}

	window, err := f.waitWindow(ctx, in)
	if err != nil {
		return err
	}
	if window.Bytes == 0 && f.o.FlashBatch > 0 {
		j.reason = fmt.Sprintf("beside an arena of %d KiB there is no RAM for code", in.arenaKiB)
		return nil
	}

	// A compiler would disturb measurements on this computer's processors.
	end, err := f.gate.Work(ctx)
	if err != nil {
		return failure.Stopped(ctx, "build %s", j.candidate.ID)
	}
	start := time.Now()
	program, err := f.link(ctx, in, j.candidate.functions(), in.window)
	j.build = time.Since(start)
	end()

	var large *project.FitError
	if errors.As(err, &large) && f.o.FlashBatch > 0 {
		j.reason = fmt.Sprintf("it does not fit into RAM: %d bytes too many for the window of %d bytes", large.Over,
			large.Have)
		return nil
	}

	j.program = &program
	j.reason = fmt.Sprintf("it fits: %d of %d bytes", uint64(len(program.Bytes))+program.Zero, window.Bytes)
	return err
}

// link compiles and links operators for a window beside the firmware of a layout.
func (f *firmware) link(ctx context.Context, in *layout, o project.Operators, w rpc.Window) (rpc.Program, error) {
	limited, cancel := context.WithTimeout(ctx, f.o.BuildTimeout)
	defer cancel()
	p, err := in.linker.Link(limited, o, w)
	// the limit of the build, not that of the caller
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return p, failure.Errorf(failure.Timeout, "building took longer than %v", f.o.BuildTimeout)
	}
	return p, err
}

// compilerWorks reports whether the compiler and the linker succeed for a new source.
func (f *firmware) compilerWorks(ctx context.Context) bool {
	end, err := f.gate.Work(ctx)
	if err != nil {
		return false
	}
	defer end()

	const entry = "boardsmith_compiles"
	// the time makes it a new source, whose object no cache has
	source := fmt.Appendf(nil, "int %s(void) { return 0; } // %d\n", entry, time.Now().UnixNano())
	l := f.current()
	_, err = f.link(ctx, l, project.Operators{
		Files: []mlf.File{{Name: "compiles.c", Data: source}}, Entries: []string{entry},
	}, l.window)
	return err == nil
}

// withConstants returns firmware with the candidate's constants, and with those of earlier candidates as long as they
// fit; nil if the candidate has none.
func (f *firmware) withConstants(ctx context.Context, c Candidate) (*image.Image, error) {
	needed := c.constants()
	if len(needed) == 0 {
		return nil, nil
	}

	f.building.Lock()
	defer f.building.Unlock()
	all := map[string][]byte{}
	maps.Copy(all, f.constants.data)
	maps.Copy(all, needed)
	// earlier firmware has all of them
	if len(all) == len(f.constants.data) {
		return f.constants.image, nil
	}

	i, err := f.buildImage(ctx, archiveOf(nil, all))
	// without those of earlier candidates there may be room
	var large *project.FitError
	if errors.As(err, &large) && len(all) > len(needed) {
		all = needed
		i, err = f.buildImage(ctx, archiveOf(nil, all))
	}
	if err != nil {
		return nil, err
	}

	f.constants = constantsImage{all, i}
	return i, nil
}

// buildBatch builds firmware with several candidates, by the names of their functions, and with their constants. It
// also returns the layout of the firmware.
func (f *firmware) buildBatch(ctx context.Context, candidates map[string]Candidate) (*image.Image, *layout, error) {
	functions, data := map[string]project.Operators{}, map[string][]byte{}
	for name, c := range candidates {
		functions[name] = c.functions()
		maps.Copy(data, c.constants())
	}

	f.building.Lock()
	defer f.building.Unlock()
	i, err := f.buildImage(ctx, archiveOf(functions, data))
	return i, f.current(), err
}

// archiveOf returns a function that compiles operators and constants for buildImage.
func archiveOf(functions map[string]project.Operators, constants map[string][]byte) newArchive {
	return func(ctx context.Context, l *project.OperatorLinker) (*mlf.Archive, error) {
		return l.Archive(ctx, functions, constants)
	}
}

// A newArchive returns what firmware contains, compiled with the linker of its layout.
type newArchive func(context.Context, *project.OperatorLinker) (*mlf.Archive, error)

// buildImage builds firmware of the current layout with an archive. The caller holds f.building.
func (f *firmware) buildImage(ctx context.Context, archive newArchive) (i *image.Image, err error) {
	end, err := f.gate.Work(ctx)
	if err != nil {
		return nil, failure.Stopped(ctx, "build firmware")
	}
	defer end()
	limited, cancel := context.WithTimeout(ctx, f.o.firmwareTimeout())
	defer cancel()

	l := f.current()
	spec := l.spec
	if spec.Archive, err = archive(limited, l.linker); err != nil {
		return nil, err
	}

	p, err := f.o.Builder.Generate(limited, f.path(".flash"), spec)
	if err != nil {
		return nil, err
	}

	if i, err = p.Build(limited); err == nil {
		i, err = f.copyImage(i)
	}
	return i, errors.Join(err, p.Close())
}

// copyImage returns an image with a file of its own: later builds would replace the original, which a place may need
// again. The file exists until the run is closed.
func (f *firmware) copyImage(i *image.Image) (*image.Image, error) {
	data, err := os.ReadFile(i.Path)
	if err != nil {
		return nil, err
	}
	clone := *i
	clone.Path = filepath.Join(f.imagesDir(), i.Digest+".elf")
	return &clone, writeAtomic(clone.Path, data, 0o755)
}
