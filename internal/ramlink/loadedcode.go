// This file selects the code of a model for RAM, and checks the options of firmware that loads it.

package ramlink

import (
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
)

// CodeOf returns the code of a model as operators without entries: sources, objects and headers with the folders of
// their names, so that sources find headers as they do in firmware.
func CodeOf(m *mlf.Model) Operators {
	o := Operators{Flags: []string{"-Iinclude"}}
	for _, f := range slices.Concat(m.Sources, m.Objects, m.Headers) {
		o.Files = append(o.Files, File{Name: f.InCode(), Data: f.Data})
	}
	return o
}

// CheckLoadedPlace returns an error of class config if the option Place names parts of the model, which lie in the
// memory for uploaded code if they are loaded into RAM. Arena, stack and packet buffer are the firmware's.
func CheckLoadedPlace(o boards.Options) error {
	parts := o.PlacedOfModel()
	if len(parts) == 0 {
		return nil
	}
	return failure.New(failure.Config, "place only arena, packet and stack; place.upload of the board file names the "+
		"memory of what is loaded", "option place: code that is loaded into RAM lies in the memory for uploaded code, "+
		"with all its data: %s cannot be placed", strings.Join(parts, ", "))
}
