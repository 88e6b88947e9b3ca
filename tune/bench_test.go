//go:build linux

package tune_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
	"github.com/boardsmith/boardsmith/tune"
)

// variants returns n of TVM's candidates, no two of which compile to the same bytes.
func variants(t testing.TB, n int) iter.Seq[tune.Candidate] {
	schedules := matmuls(t)
	return func(yield func(tune.Candidate) bool) {
		for i := range n {
			c := schedules[i%len(schedules)]
			source := c.Operators.Files[0]
			at := bytes.LastIndex(source.Data, []byte("int32_t matmul("))
			at += bytes.Index(source.Data[at:], []byte(") {")) + 3
			source.Data = fmt.Appendf(nil, "%s\n  __asm__ volatile(\"\" ::\"r\"(%d));\n%s", source.Data[:at], i,
				source.Data[at:])
			c.ID, c.Operators.Files = fmt.Sprintf("%s.%d", c.ID, i), []mlf.File{source}
			if !yield(c) {
				return
			}
		}
	}
}

// childSeconds returns the processor time of the ended child processes, in seconds.
func childSeconds(t testing.TB) float64 {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// bound returns how many candidates a minute this computer could compile and link if it did nothing else.
func bound(b testing.TB, board string) float64 {
	b.Helper()
	builder := &project.Builder{Host: device.Host{Cache: cache.New(b.TempDir(), cache.Options{})}}
	blank, err := project.Operators{}.Archive()
	must(b, err)
	p, err := builder.Generate(b.Context(), filepath.Join(b.TempDir(), "p"), project.Spec{Board: board, Archive: blank})
	must(b, err)
	defer p.Close()
	l, err := p.OperatorLinker(b.Context())
	must(b, err)
	const n = 32
	before := childSeconds(b)
	for c := range variants(b, n) {
		c.Operators.Entries = []string{c.Entry}
		_, err := l.Link(b.Context(), c.Operators, rpc.Window{Base: 0x40000000, Bytes: 1 << 20, Alignment: 32})
		must(b, err)
	}
	return 60 * float64(runtime.NumCPU()) / ((childSeconds(b) - before) / n)
}

// perOp is the number of candidates in an operation of BenchmarkCandidates, so that the start does not count.
const perOp = 160

// BenchmarkCandidates takes candidates from C source to a verified time: three samples of at least a millisecond, on
// one board, with an empty cache.
func BenchmarkCandidates(b *testing.B) {
	for _, board := range []string{"host", "mps2_an385"} {
		b.Run(board, func(b *testing.B) {
			most := bound(b, board)
			builder := &project.Builder{Host: device.Host{Cache: cache.New(b.TempDir(), cache.Options{})}}
			r, err := tune.OpenRun(b.Context(), b.TempDir(), &device.Desk{}, []string{board}, tune.Options{Builder: builder})
			must(b, err)
			_, err = r.Measure(b.Context(), operator("warm", right)) // until the board has opened
			must(b, err)
			var load, run time.Duration // on the board
			b.ResetTimer()
			for result, err := range r.All(b.Context(), variants(b, b.N*perOp)) {
				must(b, err)
				if result.Failure != nil || result.SameAs != "" || len(result.Samples) != 3 {
					b.Errorf("%s: %+v", result.ID, result)
				}
				load, run = load+result.Load, run+result.Run
			}
			b.StopTimer()
			perMinute := 60 * float64(b.N*perOp) / b.Elapsed().Seconds()
			b.ReportMetric(perMinute, "candidates/min")
			b.ReportMetric(100*perMinute/most, "%bound")
			b.ReportMetric(load.Seconds()*1000/float64(b.N*perOp), "load-ms")
			b.ReportMetric(run.Seconds()*1000/float64(b.N*perOp), "run-ms")
			must(b, r.Close())
		})
	}
}

// A countingPlace counts the bytes that are sent.
type countingPlace struct {
	tune.Place
	sent *atomic.Int64
}

// linked is the method of a device's Place for the link below its sessions.
type linked interface {
	Link(ctx context.Context, i *image.Image) (transport.Link, error)
}

func (p countingPlace) Open(ctx context.Context, i *image.Image) (*rpc.Session, error) {
	link, err := p.Place.(linked).Link(ctx, i)
	if err != nil {
		return nil, err
	}
	t, err := transport.Dial(ctx, countingLink{link, p.sent}, transport.SessionOptions{})
	if err != nil {
		return nil, err
	}
	return rpc.New(t, rpc.Options{}), nil
}

type countingLink struct {
	transport.Link
	sent *atomic.Int64
}

func (l countingLink) Write(ctx context.Context, p []byte) error {
	l.sent.Add(int64(len(p)))
	return l.Link.Write(ctx, p)
}

// TestUploadIsLittleMoreThanCode counts the bytes that are sent for a candidate whose arguments are on the device.
func TestUploadIsLittleMoreThanCode(t *testing.T) {
	var sent atomic.Int64
	r, _ := opened(t, tune.Options{}.Replacing(
		func(p tune.Place) tune.Place { return countingPlace{p, &sent} }), "mps2_an385")
	before := int64(0)
	for c := range variants(t, 5) {
		result := measured(t, r, c)
		if result.Failure != nil {
			t.Fatalf("%+v", result.Failure)
		}
		now := sent.Load()
		rest := int(now-before) - result.Bytes
		t.Logf("%s: %d bytes of code, %d others", c.ID, result.Bytes, rest)

		// Some 400 of these check that the candidate keeps to its arguments. Setting a budget of time would take 47.
		if before > 0 && (rest > 1830 || result.Bytes > 500) {
			t.Errorf("%s: %d bytes were sent besides its %d", c.ID, rest, result.Bytes)
		}
		before = now
	}
}

// TestCandidatesLeaveNothingBehind measures many candidates, and compares memory, descriptors and files.
func TestCandidatesLeaveNothingBehind(t *testing.T) {
	n := 30
	switch {
	case drawn.InSoak():
		n = 10000
	case drawn.InFull():
		n = 1000
	}
	keepertest.Use(t) // it is built for all tests
	t.Setenv("TMPDIR", t.TempDir())
	r, dir := opened(t, tune.Options{Builder: &project.Builder{Host: device.Host{Cache: cache.New(t.TempDir(),
		cache.Options{Limit: 16 << 20})}}}, "host")
	type state struct{ heap, descriptors, temporary int }
	now := func() state {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		count := func(dir string) int {
			all, err := os.ReadDir(dir)
			must(t, err)
			return len(all)
		}
		return state{int(m.HeapAlloc), count("/proc/self/fd"), count(os.TempDir())}
	}
	var first state
	seen := 0
	for result, err := range r.All(t.Context(), variants(t, n)) {
		must(t, err)
		if result.Failure != nil {
			t.Fatalf("%s: %+v", result.ID, result.Failure)
		}
		if seen++; seen == n/10 {
			first = now()
		}
	}
	last := now()
	t.Logf("after %d candidates: %+v, after %d: %+v", n/10, first, n, last)
	if perCandidate := (last.heap - first.heap) / (n - n/10); perCandidate > 1000 && last.heap-first.heap > 4<<20 {
		t.Errorf("%d bytes of memory stay for each candidate", perCandidate)
	}
	if last.descriptors > first.descriptors+4 || last.temporary > first.temporary+4 {
		t.Errorf("descriptors or temporary files stay: %+v, then %+v", first, last)
	}
	bytes := 0
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += int(info.Size())
		}
		return err
	}))
	if limit := 8<<20 + n*16<<10; bytes > limit {
		t.Errorf("the run's folder has %d bytes, more than %d", bytes, limit)
	}
	t.Logf("the run's folder has %d bytes", bytes)
}
