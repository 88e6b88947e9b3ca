// This file draws charts of size against cost.

package report

import (
	"cmp"
	"html/template"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A dot is a result: its cost, its size, and its name.
type dot struct {
	x, y float64
	name string
}

// A cloud is the dots of one colour.
type cloud struct {
	number int
	dots   []dot
}

// front sorts dots by cost, and returns those than which no other one is both cheaper and smaller.
func front(dots []dot) (best []dot) {
	slices.SortStableFunc(dots, func(a, b dot) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) })
	for _, d := range dots {
		if len(best) == 0 || d.y < best[len(best)-1].y {
			best = append(best, d)
		}
	}
	return best
}

func namesOf(dots []dot) string {
	var names []string
	for _, d := range dots {
		names = append(names, d.name)
	}
	return strings.Join(names, ", ")
}

func pointsOf(dots []dot) (all plotter.XYs) {
	for _, d := range dots {
		all = append(all, plotter.XY{X: d.x, Y: d.y})
	}
	return all
}

// drawFronts draws the dots of each series, and a line through its front.
func drawFronts(x, y string, all []cloud) (template.HTML, error) {
	p := newPlot(x, y)
	for _, s := range all {
		scatter, err := plotter.NewScatter(thin(pointsOf(s.dots)))
		if err != nil {
			return "", err
		}
		scatter.GlyphStyle = draw.GlyphStyle{
			Color: toneOf(s.number).color(), Radius: vg.Points(3), Shape: draw.CircleGlyph{},
		}
		line, err := plotter.NewLine(pointsOf(front(s.dots)))
		if err != nil {
			return "", err
		}
		line.StepStyle, line.LineStyle = plotter.PostStep, lineStyle(s.number)
		p.Add(scatter, line)
	}
	return svg(p, chartHeight)
}
