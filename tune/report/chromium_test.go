//go:build linux

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/measure"
)

// A visit is what a browser did with a page.
type visit struct {
	dom     string   // the document in the end
	loaded  []string // all addresses that it asked for, without the page's own
	console []string // lines of its console: errors, and violations of the page's policy
}

// browser is the path of a Chromium without a window; tests are skipped where there is none.
func browser(t *testing.T) string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := command.Find(name, ""); err == nil {
			return path
		}
	}
	t.Skip("no Chromium is installed (Debian: chromium-headless-shell)")
	return ""
}

// open has a browser open a page. It can reach no other computer.
func open(t *testing.T, page string, flags ...string) visit {
	t.Helper()
	dir := t.TempDir()
	file, log := dir+"/page.html", dir+"/net.json"
	testkit.WriteFile(t, file, page)
	ctx := testkit.Context(t)
	var dom, said bytes.Buffer
	cmd := exec.CommandContext(ctx, browser(t), slices.Concat([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--user-data-dir=" + dir,
		"--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
		"--enable-logging=stderr", "--log-net-log=" + log, "--dump-dom",
	}, flags, []string{"file://" + file})...)
	cmd.Stdout, cmd.Stderr = &dom, &said
	cmd.Env = append(command.Environment(dir), "HOME="+dir)
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	v := visit{dom: dom.String()}
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "CONSOLE") {
			v.console = append(v.console, strings.TrimSpace(line))
		}
	}
	for _, m := range regexp.MustCompile(`"url":"([^"]*)"`).FindAllSubmatch(readFile(t, log), -1) {
		if address := string(m[1]); address != "file://"+file && !slices.Contains(v.loaded, address) {
			v.loaded = append(v.loaded, address)
		}
	}
	return v
}

// inspect is put at the beginning of a page's head, before its policy, and writes into the document what was drawn.
const inspect = `<script>addEventListener("load", () => {
  const found = {title: document.title, scripts: document.scripts.length, images: document.images.length, figures: {}};
  const style = (e) => getComputedStyle(e);
  found.page = style(document.body).backgroundColor;
  found.text = style(document.body).color;
  found.wide = document.documentElement.scrollWidth > innerWidth ||
    Array.from(document.querySelectorAll(".wide, pre")).some((e) => e.scrollWidth > e.clientWidth);
  for (const f of document.querySelectorAll("figure")) {
    const svg = f.querySelector("svg");
    if (!svg) { continue; }
    const frame = svg.getBoundingClientRect();
    const seen = {fills: {}, strokes: {}, outside: [], texts: [], colours: []};
    seen.label = f.querySelector("[role=img]").ariaLabel;
    for (const e of svg.querySelectorAll("path, text")) {
      const box = e.getBoundingClientRect();
      if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
          box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        seen.outside.push(e.outerHTML);
      }
      if (e.tagName === "text") {
        seen.texts.push(e.textContent);
        seen.colours.push(style(e).fill);
        continue;
      }
      const s = style(e), count = (all, c) => { if (c !== "none") { all[c] = (all[c] || 0) + 1; } };
      count(seen.fills, s.fill);
      count(seen.strokes, s.stroke);
    }
    found.figures[f.id] = seen;
  }
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
});</script>`

type drawing struct {
	Fills, Strokes map[string]int // paths, by their colour
	Outside        []string       // of the chart
	Texts, Colours []string
	Label          string
}

// found is what inspect writes.
type found struct {
	Title           string
	Scripts, Images int
	Page, Text      string // colours
	Wide            bool   // the page, or a table or tree in it, must be scrolled sideways
	Figures         map[string]drawing
}

func inspected(t *testing.T, page string, flags ...string) (found, visit) {
	t.Helper()
	v := open(t, strings.Replace(page, `<meta charset="utf-8">`, `<meta charset="utf-8">`+inspect, 1), flags...)
	_, text, ok := strings.Cut(v.dom, `<pre id="found">`)
	text, _, end := strings.Cut(text, "</pre>")
	var f found
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), &f); !ok || !end || err != nil {
		t.Fatalf("the page was not inspected: %v\n%s", err, text)
	}
	return f, v
}

// checked is inspected of a page that loads and reports nothing, fits into the window, and is light or dark.
func checked(t *testing.T, page string, dark bool, flags ...string) found {
	t.Helper()
	f, v := inspected(t, page, flags...)
	if len(v.loaded) > 0 || len(v.console) > 0 || f.Wide || f.Scripts != 1 || f.Images != 0 ||
		dark != (f.Page != "rgb(255, 255, 255)") {
		t.Errorf("%q: loaded %q, printed %q, %+v", flags, v.loaded, v.console, f)
	}
	for id, d := range f.Figures {
		if len(d.Outside) > 0 {
			t.Errorf("%s: outside of the chart: %q", id, d.Outside)
		}
	}
	return f
}

// rgb is how a browser writes a colour.
func rgb(colour string) string {
	var r, g, b int
	_, _ = fmt.Sscanf(colour, "#%02X%02X%02X", &r, &g, &b)
	return fmt.Sprintf("rgb(%d, %d, %d)", r, g, b)
}

// TestBrowserRendersPage opens a page of two runs, one of them with hostile names, on a wide light and a narrow dark
// screen:
// nothing else is loaded, nothing is complained of, and each chart has as many points as there are results.
func TestBrowserRendersPage(t *testing.T) {
	runs := []Run{search("grid", 1.2e-3), search(hostile, 0.9e-3)}
	for i := range runs[1].Results {
		runs[1].Results[i].ID += hostile
	}
	var page strings.Builder
	must(t, WriteHTML(&page, runs...))
	for name, c := range map[string]struct {
		flags []string
		tone  func(tone) string
	}{
		"light": {[]string{"--window-size=1280,900"}, func(t tone) string { return t.Light }},
		"dark": {
			[]string{"--window-size=360,900", "--blink-settings=preferredColorScheme=0"}, func(t tone) string { return t.Dark },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := checked(t, page.String(), name == "dark", c.flags...)
			testkit.Equal(t, "title", f.Title, "Tuning runs")
			checkDrawings(t, f, runs, func(series int) string { return rgb(c.tone(tones[series])) })
		})
	}
}

func checkDrawings(t *testing.T, f found, runs []Run, colour func(int) string) {
	t.Helper()
	const groups = 2
	testkit.Equal(t, "charts", len(f.Figures), 4*groups)
	for id, d := range f.Figures {
		if len(d.Label) < 40 || len(d.Texts) < 3 {
			t.Errorf("%s: text alternative %q, texts %q", id, d.Label, d.Texts)
		}
		for _, c := range d.Colours {
			testkit.Equal(t, id+": a text", c, f.Text)
		}
	}
	expect := func(id, what string, counts map[string]int, series, want int) {
		t.Helper()
		if got := counts[colour(series)]; got != want {
			t.Errorf("%s has %d %s of series %d, want %d: %v", id, got, what, series, want, counts)
		}
	}
	for i, r := range runs {
		timed := map[string]int{}
		for _, x := range r.Results {
			if x.Time != nil {
				timed[x.Kind]++
			}
		}
		for _, id := range []string{"best-by-candidate", "best-by-time"} {
			expect(id+"-1", "dots", f.Figures[id+"-1"].Fills, i, timed["mps2_an385"])
			expect(id+"-2", "dots", f.Figures[id+"-2"].Fills, i, timed["nucleo_f746zg"])
			expect(id+"-1", "lines", f.Figures[id+"-1"].Strokes, i, 1)
		}
		expect("times-1", "dots", f.Figures["times-1"].Fills, i, timed["mps2_an385"])
	}
}

// TestBrowserRendersMeasurements opens the page of measurements in narrow and wide windows, light and dark.
func TestBrowserRendersMeasurements(t *testing.T) {
	results, b := measurements()
	x := Measurements{Table: measure.Table{Results: results, Baseline: b}, Wear: []device.DeviceWear{worn()}}
	page := written(t, x)
	type window struct {
		width int
		dark  bool
	}
	for _, w := range drawn.Of(t, "windows", []window{{360, false}, {1280, true}, {360, true}, {1280, false}}, 2) {
		flags := []string{fmt.Sprintf("--window-size=%d,900", w.width)}
		if w.dark {
			flags = append(flags, "--blink-settings=preferredColorScheme=0")
		}
		if f := checked(t, page, w.dark, flags...); len(f.Figures) != 10 {
			t.Errorf("%+v: %d charts", w, len(f.Figures))
		}
	}
}

// TestPictures compares the pictures in docs/measure.md, by size, with the pages of testdata/measured.json in a
// browser. With -update it draws them: go test ./tune/report -run TestPictures -update
func TestPictures(t *testing.T) {
	var b measure.Baseline // one of its results is a failure, which ReadBaseline refuses
	must(t, json.Unmarshal(readFile(t, "testdata/measured.json"), &b))
	for name, p := range map[string]struct {
		results       []*measure.Result
		width, height int
		flags         []string
	}{
		"report.png": {b.Results[:3], 1280, 1000, nil},
		"fault.png":  {b.Results[3:], 360, 1000, []string{"--blink-settings=preferredColorScheme=0"}},
	} {
		var page strings.Builder
		must(t, (Measurements{Table: measure.Table{Results: p.results}}).WriteHTML(&page))
		screen := t.TempDir() + "/" + name
		open(t, page.String(), append(p.flags, "--hide-scrollbars", "--screenshot="+screen,
			fmt.Sprintf("--window-size=%d,%d", p.width, p.height))...)
		picture, err := png.Decode(bytes.NewReader(readFile(t, screen)))
		must(t, err)
		file := "../../docs/" + name
		if *update {
			var small bytes.Buffer
			encoder := png.Encoder{CompressionLevel: png.BestCompression}
			must(t, encoder.Encode(&small, withPalette(picture)))
			writeFile(t, file, small.String())
		}
		const most = 60 << 10
		shown, err := png.Decode(bytes.NewReader(readFile(t, file)))
		if err != nil || shown.Bounds() != picture.Bounds() || len(readFile(t, file)) > most {
			t.Errorf("%s: %v, %d bytes", file, err, len(readFile(t, file)))
		}
	}
}

// withPalette returns a picture with its most frequent colours only.
func withPalette(picture image.Image) image.Image {
	bounds, counts := picture.Bounds(), map[color.Color]int{}
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			counts[picture.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	small := image.NewPaletted(bounds, colours[:min(len(colours), 64)])
	draw.Draw(small, bounds, picture, image.Point{}, draw.Src)
	return small
}

// TestBrowserErrorsAreDetected: what TestBrowserRendersPage looks for is found on a page that has it, and the page's
// policy forbids it.
func TestBrowserErrorsAreDetected(t *testing.T) {
	const bad = `<script>console.error("wrong")</script>` +
		`<img src="http://192.0.2.1/x.png"><img src="http://example.invalid/x.png">`
	v := open(t, "<!DOCTYPE html><title>bad</title>"+bad)
	if len(v.loaded) < 2 || len(v.console) < 1 {
		t.Errorf("it loaded %q and printed %q", v.loaded, v.console)
	}
	var page strings.Builder
	must(t, WriteHTML(&page, search("grid", 1e-3)))
	v = open(t, strings.Replace(page.String(), "<main>", "<main>"+bad, 1))
	if len(v.loaded) > 0 || len(v.console) < 3 || strings.Contains(strings.Join(v.console, ""), "wrong\"") {
		t.Errorf("under the page's policy it loaded %q and printed %q", v.loaded, v.console)
	}
}
