// Package schemas has a JSON Schema (draft 2020-12) for each kind of file that people write. With it, an editor offers
// the fields, shows what each means, and marks names and types that boardsmith refuses.
//
// The schemas are generated from the Go types that the files are decoded into, their tags and their comments. They mark
// the fields that a file without inherits needs, and do not contain the rules between fields, which board:check and
// template:check know.
package schemas

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"
)

// FS holds the schemas: board.json, boardsmith.json, desk.json, library.json, model.json and template.json.
//
//go:embed *.json
var FS embed.FS

// Write writes the schemas to a folder, which it creates if necessary, and returns their names. Files with these names
// are replaced.
func Write(folder string) (names []string, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("schemas: %w", err)
	}
	files, err := FS.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("schemas: %w", err)
	}
	for _, f := range files {
		data, err := FS.ReadFile(f.Name())
		if err == nil {
			err = atomicwriter.WriteFile(filepath.Join(folder, f.Name()), data, 0o644)
		}
		if err != nil {
			return nil, fmt.Errorf("schemas: %w", err)
		}
		names = append(names, f.Name())
	}
	return names, nil
}
