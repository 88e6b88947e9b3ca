// This file generates compile_commands.json, the flags of each file for editors (clangd).

package project

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
)

const compileDatabase = "compile_commands.json"

// A compileStep describes for editors how a template compiles the files that match a pattern. The build command
// does not use it.
type compileStep struct {
	Files []string `json:"files"` // patterns of C files in the project
	// Flags are those that affect the code's meaning, without warnings and output names. {cflags} stands for the
	// board's flags, {runtime_opt} and {operator_opt} for the options of those names, {operator_flags} for the
	// file's flags of that option.
	Flags []string `json:"flags"`
}

// compileCommand is one entry of the file (clang's JSON Compilation Database Format Specification).
type compileCommand struct {
	Directory string   `json:"directory"`
	File      string   `json:"file"`
	Arguments []string `json:"arguments"`
}

// here is the folder in which the editor's language server was started, which is the project's. A plain "." would be
// as good, but clangd passes over entries whose folder is not absolute; the project's own path must not be in the
// file, so that the same project has the same bytes wherever it lies.
const here = "/proc/self/cwd"

// compileCommands describes the C files among names.
func compileCommands(steps []compileStep, b *boards.Board, o boards.Options, names []string) ([]byte, error) {
	entries := []compileCommand{}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if slices.ContainsFunc(leftOut(o), func(file string) bool { return strings.HasSuffix(name, "/src/"+file) }) {
			continue
		}
		if i := slices.IndexFunc(steps, func(s compileStep) bool { return s.compiles(name) }); i >= 0 {
			args := slices.Concat([]string{b.Toolchain.CC}, steps[i].flags(b, o, path.Base(name)), []string{"-c", name})
			entries = append(entries, compileCommand{here, name, args})
		}
	}
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(entries); err != nil {
		return nil, fmt.Errorf("%s: %w", compileDatabase, err)
	}
	return w.Bytes(), nil
}

func (s compileStep) compiles(name string) bool {
	return slices.ContainsFunc(s.Files, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // check has validated the pattern
		return ok
	})
}

// flags returns the flags for a C file, by its name without a folder.
func (s compileStep) flags(b *boards.Board, o boards.Options, file string) []string {
	var flags []string
	options := strings.NewReplacer("{runtime_opt}", o.RuntimeOpt, "{operator_opt}", o.OperatorOpt)
	for _, f := range s.Flags {
		switch f {
		case "{cflags}":
			flags = append(flags, b.CFlags...)
		case "{operator_flags}":
			flags = append(flags, o.OperatorFlagsOf(file)...)
		case "{ldflags}":
			flags = append(flags, b.LDFlags...)
		default:
			flags = append(flags, options.Replace(f))
		}
	}
	return flags
}

// addCompileCommands plans the file, once all others are planned.
func (pl *plan) addCompileCommands(b *boards.Board, o boards.Options, t *foundTemplate) error {
	if len(t.Compile) == 0 || b.Toolchain.CC == "" {
		return nil // its build command makes one, or finds the compiler
	}
	var names []string
	for name := range pl.files {
		names = append(names, name)
	}
	data, err := compileCommands(t.Compile, b, o, names)
	pl.files[compileDatabase] = planned{data: data, mode: 0o644}
	return err
}
