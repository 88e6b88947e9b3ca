// This file has the inputs of APP=library, which makes no project.

package inputs

import (
	"cmp"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/console"
)

// completeLibrary sets the inputs of a library that the user did not set. A variable of firmware is an error. What
// boardsmith.json says of firmware is for other runs, and is left out.
func (in *Inputs) completeLibrary(env console.Environ) error {
	for _, name := range []string{"TEMPLATE", "FIXED_INPUT", "PLACE"} {
		if env(name) != "" {
			return failure.New(failure.Config, "leave "+name+" out, or choose another APP",
				"%s=%s is for firmware, but APP=%s makes none", name, env(name), Library)
		}
	}
	in.Board.Value = cmp.Or(in.Board.Value, in.Config.Board, defaultBoard)
	in.Model.Value = cmp.Or(in.Model.Value, in.Config.Model)
	if env("OPTIONS") != "" {
		return nil
	}
	from := in.Usual
	if in.OptionsAsked { // by TARGET
		from = in.Options
	}
	in.Options = boards.Options{OperatorOpt: from.OperatorOpt, OperatorFlags: from.OperatorFlags}
	return nil
}

// LibraryNames returns the libraries that LIBRARIES names.
func LibraryNames(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// checkParams returns an error if PARAMS asks for what standalone firmware does not have.
func (in *Inputs) checkParams(env console.Environ) error {
	params := env("PARAMS")
	if in.Options.App != boards.Standalone || params == "" || params == "flash" {
		return nil
	}
	return failure.New(failure.Config, "leave PARAMS out, or make a library with APP="+Library,
		"PARAMS=%s: the parameters of standalone firmware are in flash", params)
}
