package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/valuetext"
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
	shown := make([]shownRun, len(runs))
	var wear []device.DeviceWear
	for i, r := range runs {
		shown[i] = show(i, r)
		shown[i].summary(summary)
		wear = append(wear, r.Wear...)
	}

	p := page{
		Title: "Tuning runs", Sections: []section{{Blocks: []block{{Table: summary}}}},
		Intro: "A time is the median of a candidate's samples, an interval that of their mean (95 %). Times are compared " +
			"only where board, tier and platform are the same.",
	}
	for n, conditions := range conditionsOf(shown) {
		s, err := rankingOf(n+1, conditions, shown)
		if err != nil {
			return err
		}
		p.Sections = append(p.Sections, s)
	}

	p.Sections = append(p.Sections, section{Title: "All times, failures and boards", Blocks: []block{
		stepsOf(shown), {Title: "Failures", Table: failedTable(shown)}, boardsTable(shown),
	}})
	return p.write(w, wear)
}

// A shownRun is a run with the values that several figures show.
type shownRun struct {
	Run
	number   int    // from 0
	label    string // number from 1 and name, since names may be equal
	rankings []tune.Ranking
	work     work
	boards   []board
}

func show(i int, r Run) shownRun {
	return shownRun{
		Run: r, number: i, label: fmt.Sprintf("%d: %s", i+1, short(r.Name, 40)),
		rankings: tune.Rank(r.Results), work: workOf(r.Results), boards: boardsOf(r.Results),
	}
}

func (s *shownRun) summary(t *table) {
	timed, same, failed := 0, 0, 0
	for _, r := range s.Results {
		switch {
		case r.Failure != nil:
			failed++
		case r.SameAs != "":
			same++
			timed++
		default:
			timed++
		}
	}
	from, rate := "-", "-"
	if len(s.work) > 0 {
		from = s.work[0].from.UTC().Format(time.DateTime) + " UTC"
	}
	if minutes := s.work.total().Minutes(); minutes > 0 {
		rate = fmt.Sprintf("%.1f", float64(len(s.Results))/minutes)
	}
	t.add(s.label, strconv.Itoa(len(s.Results)), strconv.Itoa(timed), strconv.Itoa(same), strconv.Itoa(failed), from,
		s.work.total().Round(time.Second/10).String(), rate)
}

// ranking returns the run's ranking for conditions; nil if it has none.
func (s *shownRun) ranking(conditions string) *tune.Ranking {
	i := slices.IndexFunc(s.rankings, func(k tune.Ranking) bool { return k.Conditions == conditions })
	if i < 0 {
		return nil
	}
	return &s.rankings[i]
}

// conditionsOf returns the conditions of all runs' rankings, in the order of their first results.
func conditionsOf(runs []shownRun) (all []string) {
	for _, s := range runs {
		for _, k := range s.rankings {
			if !slices.Contains(all, k.Conditions) {
				all = append(all, k.Conditions)
			}
		}
	}
	return all
}

// A member is a run's part of a group.
type member struct {
	run    *shownRun
	k      tune.Ranking
	points []point // its results, in order of finishing
}

// A point is a candidate with a time.
type point struct {
	tried  int           // candidates of this kind of board that were finished, with this one
	worked time.Duration // time that the run had worked
	result tune.Result
}

func newMember(run *shownRun, k tune.Ranking) member {
	m := member{run: run, k: k}
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

func (m member) legend() legend { return legend{Tone: m.run.number % len(tones), Name: m.run.label} }

// rankingOf returns section number n, from 1: the times of all runs that may be compared.
func rankingOf(n int, conditions string, runs []shownRun) (section, error) {
	s := section{Title: printable(conditions)}
	var members []member
	var rankings []tune.Ranking
	for i := range runs {
		if k := runs[i].ranking(conditions); k != nil {
			members, rankings = append(members, newMember(&runs[i], *k)), append(rankings, *k)
		}
	}

	u := unitOf(rankings...)
	err := s.draw(n,
		bestByCandidate(members, u),
		bestByTime(members, u),
		distribution(members, u),
		sizes(members, u),
	)
	for _, m := range members {
		b := block{
			Title: "Fastest of run " + m.run.label + "; speed-up over " + short(m.k.Baseline.ID, 48),
			Table: fastest(m.k, u, fastestRows),
		}
		s.Blocks = append(s.Blocks, b)
		if more := len(m.k.Results) - fastestRows; more > 0 {
			s.Blocks = append(s.Blocks, block{Text: fmt.Sprintf("And %d more.", more)})
		}
	}
	return s, err
}

func bestByCandidate(members []member, u unit) figure {
	f := figure{ID: "best-by-candidate", Title: "Best time by candidates"}
	return best(f, members, u, "candidates tried", func(p point) float64 { return float64(p.tried) })
}

func bestByTime(members []member, u unit) figure {
	longest := time.Duration(0)
	for _, m := range members {
		longest = max(longest, m.run.work.total())
	}
	name, scale := "seconds", time.Second
	if longest > 2*time.Hour {
		name, scale = "hours", time.Hour
	} else if longest > 2*time.Minute {
		name, scale = "minutes", time.Minute
	}
	f := figure{ID: "best-by-time", Title: "Best time by time"}
	return best(f, members, u, name+" of work", func(p point) float64 { return p.worked.Seconds() / scale.Seconds() })
}

// best draws times as dots over x, and the best time so far as a line.
func best(f figure, members []member, u unit, x string, position func(point) float64) figure {
	f.Table.Head = []string{"run", x, "best so far, " + u.name, "candidate"}
	var curves []series
	for _, m := range members {
		c := series{number: m.run.number}
		shortest, end := math.Inf(1), 0.0
		for _, p := range m.points {
			xp, t := max(position(p), end), p.result.Time.Median // results that finish together may be out of order
			end = xp
			c.dots = append(c.dots, plotter.XY{X: xp, Y: t * u.second})
			if t < shortest {
				shortest = t
				c.line = append(c.line, plotter.XY{X: xp, Y: t * u.second})
				f.Table.add(m.run.label, valuetext.Thousands(xp), u.text(t), short(p.result.ID, 48))
			}
		}
		c.line = append(c.line, plotter.XY{X: end, Y: shortest * u.second})
		curves, f.Legend = append(curves, c), append(f.Legend, m.legend())
		first := m.points[0].result.Time.Median
		f.Words += fmt.Sprintf("Run %s: from %s %s at first to %s %s, in %d improvements. ",
			m.run.label, u.text(first), u.name, u.text(shortest), u.name, len(c.line)-2)
		if len(c.dots) > maxDots {
			f.Words += fmt.Sprintf("The chart shows %d of its %d candidates. ", len(thin(c.dots)), len(c.dots))
		}
	}
	f.Words = fmt.Sprintf("Each dot is a candidate, the line is the best time so far, over %s. %s", x, f.Words)
	return f.plot(x, "time per call, "+u.name, curves)
}

// plot draws the figure's chart of series.
func (f figure) plot(x, y string, all []series) figure {
	f.SVG, f.err = drawSeries(x, y, all)
	return f
}

// distribution shows the times of candidates in their order.
func distribution(members []member, u unit) figure {
	f := figure{
		ID: "times", Title: "Distribution of times", Words: "Each dot is a candidate, in the order of times. ",
		Table: table{Head: []string{"run, in " + u.name, "fastest", "25 %", "50 %", "75 %", "slowest"}},
	}
	var all []series
	for _, m := range members {
		s := series{number: m.run.number}
		for i, r := range m.k.Results {
			s.dots = append(s.dots, plotter.XY{X: float64(i + 1), Y: r.Time.Median * u.second})
		}
		s.line = s.dots
		row := []string{m.run.label}
		for quarter := range 5 {
			row = append(row, u.text(m.k.Results[(len(s.dots)-1)*quarter/4].Time.Median))
		}
		f.Table.add(row...)
		f.Words += fmt.Sprintf("Run %s: %d with a time, from %s to %s %s, half of them at most %s %s. ", m.run.label,
			len(s.dots), row[1], row[5], u.name, row[3], u.name)
		all, f.Legend = append(all, s), append(f.Legend, m.legend())
	}
	return f.plot("candidates", "time per call, "+u.name, all)
}

// sizes shows the size of candidates against their time.
func sizes(members []member, u unit) figure {
	f := figure{
		ID: "sizes", Title: "Size against time", Table: table{Head: []string{"run", "candidate", "time, " + u.name, "bytes"}},
		Words: "Each dot is a candidate. A line joins those than which no other one is both faster and smaller. ",
	}
	var all []series
	for _, m := range members {
		var dots []dot
		for _, r := range m.k.Results {
			dots = append(dots, dot{r.Time.Median * u.second, float64(r.Bytes), short(r.ID, 48)})
		}
		best := front(dots)
		for _, d := range best {
			f.Table.add(m.run.label, d.name, u.text(d.x/u.second), valuetext.Thousands(d.y))
		}
		f.Words += fmt.Sprintf("Run %s: %s. ", m.run.label, namesOf(best[:min(len(best), 5)]))
		all, f.Legend = append(all, seriesOf(m.run.number, dots)), append(f.Legend, m.legend())
	}
	return f.plot("time per call, "+u.name, "bytes", all)
}

// bars draws the figure's chart: a bar for each name, of its values in each series.
func (f figure) bars(x string, names []string, values [][]float64) figure {
	if len(names) == 0 {
		f.Words = "There are none."
		return f
	}
	for i, n := range names {
		names[i] = short(n, 28)
	}
	f.SVG, f.err = drawBars(x, names, values)
	return f
}

// steps are the steps of a measurement, in order.
var steps = []struct {
	name string
	time func(tune.Result) time.Duration
}{
	{"build", func(r tune.Result) time.Duration { return r.Build }},
	{"wait", func(r tune.Result) time.Duration { return r.Wait }},
	{"load", func(r tune.Result) time.Duration { return r.Load }},
	{"run", func(r tune.Result) time.Duration { return r.Run }},
}

// stepsOf shows the mean time of each step.
func stepsOf(runs []shownRun) block {
	t := &table{Head: []string{"run", "kind"}}
	for _, s := range steps {
		t.Head = append(t.Head, s.name+", ms")
	}
	for _, s := range runs {
		for _, kind := range kindsOf(s.Results) {
			row := []string{s.label, printable(kind)}
			for _, step := range steps {
				row = append(row, fmt.Sprintf("%.2f", meanOf(s.Results, kind, step.time)))
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

// meanOf returns the mean of a step in milliseconds.
func meanOf(results []tune.Result, kind string, step func(tune.Result) time.Duration) float64 {
	sum, n := 0.0, 0
	for _, r := range results {
		if r.Kind == kind {
			sum += float64(max(step(r), 0)) / float64(time.Millisecond)
			n++
		}
	}
	return sum / float64(n)
}

// kindsOf returns the kinds of board of results, in order of appearance.
func kindsOf(results []tune.Result) (all []string) {
	for _, r := range results {
		if !slices.Contains(all, r.Kind) {
			all = append(all, r.Kind)
		}
	}
	return all
}

// failedTable lists failures by class and blame, with the first of each.
func failedTable(runs []shownRun) *table {
	t := &table{Head: []string{"run", "kind", "class", "blame", "number", "first"}}
	for _, s := range runs {
		for _, r := range reasonsOf(s.Results) {
			t.add(s.label, printable(r.kind), printable(string(r.class)), printable(string(r.blame)),
				strconv.Itoa(r.n), r.first)
		}
	}
	return t
}

// boardsTable shows the work of each board.
func boardsTable(runs []shownRun) block {
	t := &table{Head: []string{"run", "board", "kind", "candidates", "busy", "recoveries"}}
	for _, s := range runs {
		for _, b := range s.boards {
			busy := 0.0
			if total := s.work.total(); total > 0 {
				busy = 100 * min(1, float64(b.busy)/float64(total))
			}
			recoveries := "-"
			if s.Recoveries != nil {
				recoveries = strconv.Itoa(s.Recoveries[b.name])
			}
			t.add(s.label, printable(b.name), printable(b.kind), strconv.Itoa(b.candidates), fmt.Sprintf("%.1f %%", busy),
				recoveries)
		}
	}
	return block{
		Title: "Boards", Table: t,
		Text: "Busy is the share of the time in which the run worked that a board loaded and called candidates, without " +
			"resets and the reference.",
	}
}
