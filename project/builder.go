package project

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/openset"
	"github.com/boardsmith/boardsmith/progress"
)

// A Builder is what generating and building need of this computer. The zero value is the normal case. Many goroutines may use
// it at once, once its fields are set: Progress must allow for that. All its builds together run at most Jobs compilers, the
// runtime that several projects have in common is compiled once, and each compiler is asked once what it is.
//
// A Builder must not be copied after its first use.
type Builder struct {
	Path     []string      // folders whose boards/ and templates/ are looked into before the shipped ones
	Log      hclog.Logger  // nil: nothing is logged
	Progress progress.Func // told as steps go on, from any goroutine; nil: nobody is
	Cache    *cache.Cache  // nil: the user's own, or none where the system has no place for it
	Jobs     int           // compilers at once; 0 means one per processor
	Forms    bool          // Build also makes the image's raw and Intel HEX files, for tools other than boardsmith's programmers

	mu      sync.Mutex
	slots   chan struct{}         // a compiler's turn each; nil until one is taken
	answers map[any]*answer       // of tools
	working map[any]chan struct{} // what somebody makes just now; closed when it is done

	open openset.Set[*Project] // what it has generated or opened, and nobody has closed
}

// An answer is what a tool said of itself.
type answer struct {
	done  chan struct{}
	value any
	err   error
}

func (b *Builder) log() hclog.Logger {
	if b.Log == nil {
		return hclog.NewNullLogger()
	}
	return b.Log.Named("project")
}

// Close closes the projects that b has generated or opened, and nobody has closed. b can be used again.
func (b *Builder) Close() error { return b.open.Close() }

func (b *Builder) images() image.Store { return image.Store{Cache: b.Cache, Log: b.log()} }

func (b *Builder) jobs() int {
	if b.Jobs > 0 {
		return b.Jobs
	}
	return runtime.NumCPU()
}

// takeJobs waits for a compiler's turn, and takes as many as are free, up to the wanted. give returns them.
func (b *Builder) takeJobs(ctx context.Context, wanted int) (n int, give func(), err error) {
	b.mu.Lock()
	if b.slots == nil {
		b.slots = make(chan struct{}, b.jobs())
	}
	slots := b.slots
	b.mu.Unlock()
	select {
	case slots <- struct{}{}:
		n = 1
	case <-ctx.Done():
		return 0, nil, failure.Stopped(ctx, "build")
	}
	for n < wanted {
		select {
		case slots <- struct{}{}:
			n++
			continue
		default:
		}
		break
	}
	return n, func() {
		for range n {
			<-slots
		}
	}, nil
}

// claim waits until nobody of this Builder makes what the key names. release lets the next one.
func (b *Builder) claim(ctx context.Context, key any) (release func(), err error) {
	for {
		b.mu.Lock()
		busy, taken := b.working[key]
		if !taken {
			if b.working == nil {
				b.working = map[any]chan struct{}{}
			}
			done := make(chan struct{})
			b.working[key] = done
			b.mu.Unlock()
			return sync.OnceFunc(func() {
				b.mu.Lock()
				delete(b.working, key)
				b.mu.Unlock()
				close(done)
			}), nil
		}
		b.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, failure.Stopped(ctx, "build")
		}
	}
}

// A toolKey is a program as it lies on disk, and what it is asked.
type toolKey struct {
	path     string
	size     int64
	modified time.Time
	question string
}

// askOnce asks the program at path, unless it was asked before and is the same file still. A failure is not remembered.
func askOnce[T any](ctx context.Context, b *Builder, path, question string, ask func() (T, error)) (value T, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return ask() // which says it better
	}
	key := toolKey{path, info.Size(), info.ModTime(), question}
	for {
		b.mu.Lock()
		a, known := b.answers[key]
		if !known {
			a = &answer{done: make(chan struct{})}
			if b.answers == nil {
				b.answers = map[any]*answer{}
			}
			b.answers[key] = a
		}
		b.mu.Unlock()
		if !known {
			return answered(b, key, a, ask)
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return value, failure.Stopped(ctx, "build")
		}
		if a.err == nil {
			return a.value.(T), nil
		}
	}
}

// answered asks, and lets those know who wait for the answer.
func answered[T any](b *Builder, key any, a *answer, ask func() (T, error)) (T, error) {
	defer close(a.done)
	value, err := ask()
	a.value, a.err = value, err
	if err != nil {
		b.mu.Lock()
		delete(b.answers, key)
		b.mu.Unlock()
	}
	return value, err
}
