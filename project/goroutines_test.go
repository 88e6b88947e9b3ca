package project

import (
	"errors"
	"sync"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestAtOnce does at once what may be done at once, with the race detector looking on: projects build in goroutines of
// their own, share an env and its cache, and hand their images to another goroutine's device.
func TestAtOnce(t *testing.T) {
	if _, err := command.Find("cc", ""); err != nil {
		t.Skip("no C compiler")
	}
	model, env := mlftest.Tiny(t, nil), testEnv()
	env.Progress = func(device.ProgressEvent) {} // called from any of them
	images := make(chan *image.Image)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			p, err := generate(t, Spec{Model: model}, env)
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
func openOnce(t *testing.T, i *image.Image, env env) error {
	b, err := boards.Find(i.Board, nil)
	if err != nil {
		return err
	}
	d, err := attach(t.Context(), b, "", env)
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
