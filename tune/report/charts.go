// This file draws charts as SVG, whose colours the page's style sheet replaces in a dark mode.

package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/boardsmith/boardsmith/internal/valuetext"
)

// A tone is a colour on a light and on a dark page, as #RRGGBB in capitals. Charts are drawn with the light one, which
// the page's style sheet replaces.
type tone struct{ Light, Dark string }

// tones are the colours of series; the seventh series has the first colour and another dash.
var tones = []tone{
	{"#0072B2", "#56B4E9"},
	{"#C2500A", "#FF8C42"},
	{"#00795A", "#2FC79A"},
	{"#9B4F96", "#D59BD2"},
	{"#8A6D00", "#E3C044"},
	{"#5F6B7A", "#A9B4C0"},
}

func (t tone) color() color.Color {
	c := color.RGBA{A: 255}
	_, _ = fmt.Sscanf(t.Light, "#%02X%02X%02X", &c.R, &c.G, &c.B) // all tones are valid
	return c
}

func toneOf(series int) tone { return tones[series%len(tones)] }

// dashOf returns the dashes of a series, so that lines differ not only by colour.
func dashOf(series int) []vg.Length {
	if series == 0 {
		return nil
	}
	return []vg.Length{vg.Points(float64(2 + 2*series)), vg.Points(2)}
}

func lineStyle(series int) draw.LineStyle {
	return draw.LineStyle{Color: toneOf(series).color(), Width: vg.Points(1.5), Dashes: dashOf(series)}
}

// maxDots limits the dots of one run in a chart.
const maxDots = 2000

// A series is the dots of one colour, and a line with steps through some of them.
type series struct {
	number     int
	dots, line plotter.XYs
}

const (
	chartWidth  = 480 // so that texts can be read at the width of a telephone
	chartHeight = 240
	barHeight   = 26 // for one bar
)

// ticks are the ticks of a linear axis.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(low, high float64) []plot.Tick {
	all := plot.DefaultTicks{}.Ticks(low, high)
	for i, tick := range all {
		if tick.Label != "" {
			all[i].Label = valuetext.Thousands(tick.Value)
		}
	}
	return all
}

// newPlot returns a plot without background, with one font.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font.Variant, a.Tick.Label.Font.Variant = "Sans", "Sans"
		a.Tick.Marker = ticks{}
	}
	return p
}

// svg draws a plot of a height in points, as an element for an HTML page.
func svg(p *plot.Plot, height float64) (template.HTML, error) {
	c := vgsvg.NewWith(vgsvg.UseWH(chartWidth, vg.Points(height)))
	p.Draw(draw.Crop(draw.New(c), vg.Points(6), vg.Points(-14), 0, vg.Points(-6))) // room for labels at the ends
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	_, element, ok := bytes.Cut(b.Bytes(), []byte("<svg")) // without the XML declaration
	if !ok {
		return "", fmt.Errorf("a chart of %d bytes is no SVG", b.Len())
	}
	return template.HTML("<svg" + string(element)), nil // the library escapes texts
}

// drawSeries draws the dots and lines of series.
func drawSeries(x, y string, all []series) (template.HTML, error) {
	p := newPlot(x, y)
	smallest, largest := math.Inf(1), math.Inf(-1)
	for _, c := range all {
		for _, d := range c.dots {
			smallest, largest = min(smallest, d.Y), max(largest, d.Y)
		}
	}
	if smallest > 0 && largest/smallest > 100 { // of fewer than two decades, the axis has no second label
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}

	for _, c := range all {
		dots, err := plotter.NewScatter(thin(c.dots))
		if err != nil {
			return "", err
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: toneOf(c.number).color(), Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
		line, err := plotter.NewLine(c.line)
		if err != nil {
			return "", err
		}
		line.StepStyle, line.LineStyle = plotter.PostStep, lineStyle(c.number)
		p.Add(dots, line)
	}
	return svg(p, chartHeight)
}

// thin returns every n-th dot, at most maxDots.
func thin(dots plotter.XYs) plotter.XYs {
	every := (len(dots) + maxDots - 1) / maxDots
	if every <= 1 {
		return dots
	}
	var kept plotter.XYs
	for i := 0; i < len(dots); i += every {
		kept = append(kept, dots[i])
	}
	return kept
}

// drawBars draws one bar for each name, with a part for each series; values has a row for each series.
func drawBars(x string, names []string, values [][]float64) (template.HTML, error) {
	p := newPlot(x, "")
	var below *plotter.BarChart
	for i, row := range values {
		bars, err := plotter.NewBarChart(plotter.Values(row), vg.Points(barHeight/2))
		if err != nil {
			return "", err
		}
		bars.Horizontal, bars.Color, bars.LineStyle = true, toneOf(i).color(), draw.LineStyle{}
		if below != nil {
			bars.StackOn(below)
		}
		below = bars
		p.Add(bars)
	}
	p.NominalY(names...)
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}} // the first one on top
	p.X.Min, p.Y.Padding = 0, vg.Points(4)
	return svg(p, float64(barHeight*len(names)+50))
}
