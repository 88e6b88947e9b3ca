// This file checks where a model's pools are placed.

package fit

import (
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/mlf"
)

// CheckPools returns an error for a pool of the option place that the model does not have, and for one that is written
// to in memory that is not RAM. A board file may name pools of other models.
func CheckPools(b *boards.Board, o boards.Options, m *mlf.Model) error {
	var pools []mlf.Buffer

	// Only the C interface names pools.
	if m.ABI == mlf.ABIUnpacked && m.Header != nil {
		pools = m.Header.Pools
	}

	names := make([]string, len(pools))
	for i, p := range pools {
		names[i] = p.Name
	}

	for _, name := range o.PlacedPools() {
		if slices.Contains(names, name) {
			continue
		}

		next := "the model's pools are: " + strings.Join(names, ", ")
		if len(pools) == 0 {
			next = "export the model with interface-api=c and pools of these names"
		}
		return failure.New(failure.Config, next, "option place: model %s has no pool %q%s", m.Name, name,
			jsonfile.DidYouMean(name, names))
	}

	for _, p := range pools {
		if r, placed := b.Region(b.Place.Pools[p.Name]); placed && r.Nonvolatile && p.Data == "" {
			return failure.Errorf(failure.Config, "place: pool %s of model %s is written to, and region %q is not RAM", p.Name,
				m.Name, r.Name)
		}
	}
	return nil
}
