// This file names what determines the speed of code besides the code: compiler, flags and libraries.

package project

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/project/internal/builddir"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// Toolchain names the compiler of the last build, and ends with a digest of its file and target, of all flags except
// the option operator_flags, and of the libraries. Times of code are comparable if the texts are equal. Its error
// is of class config if the project was not built.
func (p *Project) Toolchain() (string, error) {
	if err := p.errIfClosed(); err != nil {
		return "", err
	}
	t, err := workdir.Open(p.dir)
	if err != nil {
		return "", err
	}
	defer t.Close()

	last := builddir.Last(t, &p.state)
	if last == nil {
		return "", failure.New(failure.Config, "build the project first", "%s: only a build finds the compiler", p.dir)
	}

	b := p.Board()
	o, err := b.Settle(p.state.Options)
	if err != nil {
		return "", err
	}

	steps := p.state.Template
	of := cachekey.New("made with v1").Add("cflags", b.CFlags...).Add("ldflags", b.LDFlags...).
		Add("levels", o.RuntimeOpt, o.OperatorOpt).Add("operators", slices.Concat(steps.Operators.Compile,
		steps.Operators.Link)...)
	for _, s := range steps.Compile {
		of.Add("compile", s.Flags...)
	}

	var compiler string
	for _, tool := range last.Tools {
		// Only a compiler has a target.
		if tool.Target != "" && compiler == "" {
			compiler = strings.TrimSpace(tool.Version)
		}

		named := func(of templatefile.Tool) bool { return of.Name == tool.Name } // such as make
		if !slices.ContainsFunc(steps.Tools, named) {
			of.Add("tool", tool.Words()...)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(last.Inputs)) {
		if strings.HasPrefix(name, generator.Libraries+"/") {
			of.Add("library", name, last.Inputs[name])
		}
	}

	key := of.Key()
	return fmt.Sprintf("%s, flags and libraries %x", compiler, key[:4]), nil
}
