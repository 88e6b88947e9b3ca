package mlf

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// Extract writes the archive's files into a folder that exists, with modes of their own (0644, folders 0755), without
// runtime/ and templates/: those are TVM's, and firmware here has its own runtime. It does not remove what is there.
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
