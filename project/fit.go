// This file measures how much of each memory an image takes.

package project

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// A Usage is how much of a board's memory an image takes, by its parts and by the board's regions.
type Usage = fit.Usage

// Usage reads the image and its map. Errors: class config if the build folder holds another image.
func (p *Project) Usage(i *image.Image) (*Usage, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	l, err := p.layout(i.Path, i.Map)
	if err != nil {
		return nil, err
	}
	defer l.Close()

	u := l.Usage(p.memory())
	a, m, err := p.Model()
	if err != nil {
		return nil, err
	}

	u.Arena.Unsure = p.unsureWorkspace(a, m)
	libraries, err := p.unsureLibraries()
	if err != nil {
		return nil, err
	}

	if p.takesArena() {
		need, err := fit.NeedOf(p.Board(), a, m, int(p.packetBytes()))
		if err != nil {
			return nil, err
		}
		u.Arena.Need, u.Arena.Peak, u.Arena.Unsure = need.Bytes, need.Of(p.arenaBytes()), need.Unsure()
	}

	u.Arena.Unsure = append(u.Arena.Unsure, libraries...)
	u.Stack, err = l.Stack(m)
	return u, err
}

// Symbols returns the functions and variables of an image with their sizes, by part and name. Errors: class config if
// the build folder holds another image.
func (p *Project) Symbols(i *image.Image) ([]fit.SymbolUse, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	l, err := p.layout(i.Path, i.Map)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.Symbols(p.memory())
}

// layout opens the image with its map.
func (p *Project) layout(image, mapFile string) (*fit.Layout, error) {
	of := fit.Sources{
		Dir: p.dir, Build: p.state.Template.BuildFolder(), Linked: p.state.Template.LinkedIn, Shipped: p.shippedSources(),
		Folders: p.folders(),
		Stacks:  p.state.Template.Landmarks.Stacks, Areas: p.state.Template.Areas, Calls: p.state.Template.Calls,
	}

	for name := range p.state.Files {
		if workdir.IsSource(name) {
			of.Names = append(of.Names, name)
		}
	}
	slices.Sort(of.Names)
	return fit.Open(image, mapFile, of)
}

// shippedSources returns the sources that equal, byte by byte, those of an embedded template.
func (p *Project) shippedSources() (names []string) {
	for name := range p.state.Files {
		if !workdir.IsSource(name) {
			continue
		}

		have, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(name)))
		if err == nil && templatefile.IsShipped(cachekey.Digest(have)) {
			names = append(names, name)
		}
	}
	return names
}

// memory returns the board's memory map. The region of the code stands for flash, unless variables are there, too.
func (p *Project) memory() (all []fit.RegionUse) {
	place := p.Board().Place
	for _, r := range p.Board().Memory {
		all = append(all, fit.RegionUse{
			Name: r.Name, Origin: uint64(r.Origin), Size: int64(r.Size),
			Flash: r.Nonvolatile || r.Name == place.Code && place.Code != place.Data,
		})
	}
	return all
}

// checkStack returns an error if the firmware's machine code may need more stack than it has. It skips templates
// without that option.
func (p *Project) checkStack() error {
	if !slices.Contains(p.state.Template.Options, "stack_bytes") {
		return nil
	}

	l, err := p.layout(filepath.Join(p.dir, filepath.FromSlash(p.state.Template.ELF)),
		filepath.Join(p.dir, filepath.FromSlash(p.state.Template.Map)))
	if err != nil {
		return err
	}
	defer l.Close()

	_, m, err := p.Model()
	if err != nil {
		return err
	}

	u, err := l.Stack(m)
	if u == nil || err != nil {
		return err
	}

	for _, doubt := range u.Unsure {
		p.builder.log().Debug("the stack may become deeper than computed", "because", doubt)
	}

	e := &FitError{Board: p.Board().Name, Part: "stack", Region: p.Board().Place.StackRegion()}
	switch {
	case u.Need > u.Have:
		const step = 256
		wanted := int((u.Need + step - 1) / step * step)
		e.Need, e.Have, e.Reason = u.Need, u.Have, "the deepest calls: "+strings.Join(u.Path, ", ")
		p.suggest(e, fmt.Sprintf("stack_bytes=%d", wanted), func(o *boards.Options) { o.StackBytes = wanted })
	case u.Handlers > u.Room:
		e.Part, e.Need, e.Have, e.Reason = fit.HandlersStack, u.Handlers, u.Room,
			"an interrupt's deepest calls: "+strings.Join(u.HandlerPath, ", ")
	default:
		return nil
	}

	e.Over = e.Need - e.Have
	return e
}
