// This file holds what the lines of results.jsonl mean.

package tune

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
)

// A resultLine is a line of results.jsonl: a result, a label, the contents of results that the reference has confirmed,
// or the IDs of those that are no longer the run's.
type resultLine struct {
	Result
	// The key whose result the candidate has: that of its own content, which then only gets a label, or of another content
	// with the same bytes. "": the line has a result.
	Shares  string   `json:"shares,omitempty"`
	Again   bool     `json:"again,omitempty"` // the result replaces an earlier one of its content: its ID is no label
	Proven  []string `json:"proven,omitempty"`
	LeftOut []string `json:"left_out,omitempty"`
}

// MarshalJSON writes what the line holds: no result without an ID.
func (l resultLine) MarshalJSON() ([]byte, error) {
	switch {
	case l.Proven != nil:
		return json.Marshal(map[string]any{"proven": l.Proven})
	case l.LeftOut != nil:
		return json.Marshal(map[string]any{"left_out": l.LeftOut})
	}
	type plain resultLine
	return json.Marshal(plain(l))
}

// check fails for what no run writes.
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

// key is what a result is found by: its content, or in a search of a network's flags its ID.
func (r *Result) key() string { return cmp.Or(r.Content, r.ID) }

// An index says which result an ID has. A result is that of a content, the last line of which counts; other contents
// with the same bytes share it. An ID is a label for one content.
type index struct {
	results  map[string]int64  // where the last result of each key begins
	shares   map[string]string // the key whose result a key without its own has
	labels   map[string]label  // by ID
	unproven map[string]bool   // keys whose last result the reference has not confirmed
}

// A label is what an ID stands for.
type label struct {
	key string
	at  int64 // where the line begins that says so
}

func newIndex() index {
	return index{map[string]int64{}, map[string]string{}, map[string]label{}, map[string]bool{}}
}

// take takes the line that begins at a byte of the file.
func (x *index) take(at int64, l resultLine) error {
	for _, key := range l.Proven {
		delete(x.unproven, key)
	}
	for _, id := range l.LeftOut {
		delete(x.labels, id)
	}
	if l.ID == "" {
		return nil
	}
	key := l.key()
	if !l.Again {
		x.labels[l.ID] = label{key, at}
	}
	if l.Shares == "" {
		x.results[key] = at
		delete(x.shares, key)
		delete(x.unproven, key)
		if l.Unproven {
			x.unproven[key] = true
		}
		return nil
	}
	if l.Shares == key {
		return nil
	}
	if x.root(l.Shares) == key {
		return errors.New("two contents share each other's result")
	}
	x.shares[key] = l.Shares
	return nil
}

// root returns the key that has the result of a key.
func (x *index) root(key string) string {
	for {
		next, shared := x.shares[key]
		if !shared {
			return key
		}
		key = next
	}
}

// stands reports whether an ID stands for a content, and that has the result of a key.
func (x *index) stands(id, content, key string) bool {
	l, labelled := x.labels[id]
	return labelled && l.key == content && x.root(content) == x.root(key)
}

// labelled returns the result that a label has, from its line and from that of the result. measured is the ID that the
// result was measured under, or that is to be named in its place.
func (x *index) labelled(own, result Result, measured string) Result {
	r := result
	r.Unproven = x.unproven[result.key()]
	r.ID, r.Content, r.Of, r.Record, r.Same = own.ID, own.Content, own.Of, own.Record, ""
	if own.Finished.After(r.Finished) {
		r.Finished = own.Finished
	}
	if own.ID != measured {
		r.Same, r.Build, r.Wait, r.Load, r.Run = measured, own.Build, 0, 0, 0
	}
	return r
}

// current returns the results that IDs stand for, of those in lines, in order of finishing: without those of Confirm
// whose candidate has another content now.
func (x *index) current(lines map[int64]Result) (all []Result) {
	type place struct{ at, label int64 }
	places, measured := map[string]place{}, map[string]string{} // by ID; the ID to name, by root
	var ids []string
	for id, l := range x.labels {
		root := x.root(l.key)
		at, ok := x.results[root]
		of, there := x.labels[lines[l.at].Of]
		if gone := lines[l.at].Of != "" && (!there || of.key+inFlash != l.key); !ok || gone {
			continue
		}
		ids = append(ids, id)
		places[id] = place{max(at, l.at), l.at}
		if lines[at].ID == id {
			measured[root] = id
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(places[a].at, places[b].at), cmp.Compare(places[a].label, places[b].label))
	})
	for _, id := range ids {
		l := x.labels[id]
		root := x.root(l.key)
		if measured[root] == "" {
			measured[root] = id
		}
		all = append(all, x.labelled(lines[l.at], lines[x.results[root]], measured[root]))
	}
	return all
}
