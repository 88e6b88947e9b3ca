// This file defines a page, which its template draws.

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"reflect"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/format"
)

//go:embed page.html
var pageText string

// The template shows each text as one printable line.
var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"line": printable, "tones": func() []tone { return tones },
}).Parse(pageText))

type page struct {
	Title, Intro string
	Sections     []section
}

// write writes the page, with the wear of devices at its end.
func (p page) write(w io.Writer, wear []device.DeviceWear) error {
	s := section{Title: "Wear"}

	for i, d := range wear {
		if err := s.draw(i+1, heatMapOf(d)); err != nil {
			return err
		}
	}

	if len(wear) > 0 {
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
		var err error
		if f.SVG, err = f.chart(); err != nil {
			return fmt.Errorf("chart %s of %s: %w", f.ID, s.Title, err)
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
	Legend    []legend
	Table     table
	SVG       template.HTML // of series or bars
	Squares   []float64     // how opaque each is, 0 to 1

	X, Y   string // names of the axes
	series []series
	bars   []bar
}

type legend struct {
	Tone int
	Name string
}

type table struct {
	Head []string
	Rows [][]string
}

// add adds a row of numbers, and of texts, which become printable.
func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	number := reflect.TypeFor[float64]()
	for i, c := range cells {
		if v := reflect.ValueOf(c); v.CanConvert(number) {
			row[i] = format.Thousands(v.Convert(number).Float())
		} else {
			row[i] = printable(fmt.Sprint(c))
		}
	}

	t.Rows = append(t.Rows, row)
}

// Numbers returns the columns that are aligned to the right.
func (t table) Numbers() map[int]bool {
	return format.NumberColumns(append([][]string{t.Head}, t.Rows...))
}
