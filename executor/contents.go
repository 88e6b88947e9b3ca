// This file keeps the data sent to a model's tensors, and sends it again after a damaged copy.

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// A contents holds the data that the host sent to a model's tensors. After a damaged copy no tensor's content is
// certain; the executor then sends everything again.
type contents struct {
	session *rpc.Session
	sent    []sentArray
	written []*rpc.Tensor // tensors that a run writes, and other views of the same memory
	damages int           // the session's count of damage when all contents were certain
}

// A sentArray is an array that the host sent to a tensor.
type sentArray struct {
	t           *rpc.Tensor
	array       *ndarray.Array
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
	i := slices.IndexFunc(c.sent, func(a sentArray) bool { return a.t == t })
	if i < 0 {
		i = len(c.sent)
		c.sent = append(c.sent, sentArray{})
	}

	c.sent[i] = sentArray{t, a, overwritten}
	return t.Write(ctx, a.Data)
}

// refresh sends, before a run, every tensor whose content is uncertain or was overwritten.
func (c *contents) refresh(ctx context.Context) error {
	err := c.send(ctx, func(a sentArray) bool { return a.overwritten })

	for range attempts {
		damages, countErr := c.session.Damages(ctx)
		if countErr != nil {
			return countErr
		}

		if damages == c.damages && err == nil {
			return nil
		}
		if err != nil && !errors.Is(err, rpc.ErrDamagedCopy) {
			return err
		}

		// Calls return an error until the damage is acknowledged, and with tensors whose content is uncertain.
		if err := c.session.AcknowledgeDamage(ctx); err != nil {
			return err
		}
		err = c.send(ctx, func(sentArray) bool { return true })

		// The next run writes these, so their content does not matter.
		for _, t := range c.written {
			if err := t.Discard(ctx); err != nil {
				return err
			}
		}
		c.damages = damages // the next round detects damage during sending
	}

	if err != nil {
		return err
	}

	// The last round may have met damage, too.
	damages, err := c.session.Damages(ctx)
	if err == nil && damages != c.damages {
		err = fmt.Errorf("%w: the model's inputs and parameters, at every attempt to send them", rpc.ErrDamagedCopy)
	}
	return err
}

func (c *contents) send(ctx context.Context, selected func(sentArray) bool) error {
	for _, a := range c.sent {
		if !selected(a) {
			continue
		}
		if err := a.t.Write(ctx, a.array.Data); err != nil {
			return err
		}
	}
	return nil
}
