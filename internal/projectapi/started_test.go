package projectapi

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// folderOf makes a folder whose server is this test program, as a kind of server.
func folderOf(t *testing.T, kind string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("on Windows a process cannot pass pipes by number")
	}
	dir := t.TempDir()
	launcher(t, dir, kind)
	return dir
}

// launcher writes the script that starts a folder's server.
func launcher(t *testing.T, dir, kind string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	script := "#!/bin/sh\nexport " + serverVariable + "=" + kind + "\nexec " + self + "\n"
	program(t, filepath.Join(dir, "launch_microtvm_api_server.sh"), script)
}

// program writes an executable script, and the folder for it.
func program(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.WriteProgram(t, path, text)
}
