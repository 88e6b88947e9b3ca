// This file measures how much of each memory an image takes.

package project

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/templates"
)

// A Usage is how much of a board's memory an image takes, by its parts and by the board's regions.
type (
	Usage     = fit.Usage
	PartUse   = fit.PartUse
	RegionUse = fit.RegionUse
)

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
	if p.takesArena() {
		need, err := fit.NeedOf(p.Board(), a, m, int(p.packetBytes()))
		if err != nil {
			return nil, err
		}
		u.Arena.Need, u.Arena.Sure = need.Bytes, need.Sure
	}
	u.Stack, err = l.Stack(m)
	return u, err
}

// layout opens the image with its map.
func (p *Project) layout(image, mapFile string) (*fit.Layout, error) {
	of := fit.Sources{
		Dir: p.dir, Build: p.state.Template.buildFolder(), Linked: p.state.Template.LinkedIn, Shipped: p.shippedSources(),
		Folders: p.folders(),
		Stacks:  p.state.Template.Landmarks.Stacks, Areas: p.state.Template.Areas, Calls: p.state.Template.Calls,
	}
	for name := range p.state.Files {
		if isSource(name) {
			of.Names = append(of.Names, name)
		}
	}
	slices.Sort(of.Names)
	return fit.Open(image, mapFile, of)
}

// shippedSources returns the sources that equal, byte by byte, those of an embedded template.
func (p *Project) shippedSources() (names []string) {
	own := map[string][]byte{}
	_ = fs.WalkDir(templates.FS, ".", func(name string, _ fs.DirEntry, _ error) error {
		if data, err := fs.ReadFile(templates.FS, name); err == nil {
			own[path.Base(name)] = data
		}
		return nil
	})
	for name := range p.state.Files {
		want, known := own[path.Base(name)]
		if !known || !isSource(name) {
			continue
		}
		have, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(name)))
		if err == nil && bytes.Equal(have, want) {
			names = append(names, name)
		}
	}
	return names
}

// memory returns the board's memory map.
func (p *Project) memory() (all []RegionUse) {
	for _, r := range p.Board().Memory {
		all = append(all, RegionUse{Name: r.Name, Origin: uint64(r.Origin), Size: int64(r.Size)})
	}
	return all
}
