package project

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
)

// TestAtOnce does at once what may be done at once, with the race detector looking on: projects build in goroutines of their own,
// share an Env and its cache, and hand their images to another goroutine's device.
func TestAtOnce(t *testing.T) {
	if _, err := findTool("cc", ""); err != nil {
		t.Skip("no C compiler")
	}
	model, env := tiny(t, nil), testEnv()
	env.Progress = func(Event) {} // called from any of them
	images := make(chan *Image)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			p, err := Generate(t.Context(), filepath.Join(t.TempDir(), "p"), Spec{Board: "host", Model: model, Env: env})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { must(t, p.Close()) }()
			i, err := p.Build(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			images <- i
			images <- i // its file is there until both are done
		})
	}
	go func() { all.Wait(); close(images) }()
	var devices sync.WaitGroup
	for range 2 {
		devices.Go(func() {
			for i := range images {
				if err := openOnce(t, i, env); err != nil {
					t.Error(err)
				}
			}
		})
	}
	devices.Wait()
}

// openOnce opens a device of its own with the image.
func openOnce(t *testing.T, i *Image, env Env) error {
	b, err := boards.Find(i.Board, nil)
	if err != nil {
		return err
	}
	d, err := Attach(t.Context(), b, "", env)
	if err != nil {
		return err
	}
	if _, err := d.Flash(t.Context(), i); err != nil {
		return errors.Join(err, d.Close())
	}
	s, err := d.Open(t.Context(), i)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	_, err = s.SystemLib(t.Context())
	return errors.Join(err, s.Close(t.Context()), d.Close())
}
