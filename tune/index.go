// This file interprets the lines of results.jsonl.

package tune

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
)

// A resultLine is a line of results.jsonl: a result, a label, the keys of results that the reference has confirmed, or
// the labels that are no longer among the run's results.
type resultLine struct {
	Result
	// Candidate describes the candidate, in the first line of its content.
	Candidate *candidateLine `json:"candidate,omitempty"`
	// Shares is the key of the result that the candidate has: of its own content, which only gets another label then, or
	// of another content with the same bytes. "": the line contains a result.
	Shares  string   `json:"shares,omitempty"`
	Again   bool     `json:"again,omitempty"` // the result replaces an earlier one of its content and sets no label
	Proven  []string `json:"proven,omitempty"`
	LeftOut []label  `json:"left_out,omitempty"`
}

// MarshalJSON omits the fields of Result in lines without an ID.
func (l resultLine) MarshalJSON() ([]byte, error) {
	switch {
	case l.Proven != nil:
		return json.Marshal(map[string]any{"proven": l.Proven})
	case l.LeftOut != nil:
		return json.Marshal(map[string]any{"left_out": l.LeftOut})
	}

	// A type without methods: MarshalJSON would call itself.
	type plain resultLine
	return json.Marshal(plain(l))
}

// check returns an error for a line that no run writes.
func (l *resultLine) check() error {
	switch {
	case l.Proven != nil || l.LeftOut != nil:
		return nil
	case l.ID == "":
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
	results    map[string]int64  // offset of the last result of each key
	shared     map[string]string // key of the result that a key without its own has
	labels     map[label]labelled
	unproven   map[string]bool  // keys whose last result the reference has not confirmed
	candidates map[string]int64 // offset of the line with the candidate, by content
}

// A labelled is the key that a label stands for.
type labelled struct {
	key    string
	offset int64 // of the line that sets it
}

func newIndex() index {
	return index{
		map[string]int64{}, map[string]string{}, map[label]labelled{}, map[string]bool{}, map[string]int64{},
	}
}

// add adds the line at an offset of the file. The error is of a line that contradicts earlier ones.
func (x *index) add(offset int64, l resultLine) error {
	for _, key := range l.Proven {
		delete(x.unproven, key)
	}
	for _, left := range l.LeftOut {
		delete(x.labels, left)
	}

	// Only lines with an ID have a label or a result.
	if l.ID == "" {
		return nil
	}
	key := l.key()
	if l.Candidate != nil {
		x.candidates[l.Content] = offset
	}
	if !l.Again {
		x.labels[l.label()] = labelled{key, offset}
	}
	if l.Shares != "" {
		return x.share(key, l.Shares)
	}

	// A result of its own replaces a shared one, and the reference has not confirmed it.
	x.results[key] = offset
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
	l, ok := x.labels[name]
	return ok && l.key == content && x.root(content) == x.root(key)
}

// measuredID returns the ID under which the result of a key was measured, or that of own if it stands for other bytes
// now.
func (x *index) measuredID(measured, own label, key string) string {
	if l, ok := x.labels[measured]; ok && x.root(l.key) == key {
		return measured.ID
	}
	return own.ID
}

// under returns a result under the label in line. If the label is not measuredID, it becomes SameAs.
func (x *index) under(line, result Result, measuredID string) Result {
	r := result
	r.Unproven = x.unproven[result.key()]
	r.ID, r.Content, r.Confirms, r.Record, r.SameAs = line.ID, line.Content, line.Confirms, line.Record, ""
	if line.Finished.After(r.Finished) {
		r.Finished = line.Finished
	}

	// The build was the candidate's own, and all other times were of the measured one.
	if line.ID != measuredID {
		r.SameAs, r.Build, r.Wait, r.Load, r.Run = measuredID, line.Build, 0, 0, 0
	}
	return r
}

// current returns the results of all labels, in order of finishing. It omits results of Run.Confirm whose candidate has
// another content now. lines has the results by offset.
func (x *index) current(lines map[int64]Result) (all []Result) {
	measuredIDs := map[string]string{} // by root
	var names []label
	for name, l := range x.labels {
		root := x.root(l.key)
		offset, ok := x.results[root]
		if !ok || x.isOutdated(name, l, lines[l.offset].Confirms) {
			continue
		}
		names = append(names, name)
		// the label of the measured candidate, if it still has the result; else the first one below
		if lines[offset].ID == name.ID {
			measuredIDs[root] = name.ID
		}
	}

	finished := func(name label) int64 {
		l := x.labels[name]
		return max(x.results[x.root(l.key)], l.offset)
	}
	slices.SortFunc(names, func(a, b label) int {
		return cmp.Or(cmp.Compare(finished(a), finished(b)), cmp.Compare(x.labels[a].offset, x.labels[b].offset))
	})

	for _, name := range names {
		l := x.labels[name]
		root := x.root(l.key)
		if measuredIDs[root] == "" {
			measuredIDs[root] = name.ID
		}
		all = append(all, x.under(lines[l.offset], lines[x.results[root]], measuredIDs[root]))
	}
	return all
}

// isOutdated reports whether a label is of a result of Run.Confirm whose candidate has no label or another content.
func (x *index) isOutdated(name label, l labelled, confirms string) bool {
	if confirms == "" {
		return false
	}
	candidate, ok := x.labels[label{name.Kind, confirms}]
	return !ok || candidate.key+flashSuffix != l.key
}
