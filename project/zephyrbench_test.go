//go:build !windows

package project

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
)

// BenchmarkZephyr builds for a board of the Zephyr in $ZEPHYR_BASE: from nothing, after an operator has changed, and
// without a change; and takes a new candidate the whole way to a session and a call. cpu-s/op is the time of all
// processors, of compilers, too.
func BenchmarkZephyr(b *testing.B) {
	NeedZephyr(b, "qemu-system-arm")
	warm := env{Host: device.Host{Cache: cache.New(b.TempDir(), cache.Options{})}}
	count := 0
	// candidate generates the project of an operator that no build had before.
	candidate := func(b *testing.B, dir string, e env) *Project {
		b.Helper()
		count++
		operator := mlftest.TinyOperator + fmt.Sprintf("int candidate%d(void) { return %d; }\n", count, count)
		model := mlftest.Tiny(b, map[string]string{"codegen/host/src/lib1.c": operator})
		p, err := generate(b.Context(), dir, Spec{Board: "zephyr/mps2_an385", Model: model}, e)
		must(b, err)
		return p
	}
	build := func(b *testing.B, p *Project) {
		b.Helper()
		_, err := p.Build(b.Context())
		must(b, err)
	}
	dir := filepath.Join(b.TempDir(), "p")
	first := candidate(b, dir, warm)
	build(b, first)
	must(b, first.Close())
	for _, c := range []struct {
		name string
		step func(b *testing.B)
	}{
		{"from=nothing", func(b *testing.B) {
			cold := env{Host: device.Host{Cache: cache.New(b.TempDir(), cache.Options{})}}
			p := candidate(b, filepath.Join(b.TempDir(), "p"), cold)
			build(b, p)
			must(b, p.Close())
		}},
		{"from=operator", func(b *testing.B) {
			p := candidate(b, dir, warm)
			build(b, p)
			must(b, p.Close())
		}},
		{"from=image", func(b *testing.B) {
			p, err := warm.builder().Open(dir)
			must(b, err)
			build(b, p)
			must(b, p.Close())
		}},
		{"candidate=new", func(b *testing.B) {
			p := candidate(b, filepath.Join(b.TempDir(), "p"), warm)
			s, err := p.Run(b.Context(), testEnv().desk(), "")
			must(b, err)
			rpctest.CallTwice(b, s)
			must(b, s.Close(b.Context()))
			must(b, p.Close())
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			before := cpuTime(b)
			for b.Loop() {
				c.step(b)
			}
			b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

// cpuTime is the time that this process and the ended ones that it has started used all processors.
func cpuTime(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		must(b, syscall.Getrusage(who, &u))
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}
