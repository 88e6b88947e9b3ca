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

	"github.com/boardsmith/boardsmith/internal/format"
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

// colorOf returns the colour of a series on a light page.
func colorOf(series int) color.Color {
	c := color.RGBA{A: 255}
	_, _ = fmt.Sscanf(tones[series%len(tones)].Light, "#%02X%02X%02X", &c.R, &c.G, &c.B) // all tones are valid
	return c
}

// A series is the dots of one colour, and a line with steps through some of them.
type series struct {
	number     int
	dots, line plotter.XYs
}

// lineStyle returns the style of a line. Lines differ not only by colour.
func (s series) lineStyle() draw.LineStyle {
	style := draw.LineStyle{Color: colorOf(s.number), Width: vg.Points(1.5)}

	if s.number > 0 {
		style.Dashes = []vg.Length{vg.Points(float64(2 + 2*s.number)), vg.Points(2)}
	}

	return style
}

// add adds a series with its name, and a sentence about it.
func (f *figure) add(s series, name, format string, args ...any) {
	f.series = append(f.series, s)
	f.Legend = append(f.Legend, legend{s.number % len(tones), name})
	f.Words += fmt.Sprintf(format+". ", args...)
}

// A bar has a part for each tone.
type bar struct {
	name  string
	parts []float64
}

func (f *figure) addBar(name string, parts ...float64) {
	f.bars = append(f.bars, bar{short(name, 28), parts})
}

const (
	maxDots     = 2000 // of one series
	chartWidth  = 480  // so that texts can be read at the width of a telephone
	chartHeight = 240
	barHeight   = 26 // for one bar
)

// ticks returns the ticks of a linear axis.
func ticks(low, high float64) []plot.Tick {
	all := plot.DefaultTicks{}.Ticks(low, high)

	for i, tick := range all {
		if tick.Label != "" {
			all[i].Label = format.Thousands(tick.Value)
		}
	}
	return all
}

// chart draws the figure's series or bars, as an element for an HTML page.
func (f *figure) chart() (template.HTML, error) {
	p := plot.New()

	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = f.X, f.Y

	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font.Variant, a.Tick.Label.Font.Variant = "Sans", "Sans"
		a.Tick.Marker = plot.TickerFunc(ticks)
	}

	height, err := chartHeight, error(nil)
	switch {
	case f.series != nil:
		err = f.plotSeries(p)
	case f.bars != nil:
		height, err = barHeight*len(f.bars)+50, f.plotBars(p)
	default:
		return "", nil
	}

	if err != nil {
		return "", err
	}

	c := vgsvg.NewWith(vgsvg.UseWH(chartWidth, vg.Points(float64(height))))
	p.Draw(draw.Crop(draw.New(c), vg.Points(6), vg.Points(-14), 0, vg.Points(-6))) // room for labels at the ends

	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	_, element, _ := bytes.Cut(b.Bytes(), []byte("<svg")) // without the XML declaration
	return template.HTML("<svg" + string(element)), nil   // the library escapes texts
}

// plotSeries draws dots and lines.
func (f *figure) plotSeries(p *plot.Plot) error {
	smallest, largest := math.Inf(1), math.Inf(-1)
	for _, s := range f.series {
		for _, d := range s.dots {
			smallest, largest = min(smallest, d.Y), max(largest, d.Y)
		}

		dots, err := plotter.NewScatter(thin(s.dots))
		if err != nil {
			return err
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: colorOf(s.number), Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}

		line, err := plotter.NewLine(s.line)
		if err != nil {
			return err
		}

		line.StepStyle, line.LineStyle = plotter.PostStep, s.lineStyle()
		p.Add(dots, line)
	}

	if smallest > 0 && largest/smallest > 100 { // of fewer than two decades, the axis has no second label
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	return nil
}

// thin returns every n-th dot, at most maxDots.
func thin(dots plotter.XYs) (kept plotter.XYs) {
	for i := 0; i < len(dots); i += (len(dots)-1)/maxDots + 1 {
		kept = append(kept, dots[i])
	}
	return kept
}

// plotBars draws bars, the first one on top.
func (f *figure) plotBars(p *plot.Plot) error {
	var names []string
	for _, b := range f.bars {
		names = append(names, b.name)
	}

	var below *plotter.BarChart

	for part := range f.bars[0].parts {
		var values plotter.Values
		for _, b := range f.bars {
			values = append(values, b.parts[part])
		}

		bars, err := plotter.NewBarChart(values, vg.Points(barHeight/2))
		if err != nil {
			return err
		}

		bars.Horizontal, bars.Color, bars.LineStyle = true, colorOf(part), draw.LineStyle{}
		if below != nil {
			bars.StackOn(below)
		}
		below = bars
		p.Add(bars)
	}

	p.NominalY(names...)
	// An axis begins at the bottom, but the first bar is on top.
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	p.X.Min, p.Y.Padding = 0, vg.Points(4)

	return nil
}
