package mlf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

// TestNearestArchive: the error for a missing archive names the most similar one in its folder.
func TestNearestArchive(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "kws.tar"), nil, 0o644))
	for name, want := range map[string]string{
		"ksw.tar": `did you mean "kws.tar"?`, "elsewhere/kws.tar": "check the path of the model",
	} {
		if _, err := Open(filepath.Join(dir, name)); failure.Next(err) != want {
			t.Errorf("%s: %v, %q", name, err, failure.Next(err))
		}
	}
}
