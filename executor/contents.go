// This file keeps what was sent to a model's tensors, and sends it again after a damaged copy.

package executor

import (
	"context"
	"errors"
	"slices"

	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// Contents holds what the host sent to a model's tensors. After a damaged copy no tensor's content is certain; the
// executor then sends everything again.
type contents struct {
	session *rpc.Session
	given   []given
	worked  []*rpc.Tensor // tensors that a run writes, and other views of the same memory
	damages int           // the session's count of damage when all contents were certain
}

// A given tensor holds an array that the host sent.
type given struct {
	t           *rpc.Tensor
	a           *ndarray.Array
	overwritten bool // the model overwrites its memory: send it before each run
}

// attempts limits how often all contents are sent again.
const attempts = 4

func newContents(ctx context.Context, s *rpc.Session) (contents, error) {
	damages, err := s.Damages(ctx)
	return contents{session: s, damages: damages}, err
}

// write sends and keeps an array. The caller must not change its data.
func (c *contents) write(ctx context.Context, t *rpc.Tensor, a *ndarray.Array, overwritten bool) error {
	i := slices.IndexFunc(c.given, func(g given) bool { return g.t == t })
	if i < 0 {
		i = len(c.given)
		c.given = append(c.given, given{})
	}
	c.given[i] = given{t, a, overwritten}
	return t.Write(ctx, a.Data)
}

// settle sends, before a run, every tensor whose content is uncertain or was overwritten.
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
		c.damages = now // the next round detects damage during sending
	}
	if err != nil {
		return err
	}
	now, err := c.session.Damages(ctx)
	if err == nil && now != c.damages {
		err = &rpc.DamagedCopyError{Detail: "the model's inputs and parameters, at every attempt to send them"}
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

// copyOf returns a deep copy.
func copyOf(a *ndarray.Array) *ndarray.Array {
	return &ndarray.Array{DType: a.DType, Shape: slices.Clone(a.Shape), Data: slices.Clone(a.Data)}
}
