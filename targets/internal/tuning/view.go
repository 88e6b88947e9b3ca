// This file shows the progress of a run.

package tuning

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/tune"
)

// A view collects the events of a run. Many goroutines may use it.
type view struct {
	notes *console.Console
	total int // number of candidates; 0: unknown

	mu       sync.Mutex
	began    time.Time
	finished int               // by this command
	done     map[measured]bool // candidates that are finished, also by an earlier command
	failed   map[failure.Class]int
	kinds    map[string]*kindState
	places   map[string]*placeState
}

// A measured is a candidate on a kind of board.
type measured struct{ kind, id string }

// A kindState is the first candidate with a time on one kind of board, and the fastest.
type kindState struct{ first, best tune.Result }

// A placeState is the state of one place.
type placeState struct {
	state    string
	ready    time.Time // zero: not ready
	busy     time.Duration
	measured int
}

func newView(notes *console.Console, total int) *view {
	return &view{
		notes: notes, total: total, began: time.Now(), failed: map[failure.Class]int{}, kinds: map[string]*kindState{},
		places: map[string]*placeState{}, done: map[measured]bool{},
	}
}

// add adds an event of the run.
func (w *view) add(e tune.Event) {
	if e.Err != nil {
		w.notes.Notef("%s: %s: %v", e.Board, e.Text, e.Err)
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	if e.Board != "" {
		w.addToPlace(e)
	}

	// A confirmation is no candidate of its own, and total does not count it.
	if e.Result != nil && e.Result.Confirms == "" {
		w.finished++
		w.done[measured{e.Result.Kind, e.Result.ID}] = true
		w.count(*e.Result)
	}
}

// finishedIDs returns the number of candidates that are finished, also by an earlier command.
func (w *view) finishedIDs() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.done)
}

func (w *view) addToPlace(e tune.Event) {
	p := w.places[e.Board]
	if p == nil {
		p = &placeState{}
		w.places[e.Board] = p
	}

	if e.Result == nil {
		p.state = e.Text
		if e.Err == nil && p.ready.IsZero() {
			p.ready = time.Now()
		}
		return
	}

	p.state = "measuring"
	if p.ready.IsZero() {
		// It was ready when this measurement began.
		p.ready = time.Now().Add(-e.Result.Load - e.Result.Run)
	}
	// A result that shares another's time took no time of its own.
	if e.Result.SameAs == "" {
		p.busy += e.Result.Load + e.Result.Run
		p.measured++
	}
}

// count counts a result. The caller holds w.mu.
func (w *view) count(r tune.Result) {
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

// addResult counts a result of the run, unless its event has done so: an earlier command measured it.
func (w *view) addResult(r tune.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := (measured{r.Kind, r.ID}); !w.done[m] && r.Confirms == "" {
		w.done[m] = true
		w.count(r)
	}
}

// lines returns a line for the run, one for the best candidate of each kind of board, and one for each place.
func (w *view) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()

	now := time.Now()
	all := []string{"tune: " + w.progress(now)}

	for _, name := range slices.Sorted(maps.Keys(w.kinds)) {
		text, k := w.bestTime(name), w.kinds[name]
		if k.first.Time.Median > 0 && k.best.Time.Median > 0 {
			text += fmt.Sprintf(" (%.2f× the first)", k.first.Time.Median/k.best.Time.Median)
		}
		all = append(all, "  best "+text+": "+k.best.ID)
	}

	for _, name := range slices.Sorted(maps.Keys(w.places)) {
		p := w.places[name]
		line := fmt.Sprintf("  %-14s %6d measured", name, p.measured)
		// Idle is the time since the place was ready without a measurement.
		if total := now.Sub(p.ready); !p.ready.IsZero() && total > 0 {
			line += fmt.Sprintf(", %3.0f %% idle", 100*max(0, 1-p.busy.Seconds()/total.Seconds()))
		}
		all = append(all, line+"  "+p.state)
	}

	return all
}

// progress returns the state of the run in one line, without the places.
func (w *view) progress(now time.Time) string {
	done := len(w.done)
	text := fmt.Sprintf("%d done", done)
	if w.total > 0 {
		text = fmt.Sprintf("%d of %d done", done, w.total)
	}

	for _, name := range slices.Sorted(maps.Keys(w.kinds)) {
		text += ", best " + w.bestTime(name)
	}

	if counts := w.failures(); len(counts) > 0 {
		text += ", failed: " + strings.Join(counts, ", ")
	}

	// Only this command's candidates count for the rate: earlier ones took no time now.
	if rate := float64(w.finished) / now.Sub(w.began).Minutes(); w.finished > 0 {
		text += fmt.Sprintf(", %.0f a minute", rate)
		if left := w.total - done; left > 0 {
			text += fmt.Sprintf(", %v left", time.Duration(float64(left)/rate*float64(time.Minute)).Round(time.Second))
		}
	}

	return text
}

func (w *view) failures() (counts []string) {
	for _, class := range slices.Sorted(maps.Keys(w.failed)) {
		counts = append(counts, fmt.Sprintf("%d %s", w.failed[class], class))
	}
	return counts
}

// bestTime returns the best time of a kind of board, with its name if there are several kinds.
func (w *view) bestTime(kind string) string {
	text := cost(w.kinds[kind].best)
	if len(w.kinds) > 1 {
		text += " on " + kind
	}
	return text
}

// cost returns a result's median time, or its instructions on a board whose timer counts them.
func cost(r tune.Result) string {
	if r.Instruction > 0 {
		return fmt.Sprintf("%.0f instructions", r.Time.Median/r.Instruction.Seconds())
	}
	return format.Seconds(r.Time.Median)
}

// setTotal sets the number of candidates.
func (w *view) setTotal(total int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total = total
}
