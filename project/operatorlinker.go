// This file links operators for the RAM of a device that runs the project's firmware.

package project

import (
	"context"
	"path/filepath"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/ramlink"
)

// Operators are C files and objects that hold packed functions.
type Operators = ramlink.Operators

// An OperatorLinker makes programs for the RAM of devices that run one project's firmware.
type OperatorLinker = ramlink.Linker

// ReadOperators returns the operators of a module that TVM has exported: a tar of C files and objects, gzipped or not,
// or one object. Their ABI is that of the functions they define, their Entries the names with which TVM's clients look
// these up. The module may come from anywhere: errors are of class config for one that is damaged, oversized, or holds
// anything else.
func ReadOperators(module []byte) (Operators, error) { return ramlink.ReadModule(module) }

// OperatorLinker reads from the tools, once, what linking for the RAM of the project's firmware requires. Operators may
// call functions of the project's libraries, which are linked into each program. Errors: *failure.MissingToolError,
// *ToolError; of class config if the template does not support it, or if the project has libraries and was not built.
func (p *Project) OperatorLinker(ctx context.Context) (*OperatorLinker, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "prepare operators")
	}
	if len(p.state.Template.Operators.Compile) == 0 {
		return nil, failure.Errorf(failure.Config, "template %s does not say how operators for RAM are made",
			p.state.Template.Name)
	}

	b := p.Board()
	if b.Toolchain.CC == "" {
		return nil, failure.New(failure.Config, "build the project first", "only the build finds the compiler of board %s",
			b.Name)
	}

	o, err := b.Settle(p.state.Options)
	if err != nil {
		return nil, err
	}
	cc, err := p.env().Program(b.Toolchain.CC, b.Toolchain.Install)
	if err != nil {
		return nil, err
	}

	// The linker may be used after p was closed, so it has these alone.
	builder, dir, libraries := p.builder, p.dir, p.state.Libraries
	s := ramlink.Setting{
		Board: b, Options: o, Template: &p.state.Template.Description, Folder: p.dir, Files: p.state.Files, Compiler: cc,
		Tools: &builder.tools, Jobs: builder.jobs(), Cache: builder.Cache, Log: builder.log(),
		Explain: func(err error) error { return builder.explained(err, nil, dir, libraries) },
	}

	for _, l := range libraries {
		s.Libraries = append(s.Libraries, ramlink.Library{
			Name: l.Name, Folder: filepath.Join(p.dir, generator.Libraries, l.Name), Archive: p.archiveOf(p.dir, l),
		})
	}

	return ramlink.New(ctx, s)
}
