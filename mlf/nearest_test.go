package mlf

import (
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestNearestArchive: the error for a missing archive names the most similar one in its folder.
func TestNearestArchive(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "kws.tar"), "")
	for name, want := range map[string]string{
		"ksw.tar": `did you mean "kws.tar"?`, "elsewhere/kws.tar": "check the path of the model",
	} {
		_, err := Open(filepath.Join(dir, name))
		testkit.Equal(t, name, failure.Next(err), want)
	}
}
