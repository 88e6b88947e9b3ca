package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/measure"
)

// measurements returns results with hostile names, one of them a failure, and a baseline of the first.
func measurements() ([]*measure.Result, *measure.Baseline) {
	var all []*measure.Result
	for i := range 3 {
		flash := int64(1000 - 100*i)
		all = append(all, &measure.Result{
			Board: "b", Model: fmt.Sprintf("m%d %s", i, hostile), App: "rpc", Flash: flash, RAM: 300, Stack: 100,
			StackPath: []string{"main 60", "run " + hostile + " 40"},
			Cost:      measure.Cost{Unit: measure.Instructions, Median: float64(1000 + 10*i)},
			Parts:     []measure.Part{{Name: "runtime", Flash: flash, RAM: 300}},
			Regions:   []measure.Region{{Name: hostile, Size: 4096, Used: 1024}},
			Operators: []measure.Operator{{Node: hostile, Median: 12}},
			FlashOf:   map[string]int64{"operators: " + hostile: 77}, RAMOf: map[string]int64{"main: buffer": 200},
		})
	}
	b := &measure.Baseline{}
	old := *all[0]
	old.Flash = 900
	b.Update([]*measure.Result{&old})
	lost := &measure.Result{Board: "b", Model: "x", Failure: &measure.Failure{Class: "fault", Error: hostile}}
	return append(all, lost), b
}

// TestMeasurements parses the page of measurements: it has the charts, what differs from the baseline, the failure, and
// nothing of a name as markup.
func TestMeasurements(t *testing.T) {
	results, b := measurements()
	var page strings.Builder
	if err := WriteMeasurements(&page, results, b, measure.Limits{}); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, id := range []string{"pareto", "parts-1", "regions-2", "operators-3"} {
		if !strings.Contains(text, `<figure id="`+id+`">`) {
			t.Errorf("no figure %s", id)
		}
	}
	for _, want := range []string{
		"900 → 1,000 (&#43;11.11 %)", "above the limit of &#43;0 %", "Before: flash 900 bytes", "25.0 % of 4096 bytes",
		"<h2>Not measured</h2>", "main 60\n└ run ", "<td>77</td>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(text, hostile) || strings.Contains(text, "<script") {
		t.Error("a name is markup")
	}
	checkElements(t, text)
	page.Reset()
	if err := WriteMeasurements(&page, results[:1], nil, measure.Limits{}); err != nil ||
		!strings.Contains(page.String(), "fewer than two results") || strings.Contains(page.String(), "Before:") {
		t.Errorf("%v\n%s", err, page.String())
	}
}

// checkElements checks that elements are closed in their order, and that no attribute can load anything.
func checkElements(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta"}, xml.HTMLEntity
	var open []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			open = append(open, e.Name.Local)
			for _, a := range e.Attr {
				if a.Name.Local == "src" || a.Name.Local == "href" || strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("<%s> has %s", e.Name.Local, a.Name.Local)
				}
			}
		case xml.EndElement:
			if last := len(open) - 1; last < 0 || open[last] != e.Name.Local {
				t.Fatalf("</%s> in %v", e.Name.Local, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("not closed: %v", open)
	}
}

// TestLargestParts: parts without a colour of their own are one.
func TestLargestParts(t *testing.T) {
	var all []measure.Part
	for i := range len(tones) + 2 {
		all = append(all, measure.Part{Name: fmt.Sprint(i), Flash: int64(i)})
	}
	if got := strings.Join(largestParts(all), " "); got != "7 6 5 4 3 "+otherParts {
		t.Error(got)
	}
	if got := strings.Join(largestParts(all[:3]), " "); got != "0 1 2" {
		t.Error(got)
	}
}
