// This file shows how a run gets on.

package tuning

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/valuetext"
	"github.com/boardsmith/boardsmith/tune"
)

// A view collects what has happened in a run. Its methods may be called from many goroutines.
type view struct {
	notes *console.Console
	total int // candidates that are to be finished; 0: not known

	mu       sync.Mutex
	began    time.Time
	earlier  int // finished before this run of mage
	finished int
	failed   map[failure.Class]int
	kinds    map[string]*kindState
	places   map[string]*placeState
}

// A kindState is what is known of one kind of board: the first candidate with a time, and the fastest.
type kindState struct{ first, best tune.Result }

// A placeState is what is known of one board.
type placeState struct {
	state    string
	ready    time.Time // zero: not yet
	busy     time.Duration
	measured int
}

func newView(notes *console.Console, total int) *view {
	return &view{
		notes: notes, total: total, began: time.Now(), failed: map[failure.Class]int{}, kinds: map[string]*kindState{},
		places: map[string]*placeState{},
	}
}

// told takes an event of the run.
func (w *view) told(e tune.Event) {
	if e.Err != nil {
		w.notes.Notef("%s: %s: %v", e.Board, e.What, e.Err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Board != "" {
		w.place(e)
	}
	if e.Result != nil && e.Result.Of == "" {
		w.finished++
		w.note(*e.Result)
	}
}

func (w *view) place(e tune.Event) {
	p := w.places[e.Board]
	if p == nil {
		p = &placeState{}
		w.places[e.Board] = p
	}
	if e.Result == nil {
		p.state = e.What
		if e.Err == nil && p.ready.IsZero() {
			p.ready = time.Now()
		}
		return
	}
	p.state = "measuring"
	if p.ready.IsZero() {
		p.ready = time.Now().Add(-e.Result.Load - e.Result.Run)
	}
	if e.Result.Same == "" {
		p.busy += e.Result.Load + e.Result.Run
		p.measured++
	}
}

// note counts a result. The caller holds w.mu.
func (w *view) note(r tune.Result) {
	if r.Failure != nil {
		w.failed[r.Failure.Class]++
		return
	}
	k := w.kinds[r.Kind]
	switch {
	case k == nil:
		w.kinds[r.Kind] = &kindState{first: r, best: r}
	case r.Time.Median < k.best.Time.Median:
		k.best = r
	}
}

// resumed counts results of an earlier run of mage.
func (w *view) resumed(results ...tune.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range results {
		if r.Of == "" {
			w.earlier++
			w.note(r)
		}
	}
}

// lines returns the state in lines: the run, the best candidate of each kind of board, each board.
func (w *view) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	all := []string{"tune: " + w.progress(now)}
	for _, name := range slices.Sorted(maps.Keys(w.kinds)) {
		all = append(all, "  best "+w.bestText(name))
	}
	for _, name := range slices.Sorted(maps.Keys(w.places)) {
		p := w.places[name]
		line := fmt.Sprintf("  %-14s %6d measured", name, p.measured)
		if alive := now.Sub(p.ready); !p.ready.IsZero() && alive > 0 {
			line += fmt.Sprintf(", %3.0f %% idle", 100*max(0, 1-p.busy.Seconds()/alive.Seconds()))
		}
		all = append(all, line+"  "+p.state)
	}
	return all
}

// progress is the first line: what a log needs, without the boards.
func (w *view) progress(now time.Time) string {
	done := w.earlier + w.finished
	text := fmt.Sprintf("%d done", done)
	if w.total > 0 {
		text = fmt.Sprintf("%d of %d done", done, w.total)
	}
	for _, name := range slices.Sorted(maps.Keys(w.kinds)) {
		text += ", best " + w.bestTime(name)
	}
	if words := w.failures(); len(words) > 0 {
		text += ", failed: " + strings.Join(words, ", ")
	}
	if rate := float64(w.finished) / now.Sub(w.began).Minutes(); w.finished > 0 {
		text += fmt.Sprintf(", %.0f a minute", rate)
		if left := w.total - done; left > 0 {
			text += fmt.Sprintf(", %v left", time.Duration(float64(left)/rate*float64(time.Minute)).Round(time.Second))
		}
	}
	return text
}

func (w *view) failures() (words []string) {
	for _, class := range slices.Sorted(maps.Keys(w.failed)) {
		words = append(words, fmt.Sprintf("%d %s", w.failed[class], class))
	}
	return words
}

func (w *view) bestText(kind string) string {
	text, k := w.bestTime(kind), w.kinds[kind]
	if k.first.Time.Median > 0 && k.best.Time.Median > 0 {
		text += fmt.Sprintf(" (%.2f× the first)", k.first.Time.Median/k.best.Time.Median)
	}
	return text + ": " + k.best.ID
}

// bestTime is the best time of a kind of board, which is named if there are several.
func (w *view) bestTime(kind string) string {
	text := valuetext.Seconds(w.kinds[kind].best.Time.Median)
	if len(w.kinds) > 1 {
		text += " on " + kind
	}
	return text
}

// expect sets the number of candidates.
func (w *view) expect(total int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total = total
}
