// This file reads the options of the methods.

package projectapi

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/project"
)

// The options of a folder's methods, by their names in the protocol. A name of TVM's own templates means the same here.
// All other options of generate_project are those of boards.Options.
const (
	optVerbose   = "verbose"
	optType      = "project_type"
	optBoard     = "board"
	optWorkspace = "workspace_size_bytes"   // bytes; arena_kib
	optStack     = "config_main_stack_size" // bytes; stack_bytes
	optDefines   = "compile_definitions"    // words such as -DX=1, for the model's C files; operator_flags
	optSerial    = "serial_number"
	optProgram   = "programmer"
	optReflash   = "reflash"
	optRuntime   = "crt"              // bundled, or a folder
	optZephyr    = "zephyr_base"      // Zephyr's tree
	optWest      = "west_cmd"         // a program, or the Python of one
	optModel     = "model_name"       // of an archive with several
	optWarnings  = "warning_as_error" // of TVM's templates; warnings about the model's C are off
)

// optPacket is the option of boards.Options that holdGraph chooses.
const optPacket = "packet_bytes"

// bundled is the default of optRuntime: the runtime that the server contains.
const bundled = "bundled"

// hostDriven is the only project_type: firmware that executes what the host sends.
const hostDriven = "host_driven"

const west = "west"

var (
	atGenerate  = []string{"generate_project"}
	onTheDevice = []string{"flash", "open_transport"}
	atEachStep  = []string{"generate_project", "build", "flash", "open_transport"}
)

// optionsOf describes the options of a template for a board. Defaults that a board has are null, because clients send
// defaults back, also for another board.
func optionsOf(b *boards.Board, names []string) []option {
	options := []option{
		{Name: optVerbose, Type: "bool", Default: false, Optional: atEachStep, Help: "Log each step and command"},
		{
			Name: optType, Type: "str", Choices: []string{hostDriven}, Default: hostDriven, Optional: atGenerate,
			Help: "What the firmware does: " + hostDriven + " executes what the host sends",
		},
		{
			Name: optBoard, Type: "str", Choices: names, Default: b.Name, Optional: atGenerate,
			Help: "Board that the firmware is for",
		},
		{
			Name: optWorkspace, Type: "int", Optional: atGenerate,
			Help: fmt.Sprintf("Bytes of memory for tensors and the runtime; %s has %d", b.Name, b.ArenaKiB<<10),
		},
		{Name: optStack, Type: "int", Optional: atGenerate, Help: "Bytes of stack"},
		{
			Name: optDefines, Type: "str", Optional: atGenerate,
			Help: "Flags -DNAME=VALUE for the C files of the model, as a list, or separated by blanks or commas",
		},
		{Name: optModel, Type: "str", Optional: atGenerate, Help: "Which model of an archive with several"},
		{
			Name: optWarnings, Type: "bool", Optional: atGenerate,
			Help: "No effect: the compiler does not warn about the model's C",
		},
		{
			Name: optSerial, Type: "str", Optional: onTheDevice,
			Help: "Which of several devices: serial of its probe, USB path, serial port, or name in desk.json",
		},
		{
			Name: optProgram, Type: "str", Choices: boards.Programmers(), Optional: onTheDevice,
			Help: "Programmer instead of the board's",
		},
		{
			Name: optReflash, Type: "bool", Default: false, Optional: []string{"flash"},
			Help: "Write whole images, whatever the device holds",
		},
		{
			Name: optRuntime, Type: "str", Default: bundled, Optional: atGenerate,
			Help: "The C runtime: " + bundled + ", or a folder laid out as the folder crt of a project",
		},
		{
			Name: optZephyr, Type: "str", Optional: atEachStep,
			Help: "Zephyr's tree; else $ZEPHYR_BASE, or where the template searches for it",
		},
		{
			Name: optWest, Type: "str", Optional: atEachStep,
			Help: "The program west, or PYTHON -m west; else the one on PATH, or where the template searches for it",
		},
	}
	return append(options, optionsOfBoard(b)...)
}

// optionsOfBoard describes the board's options that clients can set.
func optionsOfBoard(b *boards.Board) (options []option) {
	for _, o := range b.Options() {
		if !slices.Contains(boardOptions, o.Name) {
			continue
		}
		// Values of other types are texts in the protocol.
		kind := map[string]string{"int": "int"}[o.Type]
		if kind == "" {
			kind = "str"
		}

		help := o.Help
		if o.Unit != "" {
			help += ", in " + o.Unit
		}
		if o.Default != "" {
			help += "; " + b.Name + " has " + o.Default
		}

		options = append(options, option{
			Name: o.Name, Type: kind, Choices: o.Choices, Optional: atGenerate, Help: help,
		})
	}
	return options
}

// specOf returns what generate_project is to make: the board, or the folder's, and the options that have a value.
func specOf(v values, folderBoard string) (s project.Spec, err error) {
	kind, err := v.Text(optType)
	if err != nil {
		return s, err
	}
	if kind != "" && kind != hostDriven {
		return s, failure.Errorf(failure.Config, "option %s: %q is not %s", optType, kind, hostDriven)
	}

	if s.Board, err = v.Text(optBoard); err != nil {
		return s, err
	}
	if s.Board == "" {
		s.Board = folderBoard
	}
	if s.Runtime, err = v.Text(optRuntime); err != nil {
		return s, err
	}
	if s.Runtime == bundled {
		s.Runtime = ""
	}
	if s.ModelName, err = v.Text(optModel); err != nil {
		return s, err
	}

	words, err := optionWords(v)
	if err != nil {
		return s, err
	}
	s.Options, err = boards.ParseOptions(words)
	return s, err
}

// westOf returns the path of west for a value of TVM's option: a path or a name, or the command of a Python that has it
// as a module, beside which pip puts the program.
func westOf(value string) (string, error) {
	program, python := strings.CutSuffix(value, " -m "+west)
	if !python && filepath.Base(program) != west || strings.HasPrefix(program, west+" ") {
		return "", failure.Errorf(failure.Config, "option %s: %q is neither a path of the program %s nor PYTHON -m %s",
			optWest, value, west, west)
	}

	path, err := command.Find(program, "")
	if err != nil {
		return "", fmt.Errorf("option %s: %w", optWest, err)
	}
	if python {
		if path, err = command.Find(filepath.Join(filepath.Dir(path), west), "pip install "+west); err != nil {
			return "", fmt.Errorf("option %s: %w", optWest, err)
		}
	}
	return path, nil
}

// optionWords returns the values of boards.Options as name=value, with those of TVM's names.
func optionWords(v values) (words []string, err error) {
	for _, name := range boardOptions {
		s, err := v.Text(name)
		if err != nil {
			return nil, err
		}
		if s != "" {
			words = append(words, name+"="+s)
		}
	}

	for _, theirs := range []struct {
		name, ours string
		unit       int
	}{{optWorkspace, "arena_kib", 1024}, {optStack, "stack_bytes", 1}} {
		n, err := v.Int(theirs.name)
		switch {
		case err != nil:
			return nil, err
		case n < 0:
			return nil, v.invalid(theirs.name, "a number of bytes")
		case n == 0: // TVM's templates take it for their default
		case v.given(theirs.ours):
			return nil, failure.Errorf(failure.Config, "options %s and %s exclude each other", theirs.name, theirs.ours)
		default:
			// rounded up: the user asked for at least these bytes
			words = append(words, fmt.Sprintf("%s=%d", theirs.ours, (n+theirs.unit-1)/theirs.unit))
		}
	}

	flags, err := v.Words(optDefines)
	if err != nil {
		return nil, err
	}
	if len(flags) > 0 {
		if i := slices.IndexFunc(flags, func(f string) bool { return !strings.HasPrefix(f, "-D") }); i >= 0 {
			return nil, failure.Errorf(failure.Config, "option %s: %s does not begin with -D", optDefines, flags[i])
		}
		if v.given("operator_flags") {
			return nil, failure.Errorf(failure.Config, "options %s and operator_flags exclude each other", optDefines)
		}
		words = append(words, "operator_flags="+strings.Join(flags, ","))
	}
	return words, nil
}

// boardOptions are the names of boards.Options, without app: TVM's hosts talk to firmware with an RPC server.
var boardOptions = func() (names []string) {
	for _, o := range new(boards.Board).Options() {
		if o.Name != "app" {
			names = append(names, o.Name)
		}
	}
	return names
}()

// advice returns what a client prints below the message of an error: the next step, with the protocol's names of
// options, and the end of a tool's output; the error's class if there is neither.
func advice(err error) string {
	text := failure.NextFor(err, func(name, value string) string {
		switch name {
		case "Desk.Programmer":
			name = optProgram
		case "Desk.Reflash":
			name = optReflash
		case "Spec.Board":
			name = optBoard
		case "Spec.ModelName":
			name = optModel
		case "Desk.Wait":
			return "a later call"
		case "Spec.Options":
			return value
		case "which":
			name = optSerial
		}
		if value == "" {
			return name
		}
		return name + "=" + value
	}, func(target string) string { return "mage " + target })

	var tool *project.ToolError
	if errors.As(err, &tool) && tool.Message != "" {
		text += "\n" + strings.TrimRight(string(tool.Tail), "\n")
	}
	if text == "" {
		text = "class: " + string(failure.Of(err))
	}
	return strings.TrimPrefix(text, "\n")
}
