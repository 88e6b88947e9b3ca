package projectapi

import (
	"context"
	"errors"
	"sync"
)

// echo is a server whose device sends back what it receives.
type echo struct {
	mu      sync.Mutex
	arrived []byte
	more    chan struct{} // holds one token if there may be bytes
	open    bool
}

func (e *echo) Info(tvm string) (info, error) {
	if tvm == "0.8.0" {
		return info{}, errVersion
	}
	return info{Platform: "echo", Options: []option{
		{Name: "verbose", Type: "bool", Default: false, Optional: []string{"build"}, Help: "More output"},
	}}, nil
}

func (e *echo) Generate(context.Context, generation, values) error { return errors.New("no template") }

// Build waits until it is cancelled, if it is asked to.
func (e *echo) Build(ctx context.Context, v values) error {
	wait, err := v.Bool("verbose")
	if err == nil && wait {
		<-ctx.Done()
		err = ctx.Err()
	}
	return err
}

func (e *echo) Flash(context.Context, values) error { return nil }

func (e *echo) Open(context.Context, values) (timeouts, error) {
	e.open, e.more = true, make(chan struct{}, 1)
	return timeouts{StartRetry: 1.5, Start: 3}, nil
}

func (e *echo) CloseTransport() error {
	e.open = false
	return nil
}

func (e *echo) Read(ctx context.Context, n int) ([]byte, error) {
	if !e.open {
		return nil, errClosed
	}
	for {
		e.mu.Lock()
		data := e.arrived[:min(n, len(e.arrived))]
		e.arrived = e.arrived[len(data):]
		e.mu.Unlock()
		if len(data) > 0 {
			return data, nil
		}
		select {
		case <-e.more:
		case <-ctx.Done():
			return nil, errTimeout
		}
	}
}

func (e *echo) Write(_ context.Context, data []byte) error {
	if !e.open {
		return errClosed
	}
	e.mu.Lock()
	e.arrived = append(e.arrived, data...)
	e.mu.Unlock()
	select {
	case e.more <- struct{}{}:
	default:
	}
	return nil
}
