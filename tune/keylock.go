package tune

import (
	"context"
	"sync"
)

// A keyLock excludes goroutines with equal keys. Many goroutines may use it.
type keyLock struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed by unlock
}

// lock waits until no other goroutine holds a key. Its error is that of ctx; unlock is nil then.
func (l *keyLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	for {
		l.mu.Lock()
		held, ok := l.held[key]
		if !ok {
			break
		}
		l.mu.Unlock()

		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}

	defer l.mu.Unlock()
	held := make(chan struct{})
	if l.held == nil {
		l.held = map[string]chan struct{}{}
	}
	l.held[key] = held
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, key)
		close(held)
	}, nil
}
