// This file interprets the lines of a run's record.

package tune

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/boards"
)

// A resultLine is a line of results.jsonl: a result, a label, the keys of results that the reference has confirmed, the
// labels that are no longer among the run's results, or the settings.
type resultLine struct {
	*Result
	// Shares is the key of the result that the candidate has: of its own content, which only gets another label then, or
	// of another content with the same bytes. "": the line contains a result.
	Shares   string    `json:"shares,omitempty"`
	Again    bool      `json:"again,omitempty"` // the result replaces an earlier one of its content and sets no label
	Proven   []string  `json:"proven,omitempty"`
	LeftOut  []label   `json:"left_out,omitempty"`
	Settings *settings `json:"settings,omitempty"`
}

// settings are the options that determine the times of a run.
type settings struct {
	Template  string                    `json:"template,omitempty"`
	Libraries []string                  `json:"libraries,omitempty"`
	Boards    map[string]string         `json:"boards,omitempty"` // files by the board's name; "" of one found by name
	Memory    map[string]boards.Options `json:"memory,omitempty"`
	Samples   int                       `json:"samples"`
	MinSample time.Duration             `json:"min_sample_ns"`

	CallTimeout time.Duration `json:"call_timeout_ns"`
}

// check returns an error for a line that no run writes.
func (l *resultLine) check() error {
	switch {
	case l.Proven != nil || l.LeftOut != nil || l.Settings != nil:
		return nil
	case l.Result == nil || l.ID == "":
		return errors.New("it has no id")
	case l.Shares != "":
		if l.Content == "" || l.Time != nil || l.Failure != nil {
			return errors.New("it has no content, or both a result of its own and that of another")
		}
	case (l.Time == nil) == (l.Failure == nil):
		return errors.New("it has neither a time nor a failure, or both")
	case l.Time != nil && l.Time.Median < 0:
		return errors.New("its time is below 0")
	}
	return nil
}

// key identifies a result: its content, or its ID in a search of a network's flags.
func (r *Result) key() string { return cmp.Or(r.Content, r.ID) }

// A label is an ID on a kind of board: one ID may stand for candidates of several kinds.
type label struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

func (r *Result) label() label { return label{r.Kind, r.ID} }

// An index maps labels to results. A result belongs to a content, and the last line of the content counts; other
// contents with the same bytes share it. A label stands for one content.
type index struct {
	settings *settings         // nil: there are none
	lines    []Result          // of lines with an ID
	results  map[string]int    // the last result of each key, in lines
	shared   map[string]string // key of the result that a key without its own has
	labels   map[label]int     // the line that sets a label to its key
	unproven map[string]bool   // keys whose last result the reference has not confirmed
}

func newIndex() index {
	return index{
		results: map[string]int{}, shared: map[string]string{}, labels: map[label]int{}, unproven: map[string]bool{},
	}
}

// read adds a line of the record.
func (x *index) read(text []byte) error {
	var l resultLine
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if err := l.check(); err != nil {
		return err
	}
	return x.add(l)
}

// add adds a line. The error is of one that contradicts earlier lines.
func (x *index) add(l resultLine) error {
	for _, key := range l.Proven {
		delete(x.unproven, key)
	}
	for _, left := range l.LeftOut {
		delete(x.labels, left)
	}
	if l.Settings != nil {
		x.settings = l.Settings
	}
	if l.Result == nil {
		return nil
	}

	n, key := len(x.lines), l.key()
	x.lines = append(x.lines, *l.Result)
	if !l.Again {
		x.labels[l.label()] = n
	}
	if l.Shares != "" {
		return x.share(key, l.Shares)
	}

	// A result of its own replaces a shared one, and the reference has not confirmed it.
	x.results[key] = n
	delete(x.shared, key)
	delete(x.unproven, key)
	if l.Unproven {
		x.unproven[key] = true
	}
	return nil
}

// share gives a key the result of another one.
func (x *index) share(key, other string) error {
	if other == key {
		return nil
	}
	if x.root(other) == key {
		return errors.New("two contents share each other's result")
	}
	x.shared[key] = other
	return nil
}

// root returns the key that has the result of a key.
func (x *index) root(key string) string {
	// This ends, since share accepts no cycle.
	for {
		next, ok := x.shared[key]
		if !ok {
			return key
		}
		key = next
	}
}

// hasLabel reports whether a label stands for a content that has the result of a key.
func (x *index) hasLabel(name label, content, key string) bool {
	n, ok := x.labels[name]
	return ok && x.lines[n].key() == content && x.root(content) == x.root(key)
}

// result returns the result of a label. If it was measured under another ID, that is SameAs: the one of its line, or
// first if that stands for other bytes now.
func (x *index) result(name label, first string) Result {
	line := x.lines[x.labels[name]]
	key := x.root(line.key())
	r := x.lines[x.results[key]]

	measured := r.label()
	if n, ok := x.labels[measured]; !ok || x.root(x.lines[n].key()) != key {
		measured.ID = first
	}

	r.Unproven = x.unproven[key]
	r.ID, r.Content, r.Confirms, r.Record, r.SameAs = line.ID, line.Content, line.Confirms, line.Record, ""
	if line.Finished.After(r.Finished) {
		r.Finished = line.Finished
	}

	// The build was the candidate's own, and all other times were of the measured one.
	if line.ID != measured.ID {
		r.SameAs, r.Build, r.Wait, r.Load, r.Run = measured.ID, line.Build, 0, 0, 0
	}
	return r
}

// all returns the results of all labels, in order of finishing. It omits results of Run.Confirm whose candidate has
// another content now.
func (x *index) all() (all []Result) {
	finished := map[label]int{}
	for name, n := range x.labels {
		result, ok := x.results[x.root(x.lines[n].key())]
		if ok && !x.isOutdated(name, x.lines[n]) {
			finished[name] = max(result, n)
		}
	}

	names := slices.SortedFunc(maps.Keys(finished), func(a, b label) int {
		return cmp.Or(cmp.Compare(finished[a], finished[b]), cmp.Compare(x.labels[a], x.labels[b]))
	})

	firsts := map[string]string{} // IDs by the key of the result
	for _, name := range names {
		key := x.root(x.lines[x.labels[name]].key())
		firsts[key] = cmp.Or(firsts[key], name.ID)
		all = append(all, x.result(name, firsts[key]))
	}
	return all
}

// isOutdated reports whether a label is of a result of Run.Confirm whose candidate has no label or another content.
func (x *index) isOutdated(name label, line Result) bool {
	if line.Confirms == "" {
		return false
	}
	n, ok := x.labels[label{name.Kind, line.Confirms}]
	return !ok || x.lines[n].key()+flashSuffix != line.key()
}
