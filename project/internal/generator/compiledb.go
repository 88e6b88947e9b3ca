// This file generates compile_commands.json, the flags of each file for editors (clangd).

package generator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// CompileDatabase is the file's name, in the project's folder.
const CompileDatabase = templatefile.CompileFile

// A Command is one entry of the file (clang's JSON Compilation Database Format Specification).
type Command struct {
	Directory string   `json:"directory"`
	File      string   `json:"file"`
	Arguments []string `json:"arguments"`
}

// Here is the folder in which the editor's language server was started, which is the project's. A plain "." would be
// as good, but clangd passes over entries whose folder is not absolute; the project's own path must not be in the
// file, so that the same project has the same bytes wherever it lies.
const Here = "/proc/self/cwd"

// CompileCommands describes the C files among names.
func CompileCommands(steps []templatefile.CompileStep, b *boards.Board, o boards.Options, names []string,
) ([]byte, error) {
	entries := []Command{}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if slices.ContainsFunc(leftOut(o), func(file string) bool { return strings.HasSuffix(name, "/src/"+file) }) {
			continue
		}
		if i := slices.IndexFunc(steps, func(s templatefile.CompileStep) bool { return s.Compiles(name) }); i >= 0 {
			args := slices.Concat([]string{b.Toolchain.CC}, steps[i].FlagsFor(b, o, path.Base(name)), []string{"-c", name})
			entries = append(entries, Command{Here, name, args})
		}
	}

	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")

	if err := enc.Encode(entries); err != nil {
		return nil, fmt.Errorf("%s: %w", CompileDatabase, err)
	}
	return w.Bytes(), nil
}
