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

	"github.com/magefile/mage/mg"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/targets/internal/accept"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Boards lists the boards that BOARD can name.
func Boards(ctx context.Context) error { return do(ctx, "boards", listBoards) }

func listBoards(ctx context.Context, c *console.Console, _ struct{}) error {
	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return err
	}

	listed := boards.List(builder.Path)
	for _, name := range listed {
		b, err := boards.Find(name, builder.Path)
		if err != nil { // the others can be used
			c.Notef("note: %s cannot be used: %v", name, err)
			continue
		}

		line := jsonlines.Board{Board: name, Doc: b.Doc, From: cmp.Or(b.Dir, "boardsmith")}
		text := b.Doc
		if b.Dir != "" {
			text += " (" + c.Shown(b.Dir) + ")"
		}

		if signed, accepted := acceptance(c, b, builder.Path); accepted != "" {
			text += " [" + accepted + "]"
			line.AcceptedBy, line.AcceptedOn = signed.By, signed.On.Format(time.DateOnly)
		}

		c.Printf("%-20s %s", name, text)
		c.JSONLine(line)
	}

	// Boards of an operating system are in its tree, and need no file.
	more, unlisted, err := builder.SystemBoards(ctx, c.Dir)
	if err != nil {
		return err
	}

	for _, name := range more {
		if slices.Contains(listed, name) {
			continue
		}

		family, _, _ := strings.Cut(name, "/")
		doc := "a board that the builds of family " + family + " know"
		c.Printf("%-20s %s", name, doc)
		c.JSONLine(jsonlines.Board{Board: name, Doc: doc})
	}

	for _, family := range slices.Sorted(maps.Keys(unlisted)) {
		c.Notef("note: boards of family %s are not listed: %v", family, unlisted[family])
	}
	return nil
}

// Board holds the targets about one board.
type Board mg.Namespace

// Show prints a board with all that it inherits, and its options. Each field has the file that set it.
func (Board) Show(ctx context.Context, name string) error { return doBoardShow(ctx, name) }

var doBoardShow = namedTarget("board:show", showBoard)

func showBoard(ctx context.Context, c *console.Console, _ struct{}, name string) error {
	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return err
	}

	b, err := boards.Find(name, builder.Path)
	if err != nil {
		return err
	}

	c.Printf("%s: %s", b.Name, b.Doc)
	lines, err := fieldLines(b)
	if err != nil {
		return err
	}

	for _, l := range lines {
		c.Printf("  %-24s %-44s %s:%d", l.field, l.text, l.origin.File, l.origin.Line)
	}

	c.Printf("options:")
	for _, o := range b.Options() {
		c.Printf("  %-18s %s (%s)", o.Name+"="+o.Default, o.Help, optionRange(o))
		c.JSONLine(jsonlines.Option{
			Board: b.Name, Option: o.Name, Default: o.Default, Help: o.Help, Range: optionRange(o),
		})
	}

	c.JSONLine(jsonlines.BoardShown{Board: b.Name, Doc: b.Doc, Files: b.Files, Merged: b})
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
func flatten(path string, raw json.RawMessage, give func(field, text string)) {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case json.Unmarshal(raw, &object) == nil && object != nil && !strings.HasSuffix(path, "]"):
		for name, below := range object {
			flatten(strings.TrimPrefix(path+"."+name, "."), below, give)
		}
	case json.Unmarshal(raw, &list) == nil && list != nil && !strings.Contains(path, ".") && path != "templates":
		for i, e := range list {
			flatten(fmt.Sprintf("%s[%d]", path, i), e, give)
		}
	default:
		give(path, string(raw))
	}
}

// acceptance returns who accepted a board, "" if it was not accepted. The page is beside its file; a
// shipped board's is in a folder of the search path or this one.
func acceptance(c *console.Console, b *boards.Board, path []string) (accept.Signature, string) {
	for _, folder := range append([]string{c.Dir}, path...) {
		s, ok := accept.Read(accept.PageOf(b, folder))
		if !ok {
			continue
		}

		text := fmt.Sprintf("accepted by %s on %s", s.By, s.On.Format(time.DateOnly))
		if s.Digest != accept.DigestOf(b) {
			text += "; it was changed since"
		}
		if s.Short {
			text += "; few repetitions"
		}

		return s, text
	}
	return accept.Signature{}, ""
}
