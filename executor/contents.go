package executor

import (
	"context"
	"errors"
	"slices"

	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// The contents of a model's tensors on the device, as far as they came from the host. They are kept here, so that a
// copy that was damaged on the way, after which no tensor's content is certain, costs time and not the model.
type contents struct {
	session *rpc.Session
	given   []given
	worked  []*rpc.Tensor // what runs write, and other views of the same memory
	damages int           // the session's, when all was certain
}

// A given tensor was sent by the host.
type given struct {
	t           *rpc.Tensor
	a           *ndarray.Array
	overwritten bool // the model overwrites its memory, so that it has to be sent before each run
}

// attempts is how often all contents are sent again before giving up.
const attempts = 4

func newContents(ctx context.Context, s *rpc.Session) (contents, error) {
	damages, err := s.Damages(ctx)
	return contents{session: s, damages: damages}, err
}

// write sends and keeps an array, whose data must not change.
func (c *contents) write(ctx context.Context, t *rpc.Tensor, a *ndarray.Array, overwritten bool) error {
	i := slices.IndexFunc(c.given, func(g given) bool { return g.t == t })
	if i < 0 {
		i = len(c.given)
		c.given = append(c.given, given{})
	}
	c.given[i] = given{t, a, overwritten}
	return t.Write(ctx, a.Data)
}

// settle makes sure, before a run, that every tensor holds what it should.
func (c *contents) settle(ctx context.Context) error {
	err := c.send(ctx, func(g given) bool { return g.overwritten })
	for range attempts {
		now, failed := c.session.Damages(ctx)
		if failed != nil {
			return failed
		}
		if now == c.damages && err == nil {
			return nil
		}
		if damaged := new(rpc.DamagedCopyError); err != nil && !errors.As(err, &damaged) {
			return err
		}
		if err := c.session.AcknowledgeDamage(ctx); err != nil {
			return err
		}
		err = c.send(ctx, func(given) bool { return true })
		for _, t := range c.worked {
			if err := t.Discard(ctx); err != nil {
				return err
			}
		}
		c.damages = now // if sending did further damage, the next round sees it
	}
	if err != nil {
		return err
	}
	now, err := c.session.Damages(ctx)
	if err == nil && now != c.damages {
		err = &rpc.DamagedCopyError{What: "the model's inputs and parameters, each time they were sent"}
	}
	return err
}

func (c *contents) send(ctx context.Context, which func(given) bool) error {
	for _, g := range c.given {
		if !which(g) {
			continue
		}
		if err := g.t.Write(ctx, g.a.Data); err != nil {
			return err
		}
	}
	return nil
}

// copyOf returns an array that does not change with the caller's.
func copyOf(a *ndarray.Array) *ndarray.Array {
	return &ndarray.Array{DType: a.DType, Shape: slices.Clone(a.Shape), Data: slices.Clone(a.Data)}
}
