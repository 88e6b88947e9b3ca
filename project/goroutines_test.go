package project

import (
	"errors"
	"sync"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/image"
)

// TestAtOnce does at once what may be done at once, with the race detector looking on: projects build in goroutines of
// their own, share a Builder and its cache, and hand their images to another goroutine's device.
func TestAtOnce(t *testing.T) {
	need(t, "cc")
	spec, b, host := complete(t, Spec{}), newBuilder(), findBoard(t, "host")
	b.Progress = func(device.ProgressEvent) {} // called from any of them
	images := make(chan *image.Image)
	var all, devices sync.WaitGroup
	for range 3 {
		all.Go(func() {
			p, err := b.generatedAndBuilt(t.Context(), newDir(t), spec)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { must(t, p.Close()) })
			i, err := p.Built()
			if err != nil {
				t.Error(err)
			}
			images <- i
			images <- i
		})
	}
	go func() { all.Wait(); close(images) }()
	for range 2 {
		devices.Go(func() {
			for i := range images {
				s, end, err := openImage(t, host, i)
				if err == nil {
					_, err = s.SystemLib(t.Context())
					err = errors.Join(err, end())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	devices.Wait()
}
