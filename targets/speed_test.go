package targets

import (
	"slices"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project"
)

// BenchmarkEmptyCall calls a function without arguments that returns a number. It reports the median too, which other
// running programs affect less than the mean.
func BenchmarkEmptyCall(b *testing.B) {
	ctx := b.Context()
	builder := &project.Builder{Host: device.Host{Cache: cache.New(b.TempDir(), cache.Options{})}}
	spec := project.Spec{Board: "host", Model: "../examples/samples/digits_i8.aot_packed.tar"}
	p, err := builder.Generate(ctx, b.TempDir(), spec)
	testkit.Must(b, err)
	defer p.Close()
	session, err := p.Run(ctx, nil, "")
	testkit.Must(b, err)
	defer session.Close(ctx)
	f, err := session.Function(ctx, "tvm.rpc.server.GetCRTMaxPacketSize")
	testkit.Must(b, err)
	var all []time.Duration
	for b.Loop() {
		start := time.Now()
		_, err := f.Call(ctx)
		testkit.Must(b, err)
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2])/1e3, "median-µs")
}

// BenchmarkNothingToDo types `mage build flash` where all is done, on the compiled magefile: what mage itself takes to
// find and compile the magefile is not in it.
func BenchmarkNothingToDo(b *testing.B) {
	s := openShop(b)
	dir := b.TempDir()
	mage := func() {
		testkit.Output(b, s.mage(dir, nil, "build", "flash"))
	}
	mage()
	for b.Loop() {
		mage()
	}
}
