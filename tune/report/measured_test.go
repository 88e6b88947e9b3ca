package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/measure"
)

// measurements returns results with hostile names, one of them a failure, and a baseline of the first.
func measurements() ([]*measure.Result, *measure.Baseline) {
	var all []*measure.Result
	for i := range 3 {
		flash := int64(1000 - 100*i)
		all = append(all, &measure.Result{
			Board: "b", Model: fmt.Sprintf("m%d %s", i, hostile), App: "rpc", Flash: flash, RAM: 300, Stack: 100,
			StackUnsure: []string{"a call through a pointer"},
			StackPath:   []string{"main 60", "run " + hostile + " 40"},
			Cost:        measure.Cost{Unit: "instructions", Median: float64(1000 + 10*i)},
			Parts:       []fit.Share{{Name: "runtime", Flash: flash, RAM: 300}},
			Regions:     []fit.RegionUse{{Name: hostile, Size: 4096, Used: 1024}},
			Operators:   []measure.Operator{{Node: hostile, Median: 12}},
			FlashOf:     map[string]int64{"operators: " + hostile: 77}, RAMOf: map[string]int64{"main: buffer": 200},
		})
	}
	b := &measure.Baseline{}
	old := *all[0]
	old.Flash, old.Options = 900, []string{"operator_opt=Os"}
	b.Update([]*measure.Result{&old})
	lost := &measure.Result{Board: "b", Model: "x", Failure: &measure.Failure{Class: "fault", Error: hostile}}
	stopped := &measure.Result{Board: "b", Model: "y", Failure: &measure.Failure{
		Class: "fault", Error: hostile, Cause: "bus fault " + hostile, Operator: "conv " + hostile,
		Calls: []string{"conv at model/lib.c:7 " + hostile, "run"}, Next: "check the line",
	}}
	return append(all, lost, stopped), b
}

// written returns a page of measurements.
func written(t *testing.T, x Measurements) string {
	t.Helper()
	var page strings.Builder
	must(t, x.WriteHTML(&page))
	return page.String()
}

// TestMeasurements parses the page of measurements: it has the charts, what differs from the baseline, failures, and
// nothing of a name as markup.
func TestMeasurements(t *testing.T) {
	results, b := measurements()
	x := Measurements{Table: measure.Table{Results: results, Baseline: b}, Wear: []device.DeviceWear{worn()}}
	text := written(t, x)
	testkit.WantText(t, text, `<figure id="pareto">`, `<figure id="parts-1">`, `<figure id="regions-2">`,
		`<figure id="operators-3">`, `<figure id="wear-1">`,
		"900 → 1,000 (&#43;11.11 %)", "above the limit of &#43;0 %", "Before: flash 900 bytes", "25.0 % of 4,096 bytes",
		"<h2>Not measured</h2>", "main 60\n└ run ", "<h3>y on b", "<pre>run\n└ conv at model/lib.c:7 ",
		`<th scope="col" class="number">flash</th>`, `<td data-head="flash" class="number">77</td>`,
		"<li>stack may be more: a call through a pointer</li>", "<li>the options differ: none, not operator_opt=Os</li>")
	if strings.Contains(text, hostile) || strings.Contains(text, "<script") {
		t.Error("a name is markup")
	}
	for _, not := range []string{">outputs<", ">energy<"} {
		if strings.Contains(text, not) {
			t.Errorf("the page has %s", not)
		}
	}
	checkElements(t, text)
	text = written(t, Measurements{Table: measure.Table{Results: results[:1]}})
	testkit.WantText(t, text, "fewer than two results")
	if strings.Contains(text, "Before:") {
		t.Error("what differs from no baseline")
	}
	built := *results[0]
	built.Cost, built.Operators = measure.Cost{}, nil
	text = written(t, Measurements{Title: "Build", Table: measure.Table{Results: []*measure.Result{&built}}})
	testkit.WantText(t, text, "<h1>Build</h1>", "parts-1")
	if strings.Contains(text, "pareto") {
		t.Error("costs of what was only built")
	}
}

// worn is a device of which the second sector was erased most often, among more sectors than there are squares.
func worn() device.DeviceWear {
	d := device.DeviceWear{Device: "chip:" + hostile, Board: "b", Flashes: 7}
	for i := range maxSquares + 1 {
		d.Sectors = append(d.Sectors, device.SectorWear{
			Region: "flash", Index: i, Addr: uint64(4096 * i), Size: 4096, Rated: 10000,
		})
	}
	d.Sectors[1].Erases, d.Sectors[2].Erases = 40, 20
	return d
}

// TestHeatMap: a square is as opaque as its most worn sector.
func TestHeatMap(t *testing.T) {
	h := heatMapOf(worn())
	if len(h.Squares) != maxSquares/2+1 || h.Squares[0] != 1 || h.Squares[1] != 0.5 || h.Squares[2] != palest ||
		len(h.Table.Rows) != 4 || !strings.Contains(h.Words, "0.4 % of its rated erases") ||
		!strings.Contains(h.Words, "2 sectors share a square") {
		t.Errorf("%d squares, %v, %q, %s", len(h.Squares), h.Squares[:3], h.Table.Rows, h.Words)
	}
	if h := heatMapOf(device.DeviceWear{}); len(h.Squares) != 0 {
		t.Errorf("of no sectors: %+v", h)
	}
}

// TestRunPage: the page of a run has the size against the time of its candidates, and the wear of its devices.
func TestRunPage(t *testing.T) {
	r := search("grid", 1e-3)
	r.Wear = []device.DeviceWear{worn()}
	var page strings.Builder
	must(t, WriteHTML(&page, r))
	testkit.WantText(t, page.String(), `<figure id="sizes-1">`, `<figure id="wear-1">`, "both faster and smaller")
	checkElements(t, page.String())
}

// TestFront: what costs the same is in the front if it is smaller, and nothing that is larger.
func TestFront(t *testing.T) {
	dots := []dot{{3, 10, "c"}, {1, 30, "a"}, {2, 30, "larger"}, {2, 20, "b"}, {4, 10, "slower"}}
	var f figure
	f.addFront(0, "front", dots)
	testkit.Equal(t, "words", f.Words, "front: a, b, c. ")
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
		must(t, err)
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
	var all []fit.Share
	for i := range len(tones) + 2 {
		all = append(all, fit.Share{Name: fmt.Sprint(i), Flash: int64(i)})
	}
	testkit.Equal(t, "parts", strings.Join(largestParts([]*measure.Result{{Parts: all}}), " "), "7 6 5 4 3 "+otherParts)
	two := largestParts([]*measure.Result{{Parts: all[:2]}, {Parts: all[2:3]}})
	testkit.Equal(t, "parts of two", two, []string{"2", "1", "0"})
}
