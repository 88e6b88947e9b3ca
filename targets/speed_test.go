package targets

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/project"
)

// sampleSpec is the bundled model for the host board, with a cache of its own.
func sampleSpec(b *testing.B) (*project.Builder, project.Spec) {
	b.Helper()
	dir := b.TempDir()
	model := filepath.Join(dir, samples.Name)
	if err := os.WriteFile(model, samples.Archive(), 0o644); err != nil {
		b.Fatal(err)
	}
	builder := &project.Builder{Host: device.Host{Cache: cache.New(filepath.Join(dir, "cache"), cache.Options{})}}
	return builder, project.Spec{Board: "host", Model: model}
}

// BenchmarkEmptyCall calls a function without arguments that returns a number. It reports the median too, which other
// running programs affect less than the mean.
func BenchmarkEmptyCall(b *testing.B) {
	ctx := b.Context()
	builder, spec := sampleSpec(b)
	p, err := builder.Generate(ctx, b.TempDir(), spec)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	session, err := p.Run(ctx, nil, "")
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close(ctx)
	f, err := session.Function(ctx, "tvm.rpc.server.GetCRTMaxPacketSize")
	if err != nil {
		b.Fatal(err)
	}
	var all []time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := f.Call(ctx); err != nil {
			b.Fatal(err)
		}
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
		cmd := exec.Command(filepath.Join(s.bin, "mage"), "build", "flash")
		cmd.Dir, cmd.Env = dir, s.environment()
		if output, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, output)
		}
	}
	mage()
	for b.Loop() {
		mage()
	}
}
