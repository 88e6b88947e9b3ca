package tune

import "sync"

// places counts the places of one kind of board that are not given up.
type places struct {
	mu    sync.Mutex
	count int
	cause error // that the last one was given up; nil: none was
}

func (p *places) add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
}

// remove removes a place that is given up, and reports whether it was the last one.
func (p *places) remove(cause error) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count--
	p.cause = cause
	return p.count == 0
}

func (p *places) number() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// lost returns the cause if all places are given up, else nil.
func (p *places) lost() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count > 0 {
		return nil
	}
	return p.cause
}
