// This file measures a cost again that is above its limit, on a computer that does other work, too.

package measure

import (
	"cmp"
	"context"
	"slices"

	"github.com/boardsmith/boardsmith/image"
)

// A cost is measured again until it was within its limit often enough, and at most so often. Of firmware that has grown
// by no more than the limit, each time is as likely within it as not, or likelier: at most 1 of 10 is, in 11 of 2^10
// cases.
const (
	rechecks = 10
	enough   = 2
)

const clock = 1e-9 // seconds; shorter costs count as this in a share

// recheck measures the cost of a process again if it is above its limit: each time with a new process, beside the
// earlier firmware, whose times change with what else the computer does, too. The two take turns in being the first,
// so that the order favours neither. Each time, the least disturbed samples of both count. If the cache no longer has
// the earlier firmware, its earlier cost stands for it. The result has the cost with the middle one of all medians.
func (m *measurement) recheck(ctx context.Context) error {
	old, r := m.Baseline.Find(m.result), m.result
	if old == nil || r.Computer == "" || r.Computer != old.Computer || r.Cost.Unit != old.Cost.Unit {
		return nil
	}
	if limit := 1 + m.Limits.Cost; r.Cost.Median <= old.Cost.Median*limit && r.Cost.Min <= old.Cost.Min*limit {
		return nil
	}

	costs, images := []Cost{r.Cost}, [2]*image.Image{1: m.image}
	images[0], _ = image.Store{Cache: m.Desk.Cache, Log: m.Desk.Log}.Find(old.BuildID) // nil with an error

	for len(r.Rechecks) < rechecks && !within(r.Rechecks, m.Limits.Cost) {
		pair := [2]Cost{old.Cost}
		for n := range images {
			n ^= len(r.Rechecks) % 2
			if images[n] == nil {
				continue
			}
			cost, err := m.once(ctx, images[n])
			switch {
			case err == nil:
				pair[n] = cost
			case ctx.Err() != nil || n == 1:
				return err
			default: // it is of another version of the model
				images[0] = nil
			}
		}

		costs = append(costs, pair[1])
		r.Rechecks = append(r.Rechecks, (pair[1].Min-pair[0].Min)/max(pair[0].Min, clock))
	}

	// The middle one: neither the disturbed cost that began this, nor the luckiest one.
	slices.SortFunc(costs, func(a, b Cost) int { return cmp.Compare(a.Median, b.Median) })
	r.Cost = costs[len(costs)/2]
	return nil
}

// within reports whether a cost was within its limit often enough not to have grown.
func within(rechecks []float64, limit float64) bool {
	return len(rechecks) >= enough && slices.Sorted(slices.Values(rechecks))[enough-1] <= limit
}

// once returns the cost of an image in a new session.
func (m *measurement) once(ctx context.Context, i *image.Image) (c Cost, err error) {
	err = m.with(ctx, i, func(x *session) error {
		if err := x.setInputs(ctx, m.set.Len()-1); err != nil {
			return err
		}
		c, err = x.repeat(ctx)
		return err
	})
	return c, err
}
