// This file shows boards.

package targets

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/cli/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/project"
)

func (v *invocation) boards(ctx context.Context) error {
	builder, err := v.search(ctx)
	if err != nil {
		return err
	}
	listed := boards.List(builder.Path)
	for _, name := range listed {
		b, err := boards.Find(name, builder.Path)
		if err != nil { // the others can be used
			v.Notef("note: %s cannot be used: %v", name, err)
			continue
		}
		line := jsonlines.Board{Board: name, Doc: b.Doc, From: cmp.Or(b.Dir, "boardsmith")}
		text := b.Doc
		if b.Dir != "" {
			text += " (" + v.Shown(b.Dir) + ")"
		}
		if signed, accepted := v.acceptance(b, builder.Path); accepted != "" {
			text += " [" + accepted + "]"
			line.AcceptedBy, line.AcceptedOn = signed.By, signed.On.Format(time.DateOnly)
		}
		v.Printf("%-20s %s", name, text)
		v.JSONLine(line)
	}
	more, unlisted, err := builder.SystemBoards(ctx, v.Dir)
	if err != nil {
		return err
	}
	for _, name := range more {
		if slices.Contains(listed, name) {
			continue
		}
		family, _, _ := strings.Cut(name, "/")
		doc := "a board that the builds of family " + family + " know"
		v.Printf("%-20s %s", name, doc)
		v.JSONLine(jsonlines.Board{Board: name, Doc: doc})
	}
	for _, family := range slices.Sorted(maps.Keys(unlisted)) {
		v.Notef("note: boards of family %s are not listed: %v", family, unlisted[family])
	}
	return nil
}

// search returns a Builder with the folders of further boards and templates.
func (v *invocation) search(ctx context.Context) (*project.Builder, error) {
	c, err := boardsmithjson.Find(v.Dir)
	if err != nil {
		return nil, err
	}
	b := &project.Builder{
		Host: device.Host{Log: v.log, Progress: v.progressed}, Templates: c.Templates, Libraries: c.Libraries,
	}
	b.LockFile = inputs.LockFile(c, v.Dir)
	b.Path, err = inputs.SearchPath(v.Env, c, func(_ *boardsmithjson.Config, place string) (string, error) {
		return b.Fetch(ctx, place)
	})
	return b, err
}

func (v *invocation) boardShow(ctx context.Context, name string) error {
	builder, err := v.search(ctx)
	if err != nil {
		return err
	}
	b, err := boards.Find(name, builder.Path)
	if err != nil {
		return err
	}
	v.Printf("%s: %s", b.Name, b.Doc)
	lines, err := fieldLines(b)
	if err != nil {
		return err
	}
	for _, l := range lines {
		v.Printf("  %-24s %-44s %s:%d", l.field, l.text, l.origin.File, l.origin.Line)
	}
	v.Printf("options:")
	for _, o := range b.Options() {
		v.Printf("  %-18s %s (%s)", o.Name+"="+o.Default, o.Help, optionRange(o))
		v.JSONLine(jsonlines.Option{
			Board: b.Name, Option: o.Name, Default: o.Default, Help: o.Help, Range: optionRange(o),
		})
	}
	v.JSONLine(jsonlines.BoardShown{Board: b.Name, Doc: b.Doc, Files: b.Files, Merged: b})
	return nil
}

func optionRange(o boards.Option) string {
	if o.Type == "string" {
		return strings.Join(o.Choices, ", ")
	}
	return strings.TrimSpace(fmt.Sprintf("%d to %d %s", o.Min, o.Max, o.Unit))
}

// A fieldLine is one value of a merged board, with its origin.
type fieldLine struct {
	field, text string
	origin      boards.Origin
}

// fieldLines returns the merged board's values as in its files, by the fields' names. A list that several files add
// to, and the memory map, have one line per element.
func fieldLines(b *boards.Board) ([]fieldLine, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("board %s: %w", b.Name, err)
	}
	var lines []fieldLine
	flatten("", data, func(field, text string) {
		if o, ok := b.Origin[field]; ok {
			lines = append(lines, fieldLine{field, text, o})
		}
	})
	slices.SortStableFunc(lines, func(a, b fieldLine) int { return strings.Compare(listName(a.field), listName(b.field)) })
	return merge(lines), nil
}

// merge joins list elements from one line of a file into one line, except memory regions.
func merge(lines []fieldLine) []fieldLine {
	var merged []fieldLine
	for _, l := range lines {
		list := strings.HasSuffix(l.field, "]")
		l.field = listName(l.field)
		if n := len(merged); list && n > 0 && merged[n-1].field == l.field && merged[n-1].origin == l.origin &&
			l.text[0] != '{' {
			merged[n-1].text += ", " + l.text
			continue
		}
		merged = append(merged, l)
	}
	return merged
}

// listName returns an element's field.
func listName(field string) string {
	name, _, _ := strings.Cut(field, "[")
	return name
}

// flatten calls add for each value below raw, in the order of lists.
func flatten(at string, raw json.RawMessage, give func(field, text string)) {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case json.Unmarshal(raw, &object) == nil && object != nil && !strings.HasSuffix(at, "]"):
		for name, below := range object {
			flatten(strings.TrimPrefix(at+"."+name, "."), below, give)
		}
	case json.Unmarshal(raw, &list) == nil && list != nil && !strings.Contains(at, ".") && at != "templates":
		for i, e := range list {
			flatten(fmt.Sprintf("%s[%d]", at, i), e, give)
		}
	default:
		give(at, string(raw))
	}
}
