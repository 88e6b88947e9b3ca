// This file plans the files of standalone firmware: firmware that runs its model by the embedded C interface.

package project

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/templates"
)

const (
	modelCode   = "codegen/host"           // the folder of compiled code, in the archive's
	samplesFile = templatefile.SamplesFile // the inputs of standalone firmware that are compiled in
)

// Samples returns the inputs that are compiled into standalone firmware; nil if there are none. The C was generated
// from them: an edited file has no effect.
func (p *Project) Samples() ([]ndarray.Named, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	if _, ok := p.state.Files[samplesFile]; !ok {
		return nil, nil
	}
	return ndarray.ReadNPZ(filepath.Join(p.dir, samplesFile))
}

// addShipped plans the app's C.
func (pl *plan) addShipped() error {
	names, err := pl.app.Shipped()
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}

	for name, from := range names {
		to := path.Join(pl.template.Firmware, name)
		pl.files[to] = planned{files: templates.FS, name: from, mode: modeOf(name)}
	}
	return nil
}

// addEmbedded replaces the model's code in folder by that of the embedded C interface: what runs the model, what of the
// archive it calls, and the model's buffers.
func (pl *plan) addEmbedded(folder string) error {
	code, err := cmodel.Generate(pl.archive, pl.model, cmodel.Options{})
	if err != nil {
		return err
	}
	files, err := cmodel.Bundle(code)
	if err != nil {
		return err
	}
	buffers, err := code.Standalone(pl.samples)
	if err != nil {
		return err
	}

	if len(pl.samples) > 0 {
		data, err := ndarray.EncodeNPZ(pl.samples)
		if err != nil {
			return failure.Errorf(failure.Config, "samples: %w", err)
		}
		pl.files[samplesFile] = planned{data: data, mode: 0o644}
	}

	// The archive's own code for RPC was planned here.
	to := path.Join(folder, modelCode)
	for name := range pl.files {
		if strings.HasPrefix(name, to+"/") {
			delete(pl.files, name)
		}
	}

	for _, f := range append(files, mlf.File{Name: "src/" + buffers.Name, Data: buffers.Data}) {
		if isCode(f.Name) {
			pl.files[path.Join(to, f.Name)] = planned{data: f.Data, mode: 0o644}
		}
	}
	return nil
}

// isCode reports whether a file of a bundle is the model's: sources, objects and headers, without the runtime's headers
// and what is for other build systems.
func isCode(name string) bool {
	_, err := fs.Stat(crt.Sources.Runtime, name)
	return strings.Contains(name, "/") && !strings.HasPrefix(name, "zephyr/") && err != nil
}
