// This file selects the code of a model for RAM, and checks the options of firmware that loads it.

package ramlink

import (
	"slices"

	"github.com/boardsmith/boardsmith/mlf"
)

// CodeOf returns the code of a model as operators without entries: sources, objects and headers with the folders of
// their names, so that sources find headers as they do in firmware.
func CodeOf(m *mlf.Model) Operators {
	o := Operators{Flags: []string{"-Iinclude"}}
	for _, f := range slices.Concat(m.Sources, m.Objects, m.Headers) {
		o.Files = append(o.Files, mlf.File{Name: f.InCode(), Data: f.Data})
	}
	return o
}
