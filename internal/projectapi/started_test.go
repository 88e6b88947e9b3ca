package projectapi

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/transport"
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

// project makes a project of an archive by a template's server, and starts the project's.
func (c *client) project(t *testing.T, archive string, options map[string]any) (made string, p *client) {
	t.Helper()
	made = t.TempDir() + "/p"
	must(t, c.Generate(archive, "", made, options))
	launcher(t, made, "folder")
	return made, started(t, made)
}

// flashed builds and flashes a project, and opens its transport.
func (c *client) flashed(t *testing.T) (transport.Link, timeouts) {
	t.Helper()
	must(t, errors.Join(c.do("build", nil), c.do("flash", nil)))
	l, advice, err := c.Open()
	must(t, err)
	return l, advice
}

// launcher writes the script that starts a folder's server.
func launcher(t *testing.T, dir, kind string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	script := "#!/bin/sh\nexport " + serverVariable + "=" + kind + "\nexec " + self + "\n"
	program(t, dir+"/launch_microtvm_api_server.sh", script)
}

// program writes an executable script, and the folder for it.
func program(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.WriteProgram(t, path, text)
}
