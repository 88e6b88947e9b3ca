// This file finds the option that makes room for what does not fit.

package project

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/mlf"
)

// optionsFit converts the error of options for which a region is too small to a *FitError, and returns other errors
// unchanged.
func optionsFit(b *boards.Board, o boards.Options, err error) error {
	var over interface {
		Overfull() (region string, need, have int64, parts string)
	}
	if !errors.As(err, &over) {
		return err
	}

	e := &FitError{Board: b.Name, Part: "memory", Err: err}
	e.Region, e.Need, e.Have, e.Reason = over.Overfull()
	e.Over = e.Need - e.Have

	arena, stack := int64(cmp.Or(o.ArenaKiB, b.ArenaKiB)), int64(cmp.Or(o.StackBytes, b.StackBytes))
	upload := max(int64(cmp.Or(o.UploadKiB, b.UploadKiB))*1024-e.Over, 0) / 1024

	for _, smaller := range []struct {
		name  string
		value int64
		of    *int
	}{
		{"arena_kib", (arena*1024 - e.Over) / 1024, &o.ArenaKiB},
		{"stack_bytes", stack - e.Over, &o.StackBytes},
		{"upload_kib", (int64(1) << bits.Len64(uint64(upload))) / 2, &o.UploadKiB}, // a power of two
	} {
		// One option is changed at a time.
		old := *smaller.of
		*smaller.of = int(smaller.value)
		if _, err := b.Settle(o); err == nil && smaller.value > 0 {
			e.Option = fmt.Sprintf("%s=%d", smaller.name, smaller.value)
			return e
		}
		*smaller.of = old
	}
	return e
}

// linkFits converts the linker's error that a region is too small to a *FitError, and returns other errors
// unchanged. dir is where the build ran.
func (p *Project) linkFits(err error, dir string, a *mlf.Archive, m *mlf.Model) error {
	var tool *ToolError
	if !errors.As(err, &tool) || tool.Class != failure.DoesNotFit {
		return err
	}

	e := &FitError{Board: p.Board().Name, Part: "memory", Err: err}
	e.Region, e.Over, e.Reason = diagnostics.TooSmall(tool.Message + "\n" + string(tool.Tail))
	if e.Region == "" {
		return err
	}

	for _, r := range p.Board().Memory { // scripts of others write names in capitals, and call a RAM SRAM
		if strings.EqualFold(r.Name, e.Region) || strings.EqualFold("s"+r.Name, e.Region) {
			e.Region = r.Name
		}
	}

	e.Placed = p.Board().Place.PartsIn(e.Region)
	p.makeRoom(e, dir, a, m)
	return e
}

// makeRoom suggests an option that frees the missing bytes, if there is one.
func (p *Project) makeRoom(e *FitError, dir string, a *mlf.Archive, m *mlf.Model) {
	b := p.Board()

	// The build may not have found out about the board, because it refuses an arena that is larger than the RAM.
	isOfArena := len(b.Memory) == 0 && p.state.Options.ArenaKiB > 0 && strings.HasSuffix(strings.ToLower(e.Region), "ram")
	if isOfArena || e.Region == b.Place.ArenaRegion() {
		smaller := int((p.arenaBytes() - e.Over) / 1024)
		need, err := fit.NeedOf(b, a, m, int(p.packetBytes()))
		if smaller >= 1 && (isOfArena || err == nil && need.Holds(int64(smaller)*1024)) {
			p.suggest(e, fmt.Sprintf("arena_kib=%d", smaller), func(o *boards.Options) { o.ArenaKiB = smaller })
			return
		}
	}

	settled, err := b.Settle(p.state.Options)
	isOfCode := e.Region == b.Place.Code || e.Region == b.Place.Operators
	if err == nil && isOfCode && settled.OperatorOpt != "Os" && p.operatorCode(dir) > e.Over {
		p.suggest(e, "operator_opt=Os", func(o *boards.Options) { o.OperatorOpt = "Os" })
	}
}

// operatorCode returns the bytes of machine code in the objects of the model's C files. Optimising for size can save
// fewer, and none of parameters and objects in the archive.
func (p *Project) operatorCode(dir string) (bytes int64) {
	folder := filepath.Join(dir, p.state.Template.BuildFolder(), filepath.FromSlash(p.folders().OfModel()))
	_ = filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		f, failed := elf.Open(path)
		if err != nil || failed != nil {
			return nil // no object
		}
		defer f.Close()

		if !p.hasSource(dir, path) {
			return nil
		}
		for _, s := range f.Sections {
			if s.Flags&elf.SHF_EXECINSTR != 0 {
				bytes += int64(s.Size)
			}
		}
		return nil
	})
	return bytes
}
