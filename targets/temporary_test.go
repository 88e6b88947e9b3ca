package targets

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTemporaryFolders: temporary folders of the product are those of package scratch, which removes what killed
// processes have left.
func TestTemporaryFolders(t *testing.T) {
	exempt := []string{
		"internal/files/scratch", "examples", "tools", "internal/develop", "internal/testkit",
		"internal/virtualprobe/keepertest", // of tests
		"internal/gitfolder",               // below one of package scratch
		"internal/ledger",                  // becomes the folder of the leases by one step
	}
	checked := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(path), "../")
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(exempt, name):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		checked++
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "os.MkdirTemp(") {
			t.Errorf("%s: use scratch.Make instead of os.MkdirTemp", name)
		}
		return err
	})
	if err != nil || checked < 300 {
		t.Errorf("%d files were checked: %v", checked, err)
	}
}
