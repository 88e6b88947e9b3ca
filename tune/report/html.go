package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/tune"
)

// A Run is a tuning run with a name.
type Run struct {
	Name       string
	Results    []tune.Result  // in order of finishing, as tune.ReadResults and tune.Run.Results return them
	Recoveries map[string]int // of each board, by its name in the results; nil: unknown
	Wear       []device.DeviceWear
}

// fastestRows is the number of candidates in the page's lists of the fastest.
const fastestRows = 20

// WriteHTML writes one page that compares runs: the fastest candidates, the best time so far by candidates and by
// time, the distribution of times, size against time, the time of each step, failures by class, the work of each board,
// and the wear of its devices. Times are shown together only if tune.Rank puts them into one ranking. The page needs no
// other file: its charts are inline SVG, and it has no script. Its security policy keeps a browser from loading or
// running anything, whatever the names in the results are. The same runs give the same bytes.
func WriteHTML(w io.Writer, runs ...Run) error {
	summary := &table{Head: []string{
		"run", "candidates", "with a time", "measured as another's", "failed", "from", "worked for", "candidates a minute",
	}}

	var shown []shownRun
	var groups []group
	var wear []device.DeviceWear

	for i, r := range runs {
		s := shownRun{r, i, fmt.Sprintf("%d: %s", i+1, short(r.Name, 40)), workOf(r.Results)}
		s.summary(summary)
		// Rankings under equal conditions are one group, whatever runs they are of.
		for _, k := range tune.Rank(r.Results) {
			at := slices.IndexFunc(groups, func(g group) bool { return g[0].Conditions == k.Conditions })
			if at < 0 {
				at, groups = len(groups), append(groups, nil)
			}
			groups[at] = append(groups[at], newMember(s, k))
		}

		shown, wear = append(shown, s), append(wear, r.Wear...)
	}

	p := page{
		Title: "Tuning runs", Sections: []section{{Blocks: []block{{Table: summary}}}},
		Intro: "A time is the median of a candidate's samples, an interval that of their mean (95 %). Times are compared " +
			"only where board, tier and platform are the same.",
	}
	for n, g := range groups {
		s, err := g.section(n + 1)
		if err != nil {
			return err
		}
		p.Sections = append(p.Sections, s)
	}

	p.Sections = append(p.Sections, section{Title: "All times, failures and boards", Blocks: []block{
		stepsOf(shown), failuresOf(shown), boardsOf(shown),
	}})
	return p.write(w, wear)
}

// A shownRun is a run with the values that several figures show.
type shownRun struct {
	Run
	number int    // from 0
	label  string // number from 1 and name, since names may be equal
	work   work
}

func (s *shownRun) summary(t *table) {
	timed, same := 0, 0

	for _, r := range s.Results {
		if r.Failure == nil {
			timed++
			if r.SameAs != "" {
				same++
			}
		}
	}

	from, rate := "-", "-"
	if len(s.work) > 0 {
		from = s.work[0].from.UTC().Format(time.DateTime) + " UTC"
	}
	if minutes := s.work.total().Minutes(); minutes > 0 {
		rate = fmt.Sprintf("%.1f", float64(len(s.Results))/minutes)
	}

	t.add(s.label, len(s.Results), timed, same, len(s.Results)-timed, from, s.work.total().Round(time.Second/10).String(),
		rate)
}

// A group is the rankings of all runs whose times may be compared.
type group []member

// A member is a ranking of a run.
type member struct {
	tune.Ranking
	run    shownRun
	points []point // its results, in order of finishing
}

// A point is a candidate with a time.
type point struct {
	tried  int           // candidates of this kind of board that were finished, with this one
	worked time.Duration // time that the run had worked
	result tune.Result
}

func newMember(run shownRun, k tune.Ranking) member {
	m := member{k, run, nil}

	ranked := map[string]bool{}
	for _, r := range k.Results {
		ranked[r.ID] = true
	}

	tried := 0
	for _, r := range run.Results {
		if r.Kind != k.Results[0].Kind {
			continue
		}
		tried++
		if ranked[r.ID] {
			m.points = append(m.points, point{tried, run.work.until(r.Finished), r})
		}
	}

	return m
}

// section returns section number n, from 1.
func (g group) section(n int) (section, error) {
	u := unitOf(g)
	s := section{Title: g[0].Conditions}
	err := s.draw(n, g.bestByCandidate(u), g.bestByTime(u), g.distribution(u), g.sizes(u))

	for _, m := range g {
		b := block{
			Title: "Fastest of run " + m.run.label + "; speed-up over " + short(m.Baseline.ID, 48),
			Table: fastest(m.Ranking, u, fastestRows),
		}
		s.Blocks = append(s.Blocks, b)

		if more := len(m.Results) - fastestRows; more > 0 {
			s.Blocks = append(s.Blocks, block{Text: fmt.Sprintf("And %d more.", more)})
		}
	}

	return s, err
}

func (g group) bestByCandidate(u unit) figure {
	f := figure{ID: "best-by-candidate", Title: "Best time by candidates", X: "candidates tried"}
	return g.best(f, u, func(p point) float64 { return float64(p.tried) })
}

func (g group) bestByTime(u unit) figure {
	longest := time.Duration(0)
	for _, m := range g {
		longest = max(longest, m.run.work.total())
	}

	name, scale := "seconds", time.Second
	if longest > 2*time.Hour {
		name, scale = "hours", time.Hour
	} else if longest > 2*time.Minute {
		name, scale = "minutes", time.Minute
	}

	f := figure{ID: "best-by-time", Title: "Best time by time", X: name + " of work"}
	return g.best(f, u, func(p point) float64 { return p.worked.Seconds() / scale.Seconds() })
}

// best shows times as dots over a position, and the best time so far as a line.
func (g group) best(f figure, u unit, position func(point) float64) figure {
	f.Y, f.Table.Head = "time per call, "+u.name, []string{"run", f.X, "best so far, " + u.name, "candidate"}
	f.Words = "Each dot is a candidate, the line is the best time so far, over " + f.X + ". "

	for _, m := range g {
		s := series{number: m.run.number}
		shortest, end := math.Inf(1), 0.0

		for _, p := range m.points {
			t := p.result.Time.Median
			end = max(position(p), end) // results that finish together may be out of order

			s.dots = append(s.dots, plotter.XY{X: end, Y: t * u.second})
			if t < shortest {
				shortest = t
				s.line = append(s.line, plotter.XY{X: end, Y: t * u.second})
				f.Table.add(m.run.label, end, u.text(t), short(p.result.ID, 48))
			}
		}

		// The line reaches to the last candidate.
		improvements := len(s.line) - 1
		s.line = append(s.line, plotter.XY{X: end, Y: shortest * u.second})

		f.add(s, m.run.label, "Run %s: from %s %s at first to %s %s, in %d improvements", m.run.label,
			u.text(m.points[0].result.Time.Median), u.name, u.text(shortest), u.name, improvements)

		if len(s.dots) > maxDots {
			f.Words += fmt.Sprintf("The chart shows %d of its %d candidates. ", len(thin(s.dots)), len(s.dots))
		}
	}
	return f
}

// distribution shows the times of candidates in their order.
func (g group) distribution(u unit) figure {
	f := figure{
		ID: "times", Title: "Distribution of times", Words: "Each dot is a candidate, in the order of times. ",
		X: "candidates", Y: "time per call, " + u.name,
		Table: table{Head: []string{"run, in " + u.name, "fastest", "25 %", "50 %", "75 %", "slowest"}},
	}
	for _, m := range g {
		s := series{number: m.run.number}
		for i, r := range m.Results {
			s.dots = append(s.dots, plotter.XY{X: float64(i + 1), Y: r.Time.Median * u.second})
		}

		s.line = s.dots

		row := []any{m.run.label}
		for quarter := range 5 {
			row = append(row, u.text(m.Results[(len(s.dots)-1)*quarter/4].Time.Median))
		}

		f.Table.add(row...)
		f.add(s, m.run.label, "Run %s: %d with a time, from %s to %s %s, half of them at most %s %s", m.run.label,
			len(s.dots), row[1], row[5], u.name, row[3], u.name)
	}
	return f
}

// sizes shows the size of candidates against their time.
func (g group) sizes(u unit) figure {
	f := figure{
		ID: "sizes", Title: "Size against time", X: "time per call, " + u.name, Y: "bytes",
		Words: "Each dot is a candidate. A line joins those than which no other one is both faster and smaller. ",
		Table: table{Head: []string{"run", "candidate", "time, " + u.name, "bytes"}},
	}
	for _, m := range g {
		var dots []dot
		for _, r := range m.Results {
			dots = append(dots, dot{r.Time.Median * u.second, float64(r.Bytes), short(r.ID, 48)})
		}

		for _, d := range f.addFront(m.run.number, m.run.label, dots) {
			f.Table.add(m.run.label, d.name, u.text(d.x/u.second), d.y)
		}
	}
	return f
}

// stepsOf shows the mean time of each step.
func stepsOf(runs []shownRun) block {
	t := &table{Head: []string{"run", "kind", "build, ms", "wait, ms", "load, ms", "run, ms"}}
	for _, s := range runs {
		kinds := map[string][]tune.Result{}
		for _, r := range s.Results {
			kinds[r.Kind] = append(kinds[r.Kind], r)
		}

		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			row := []any{s.label, kind}
			for step := range 4 {
				sum := 0.0
				for _, r := range kinds[kind] {
					times := [...]time.Duration{r.Build, r.Wait, r.Load, r.Run}
					sum += max(0, times[step].Seconds())
				}

				row = append(row, fmt.Sprintf("%.2f", 1000*sum/float64(len(kinds[kind]))))
			}
			t.add(row...)
		}
	}

	return block{
		Title: "Time by step", Table: t,
		Text: "Mean milliseconds that a candidate took to be compiled and linked (build), waited for a board (wait), and " +
			"took to be loaded (load), and to be called and checked (run).",
	}
}

// failuresOf lists failures by class and blame, with the first of each.
func failuresOf(runs []shownRun) block {
	t := &table{Head: append([]string{"run"}, reasonHead...)}
	for _, s := range runs {
		t.addReasons(s.Results, s.label)
	}
	return block{Title: "Failures", Table: t}
}

// boardsOf shows the work of each board.
func boardsOf(runs []shownRun) block {
	t := &table{Head: []string{"run", "board", "kind", "candidates", "busy", "recoveries"}}
	for _, s := range runs {
		boards := map[string][]tune.Result{}
		for _, r := range s.Results {
			if r.Board != "" && r.SameAs == "" { // it was measured
				boards[r.Board] = append(boards[r.Board], r)
			}
		}

		for _, name := range slices.Sorted(maps.Keys(boards)) {
			busy := time.Duration(0) // loading and calling
			for _, r := range boards[name] {
				busy += max(r.Load, 0) + max(r.Run, 0)
			}

			share := 0.0
			if total := s.work.total(); total > 0 {
				share = 100 * min(1, float64(busy)/float64(total))
			}

			recoveries := any("-")
			if s.Recoveries != nil {
				recoveries = s.Recoveries[name]
			}

			t.add(s.label, name, boards[name][0].Kind, len(boards[name]), fmt.Sprintf("%.1f %%", share), recoveries)
		}
	}

	return block{
		Title: "Boards", Table: t,
		Text: "Busy is the share of the time in which the run worked that a board loaded and called candidates, without " +
			"resets and the reference.",
	}
}
