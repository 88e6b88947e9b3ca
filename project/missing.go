// This file explains errors of the linker by the project's sources.

package project

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/internal/buildenv"
	"github.com/boardsmith/boardsmith/internal/workdir"
)

// missingSystem is buildenv.ExplainSymbol for the project's image. dir is where the build ran.
func (p *Project) missingSystem(err error, dir string) error {
	folder := filepath.Join(dir, filepath.FromSlash(p.state.Template.BuildFolder()))
	return buildenv.ExplainSymbol(err, os.DirFS(folder), p.sourceOf)
}

// sourceOf returns the only source of an object's name, else the object.
func (p *Project) sourceOf(object string) string {
	stem := strings.TrimSuffix(path.Base(filepath.ToSlash(object)), ".o")
	var sources []string
	for name := range p.state.Files {
		if workdir.IsSource(name) && strings.TrimSuffix(path.Base(name), path.Ext(name)) == stem {
			sources = append(sources, name)
		}
	}
	if len(sources) != 1 {
		return object
	}
	return sources[0]
}
