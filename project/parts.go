// This file lists what a project's firmware is made of, and by which tools.

package project

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/generator"
	"github.com/boardsmith/boardsmith/internal/spdx"
)

// Kinds of parts.
const (
	PartModel     = "model"     // the archive
	PartModelCode = "code"      // the model's C and objects in the project
	PartRuntime   = "runtime"   // boardsmith's C runtime and headers
	PartTemplate  = "template"  // the template's C: port, start-up, main
	PartGenerated = "generated" // settings that Generate made of the board and the options
	PartBoard     = "board"     // a board's own C, linker script and start-up
	PartLibrary   = "library"   // C that the firmware is linked with
	PartToolchain = "toolchain" // a library that comes with the compiler
	PartTool      = "tool"      // a program that made the firmware
)

// RuntimeName is the name of the part that is boardsmith's runtime.
const RuntimeName = "boardsmith runtime"

// A Part is something that a firmware is made of, or that made it. No field depends on a place in the file system.
type Part struct {
	Kind    string
	Name    string
	Version string // "" if it has none
	SHA256  string // of an archive or a library, else of the names and digests of all its files; "" for a tool
	Licence string // SPDX expression of the identifiers in its files; "" if there are none
	URL     string // "" unless it comes from a git repository
}

// Parts returns what the image of the project's last build is made of, in a fixed order: equal inputs give equal parts.
// Errors: class config if i is not that image.
func (p *Project) Parts(i *image.Image) ([]Part, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	t, err := openTree(p.dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	last := p.lastBuild(t)
	if last == nil || last.Digest != i.Digest {
		return nil, failure.New(failure.Config, "build again", "%v is not the project's last build", i)
	}
	parts := []Part{{Kind: PartModel, Name: p.ArchiveName(), Version: p.ModelName(), SHA256: p.ArchiveDigest()}}
	groups := map[string][]string{}
	for name := range last.Inputs {
		group := p.groupOf(name)
		groups[group] = append(groups[group], name)
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		part, err := p.partOf(t, group, groups[group], last.Inputs)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	for _, tool := range last.Tools {
		parts = append(parts, toolPart(tool))
	}
	slices.SortStableFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(slices.Index(partOrder, a.Kind), slices.Index(partOrder, b.Kind)),
			strings.Compare(a.Name, b.Name))
	})
	return parts, nil
}

var partOrder = []string{
	PartModel, PartModelCode, PartRuntime, PartTemplate, PartGenerated, PartBoard, PartLibrary, PartToolchain,
	PartTool,
}

// groupOf returns the kind of a file's part and, for a library, a slash and its name.
func (p *Project) groupOf(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	switch {
	case p.folders().InModel(name):
		return PartModelCode
	case p.folders().InRuntime(name):
		return PartRuntime
	case first == generator.Libraries:
		of, _, _ := strings.Cut(rest, "/")
		return PartLibrary + "/" + of
	case first == generator.Board:
		return PartBoard
	case slices.Contains(p.state.Template.Generate, name):
		return PartGenerated
	}
	return PartTemplate
}

// partOf returns the part that a group of files is.
func (p *Project) partOf(t *tree, group string, names []string, sums map[string]string) (Part, error) {
	kind, name, _ := strings.Cut(group, "/")
	part := Part{Kind: kind, Name: cmp.Or(name, map[string]string{
		PartModelCode: p.ModelName(), PartRuntime: RuntimeName, PartTemplate: p.state.Template.Name,
		PartGenerated: p.state.Board.Name, PartBoard: p.state.Board.Name,
	}[kind])}
	slices.Sort(names)
	h := sha256.New()
	var licences spdx.Set
	for _, n := range names {
		fmt.Fprintf(h, "%q %s\n", n, sums[n])
		l, err := licenceOf(t, n)
		if err != nil {
			return Part{}, err
		}
		licences.Add(l)
	}
	part.SHA256 = hex.EncodeToString(h.Sum(nil))
	part.Licence = licences.And()
	switch from := p.state.Template.Origin; {
	case kind == PartTemplate && from != nil:
		part.Version, part.URL = from.Commit, from.URL
	case kind == PartLibrary:
		for _, l := range p.state.Libraries {
			if l.Name == name {
				part.Version, part.URL, part.Licence = l.Commit, l.URL, l.Licence
			}
		}
	}
	return part, nil
}

// licenceOf returns the SPDX expression in the first lines of a file, or "".
func licenceOf(t *tree, name string) (string, error) {
	f, err := t.root.Open(filepath.FromSlash(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	return spdx.Of(f)
}

// toolPart returns a tool, or a library of the compiler, which is known by its digest.
func toolPart(t toolState) Part {
	if sum, ok := strings.CutPrefix(t.Version, "SHA-256 "); ok {
		kind := PartTool
		if path.Ext(t.Name) == ".a" || path.Ext(t.Name) == ".o" {
			kind = PartToolchain
		}
		return Part{Kind: kind, Name: t.Name, SHA256: sum}
	}
	return Part{Kind: PartTool, Name: t.Name, Version: t.Version}
}
