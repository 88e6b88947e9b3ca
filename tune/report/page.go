// This file defines a page, which its template draws.

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/valuetext"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

type page struct {
	Title, Intro string
	Tones        []tone
	Sections     []section
}

// write writes the page, with the wear of devices at its end.
func (p page) write(w io.Writer, wear []device.DeviceWear) error {
	p.Tones = tones
	if len(wear) > 0 {
		s := section{Title: "Wear"}
		for i, d := range wear {
			s.Blocks = append(s.Blocks, block{Figure: heatMapOf(i+1, d)})
		}
		p.Sections = append(p.Sections, s)
	}
	return pageTemplate.Execute(w, p)
}

// A section is a heading with what is below it.
type section struct {
	Title  string // "": none
	Blocks []block
}

// draw adds figures. Their identifiers end in the number, unless it is 0.
func (s *section) draw(number int, figures ...figure) error {
	for _, f := range figures {
		if f.err != nil {
			return fmt.Errorf("chart %s of %s: %w", f.ID, s.Title, f.err)
		}
		if number > 0 {
			f.ID = fmt.Sprintf("%s-%d", f.ID, number)
		}
		s.Blocks = append(s.Blocks, block{Figure: &f})
	}
	return nil
}

// A block is a part of a section. It shows its fields that are set, in this order.
type block struct {
	Title  string
	Text   string
	Items  []string
	Facts  [][2]string // names and texts
	Tree   string      // lines that are indented
	Table  *table
	Figure *figure
}

// A figure is a chart, its description, and its numbers.
type figure struct {
	ID, Title string
	Words     string
	SVG       template.HTML
	err       error
	Squares   []float64 // in place of SVG: how opaque each is, 0 to 1
	Legend    []legend
	Table     table
}

type legend struct {
	Tone int
	Name string
}

type table struct {
	Head []string
	Rows [][]string
}

func (t *table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Numbers returns the columns that are aligned to the right.
func (t table) Numbers() map[int]bool {
	return valuetext.NumberColumns(append([][]string{t.Head}, t.Rows...))
}
