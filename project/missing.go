// This file explains errors of the linker by the project's sources.

package project

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// missingSystem is buildenv.ExplainSymbol for the project's image. dir is where the build ran.
func (p *Project) missingSystem(err error, dir string) error {
	folder := filepath.Join(dir, filepath.FromSlash(p.state.Template.BuildFolder()))
	return buildenv.ExplainSymbol(err, os.DirFS(folder), p.sourceOf)
}

// sourceOf returns the only source of an object's name, else the object.
func (p *Project) sourceOf(object string) string {
	stem := path.Base(filepath.ToSlash(object))
	stem = strings.TrimSuffix(stem, path.Ext(stem)) // make's, or with the source's ending CMake's
	var sources []string
	for name := range p.state.Files {
		base := path.Base(name)
		if workdir.IsSource(name) && (base == stem || strings.TrimSuffix(base, path.Ext(base)) == stem) {
			sources = append(sources, name)
		}
	}

	// Sources in different folders may have one name.
	if len(sources) != 1 {
		return object
	}
	return sources[0]
}

// hasSource reports whether a folder has the model's source of an object: objects of former models stay there.
func (p *Project) hasSource(dir, object string) bool {
	stem, _, _ := strings.Cut(path.Base(filepath.ToSlash(object)), ".")
	_, err := os.Stat(filepath.Join(dir, p.folders().OfModel(), "codegen", "host", "src", stem+".c"))
	return err == nil
}
