// This file shows boards.

package targets

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
)

func (s *session) boards(context.Context) error {
	in, err := s.search()
	if err != nil {
		return err
	}
	for _, name := range boards.List(in) {
		b, err := boards.Find(name, in)
		if err != nil {
			return err
		}
		s.out.printf("%-20s %s", name, b.Doc)
		s.out.line(record{"status": "done", "board": name, "doc": b.Doc})
	}
	return nil
}

// search is where boards and templates are looked for besides the shipped ones.
func (s *session) search() ([]string, error) {
	c, err := findConfig(s.dir)
	if err != nil {
		return nil, err
	}
	return searchPath(s.env, c), nil
}

func (s *session) boardShow(name string) error {
	path, err := s.search()
	if err != nil {
		return err
	}
	b, err := boards.Find(name, path)
	if err != nil {
		return err
	}
	s.out.printf("%s: %s", b.Name, b.Doc)
	fields, err := fieldTexts(b)
	if err != nil {
		return err
	}
	var names []string
	for f := range b.Origin {
		if _, ok := fields[f]; ok {
			names = append(names, f)
		}
	}
	sort.Strings(names)
	for _, f := range names {
		o := b.Origin[f]
		s.out.printf("  %-18s %-44s %s:%d", f, fields[f], o.File, o.Line)
	}
	s.out.printf("options:")
	for _, o := range b.Options() {
		s.out.printf("  %-18s %s (%s)", o.Name+"="+o.Default, o.Help, optionRange(o))
		s.out.line(record{"status": "done", "board": b.Name, "option": o.Name, "default": o.Default, "help": o.Help, "range": optionRange(o)})
	}
	s.out.line(record{"status": "done", "board": b.Name, "doc": b.Doc, "files": b.Files, "merged": b})
	return nil
}

func optionRange(o boards.Option) string {
	if o.Type == "string" {
		return strings.Join(o.Choices, ", ")
	}
	return strings.TrimSpace(fmt.Sprintf("%d to %d %s", o.Min, o.Max, o.Unit))
}

// fieldTexts is the merged board as its files write it: each field that holds a plain value or a list, by its path.
func fieldTexts(b *boards.Board) (map[string]string, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("board %s: %w", b.Name, err)
	}
	var tree map[string]json.RawMessage
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("board %s: %w", b.Name, err)
	}
	texts := map[string]string{}
	flatten("", tree, texts)
	return texts, nil
}

func flatten(at string, tree map[string]json.RawMessage, texts map[string]string) {
	for name, raw := range tree {
		var below map[string]json.RawMessage
		if json.Unmarshal(raw, &below) == nil && below != nil {
			flatten(at+name+".", below, texts)
			continue
		}
		texts[at+name] = string(raw)
	}
}
