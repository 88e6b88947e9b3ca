// This file finds the results than which no other one is both cheaper and smaller.

package report

import (
	"cmp"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
)

// A dot is a result: its cost, its size, and its name.
type dot struct {
	x, y float64
	name string
}

// front sorts dots by cost, and returns those than which no other one is both cheaper and smaller.
func front(dots []dot) (best []dot) {
	slices.SortStableFunc(dots, func(a, b dot) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) })

	// In the order of cost, a dot is on the front if it is smaller than all before.
	for _, d := range dots {
		if len(best) == 0 || d.y < best[len(best)-1].y {
			best = append(best, d)
		}
	}

	return best
}

// addFront adds a series of dots, with a line through their front, which it returns.
func (f *figure) addFront(number int, name string, dots []dot) (best []dot) {
	best = front(dots)

	var names []string
	for _, d := range best[:min(len(best), 5)] {
		names = append(names, d.name)
	}

	f.add(series{number, pointsOf(dots), pointsOf(best)}, name, "%s: %s", name, strings.Join(names, ", "))
	return best
}

func pointsOf(dots []dot) (all plotter.XYs) {
	for _, d := range dots {
		all = append(all, plotter.XY{X: d.x, Y: d.y})
	}
	return all
}
