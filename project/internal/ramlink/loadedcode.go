// This file selects the code of a model for RAM, and checks the options of firmware that loads it.

package ramlink

import (
	"github.com/boardsmith/boardsmith/mlf"
)

// CodeOf returns the code of a model as operators without entries: sources, objects and headers with the folders of
// their names, so that sources find headers as they do in firmware.
func CodeOf(m *mlf.Model) Operators {
	return Operators{Files: m.Code(), Flags: []string{"-Iinclude"}}
}
