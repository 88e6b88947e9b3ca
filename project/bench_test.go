package project

import (
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// BenchmarkArchiveToSession is the whole way on the host board: generate, build, flash, open, and close again; for the
// bundled network, and for one small operator, as a tuner's candidates are.
func BenchmarkArchiveToSession(b *testing.B) {
	digits, operator := filepath.Join("..", "examples", "samples", "digits_i8.aot_packed.tar"), mlftest.Tiny(b, nil)
	warm := cache.New(b.TempDir(), cache.Options{})
	cached, compiled := func() *cache.Cache { return warm }, func() *cache.Cache { return newCache(b) }
	for _, c := range []struct {
		name, model string
		cache       func() *cache.Cache
	}{
		{"model=operator/runtime=cached", operator, cached},
		{"model=digits/runtime=cached", digits, cached},
		{"model=digits/runtime=compiled", digits, compiled},
	} {
		b.Run(c.name, func(b *testing.B) {
			way(b, c.model, c.cache()) // fills the cache, and the system's
			for b.Loop() {
				way(b, c.model, c.cache())
			}
		})
	}
}

func way(b *testing.B, model string, c *cache.Cache) {
	builder := &Builder{Host: device.Host{Cache: c}}
	p, err := builder.Generate(b.Context(), newDir(b), Spec{Board: "host", Model: model})
	must(b, err)
	s, err := p.Run(b.Context(), newDesk(), "")
	must(b, err)
	must(b, s.Close(b.Context()))
	must(b, p.Close())
}

// BenchmarkNothingToDo is generate and build where all is as it was.
func BenchmarkNothingToDo(b *testing.B) {
	dir := newDir(b)
	spec := Spec{Board: "host", Model: filepath.Join("..", "examples", "samples", "digits_i8.aot_packed.tar")}
	step := func() {
		p, err := newBuilder().Generate(b.Context(), dir, spec)
		must(b, err)
		_, err = p.Build(b.Context())
		must(b, err)
		must(b, p.Close())
	}
	step()
	for b.Loop() {
		step()
	}
}
