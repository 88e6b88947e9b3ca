// This file measures a cost again that is above its limit, on a computer that does other work, too.

package measure

import (
	"context"

	"github.com/boardsmith/boardsmith/image"
)

// rechecks is how often a cost above its limit is measured again at most, and at least to be within it.
const (
	rechecks      = 10
	leastRechecks = 2

	noise = 0.01 // by which the smallest samples of equal firmware may differ, as a share
)

// recheck measures the cost of a process again if it is above its limit: each time with a new process, in turn with the
// earlier firmware, whose times change with what else the computer does, too. Of each firmware, the least disturbed
// sample of all times counts. If the cache no longer has the earlier firmware, its earlier cost stands for it.
func (m *measurement) recheck(ctx context.Context) error {
	old, r := m.Baseline.Find(m.result), m.result
	if old == nil || r.Computer == "" || r.Computer != old.Computer || r.Cost.Unit != old.Cost.Unit {
		return nil
	}
	if limit := 1 + m.Limits.Cost; r.Cost.Median <= old.Cost.Median*limit && r.Cost.Min <= old.Cost.Min*limit {
		return nil
	}
	earlier, err := image.Store{Cache: m.Desk.Cache, Log: m.Desk.Log}.Find(old.BuildID)
	if err != nil {
		earlier = nil
	}

	var before, current Cost
	for n := range rechecks {
		again := old.Cost
		if earlier != nil {
			if again, err = m.once(ctx, earlier); ctx.Err() != nil {
				return err
			}
			if err != nil { // it is of another version of the model
				earlier, again, before = nil, old.Cost, old.Cost
			}
		}
		if n == 0 || again.Min < before.Min {
			before = again
		}
		if again, err = m.once(ctx, m.image); err != nil {
			return err
		}
		if n == 0 || again.Min < current.Min {
			current = again
		}

		growth := current.Min/before.Min - 1
		r.Rechecks = append(r.Rechecks, growth)
		if growth <= m.Limits.Cost+noise && n+1 >= leastRechecks {
			r.Cost = current
			break
		}
	}
	return nil
}

// once returns the cost of an image in a new session.
func (m *measurement) once(ctx context.Context, i *image.Image) (c Cost, err error) {
	err = m.with(ctx, i, func(r running) error {
		err := m.call(ctx, "setting the inputs", func(ctx context.Context) error {
			return m.set.SetInputs(ctx, r, m.set.Len()-1)
		})
		if err != nil {
			return err
		}
		c, err = m.time(ctx, r)
		return err
	})
	return c, err
}
