// This file has the inputs of APP=library, which makes no project.

package inputs

import (
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
)

// completeLibrary sets the options of a library. A variable of firmware that the user set is an error. Fields of
// boardsmith.json for firmware are for other runs, and have no effect.
func (in *Inputs) completeLibrary(user Variables) error {
	for _, x := range [][2]string{
		{"TEMPLATE", user.Template}, {"FIXED_INPUT", user.FixedInput}, {"PLACE", user.Place},
	} {
		if x[1] != "" {
			return failure.New(failure.Config, "leave "+x[0]+" out, or choose another APP",
				"%s=%s is for firmware, but APP=%s makes none", x[0], x[1], Library)
		}
	}

	if user.Options == nil {
		in.Options = boards.Options{OperatorOpt: in.Options.OperatorOpt, OperatorFlags: in.Options.OperatorFlags}
	}
	return nil
}

// checkParams returns an error if PARAMS moves the parameters of firmware, which only a library's can.
func (in *Inputs) checkParams() error {
	if in.Params == "" || in.Params == "flash" {
		return nil
	}
	return failure.New(failure.Config, "leave PARAMS out, or make a library with APP="+Library,
		"PARAMS=%s is for libraries: the parameters of standalone firmware are in flash, a host sends the others", in.Params)
}

// RAMParameters reports which of the models have their parameters in RAM. params is PARAMS: ram or flash for all of
// them, or NAME=ram or NAME=flash, separated by commas; those of other models are in flash. Errors have class config.
func RAMParameters(params string, models []string) (map[string]bool, error) {
	inRAM := map[string]bool{}
	if params == "" || params == "flash" {
		return inRAM, nil
	}

	if params == "ram" {
		for _, model := range models {
			inRAM[model] = true
		}
		return inRAM, nil
	}

	for word := range strings.SplitSeq(params, ",") {
		name, memory, each := strings.Cut(strings.TrimSpace(word), "=")
		_, twice := inRAM[name]
		switch {
		case !each && word == params:
			return nil, failure.New(failure.Config, "leave PARAMS out for parameters in flash",
				"PARAMS=%s is neither flash nor ram", params)
		case !each:
			return nil, failure.New(failure.Config, "set PARAMS=ram for all models, or NAME=ram for each of "+
				strings.Join(models, ", "), "PARAMS=%s: %q names no model", params, word)
		case !slices.Contains(models, name):
			return nil, failure.New(failure.Config, "the models are "+strings.Join(models, ", "),
				"PARAMS=%s: there is no model %s", params, name)
		case twice:
			return nil, failure.New(failure.Config, "name each model once", "PARAMS=%s names model %s twice", params, name)
		case memory != "flash" && memory != "ram":
			return nil, failure.New(failure.Config, "set "+name+"=flash or "+name+"=ram",
				"PARAMS=%s: %q of model %s is neither flash nor ram", params, memory, name)
		}

		inRAM[name] = memory == "ram"
	}

	return inRAM, nil
}
