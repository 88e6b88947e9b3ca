// This file writes an archive's files into a folder.

package mlf

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// Extract writes the archive's files into an existing folder, with mode 0644 (folders 0755). It omits TVM's
// runtime/ and templates/, which this firmware does not use, and removes nothing.
func (a *Archive) Extract(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("extract %s: %w", a.Path, err)
	}
	defer root.Close()
	for _, f := range a.Files {
		if strings.HasPrefix(f.Name, "runtime/") || strings.HasPrefix(f.Name, "templates/") {
			continue
		}
		if err := write(root, f); err != nil {
			return fmt.Errorf("extract %s: %w", a.Path, err)
		}
	}
	return nil
}

func write(root *os.Root, f File) error {
	if err := root.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
		return err
	}
	if err := root.WriteFile(f.Name, f.Data, 0o644); err != nil {
		return err
	}
	return root.Chmod(f.Name, 0o644)
}
