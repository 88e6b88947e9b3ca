//go:build unix

package project

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestPipesAreRefused passes pipes without a writer instead of files: no call blocks.
func TestPipesAreRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	p := generated(t, dir, Spec{Model: mlftest.Tiny(t, nil)})
	source := filepath.Join(dir, "src", "main.c")
	must(t, os.Remove(source))
	must(t, syscall.Mkfifo(source, 0o644))
	pipe := filepath.Join(t.TempDir(), "project.json")
	must(t, syscall.Mkfifo(pipe, 0o644))

	for what, do := range map[string]func() error{
		"a model": func() error {
			_, err := generate(t.Context(), filepath.Join(t.TempDir(), "q"), Spec{Board: "host", Model: pipe}, testEnv())
			return err
		},
		"desk.json":    func() error { _, err := device.ReadDeskFile(pipe); return err },
		"project.json": func() error { _, err := load(filepath.Dir(pipe), testEnv()); return err },
	} {
		ended := make(chan error, 1)
		go func() { ended <- do() }()
		select {
		case err := <-ended:
			if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "it is not a file") {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: it waits for the pipe", what)
		}
	}
	ended := make(chan []string, 1)
	go func() {
		edited, err := p.Edited()
		if err != nil {
			t.Error(err)
		}
		ended <- edited
	}()
	select {
	case edited := <-ended:
		if len(edited) != 1 || edited[0] != "src/main.c" {
			t.Errorf("edited: %v", edited)
		}
	case <-time.After(20 * time.Second):
		t.Error("a file of the project that is a pipe: it waits for it")
	}
}
