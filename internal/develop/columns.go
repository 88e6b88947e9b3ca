// This file checks that lines are not too long.

package develop

import (
	"context"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const maxColumns = 120

// checkedNames are the ends of the names of files whose lines are checked. Files of a testdata folder are data, except
// C.
var checkedNames = []string{
	".S", ".c", ".clang-format", ".go", ".h", ".json", ".ld", ".md", ".mk", ".mod", ".py", ".sh", "CMakeLists.txt",
	"Makefile",
}

// uncheckedPaths are generated files and folders, by their slash paths.
var uncheckedPaths = []string{
	".git", "docs/report", "docs/boards-x-archives.md", "schemas/board.json",
	"schemas/boardsmith.json", "schemas/template.json",
}

// longLines checks the files below the repository's folder and returns a line of text for each line with more than 120
// characters; a tab counts as one. Tables and code blocks of Markdown, and lines with a URL, may be longer. In Go, the
// characters of raw strings do not count, because a raw string holds C, JSON or a table with a layout of its own.
func (r *repository) longLines(ctx context.Context) (string, error) {
	var found strings.Builder
	err := filepath.WalkDir(r.Dir, func(file string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(r.Dir, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if slices.Contains(uncheckedPaths, name) || entry.IsDir() && path.Base(name) == "build" {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if entry.IsDir() || !hasCheckedLines(name) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, n := range tooLong(name, string(text)) {
			fmt.Fprintf(&found, "%s:%d\n", name, n)
		}
		return nil
	})
	if err == nil && found.Len() > 0 {
		err = errors.New("the lines above are longer than 120 characters")
	}
	return found.String(), err
}

func hasCheckedLines(name string) bool {
	if strings.Contains("/"+name, "/testdata/") && path.Ext(name) != ".c" && path.Ext(name) != ".h" {
		return false
	}
	return slices.ContainsFunc(checkedNames, func(end string) bool { return strings.HasSuffix(name, end) })
}

// tooLong returns the numbers of the lines that are too long, from 1.
func tooLong(name, text string) (numbers []int) {
	markdown := path.Ext(name) == ".md"
	inCode := false
	raw := map[int]int{}
	if path.Ext(name) == ".go" {
		raw = rawCharacters(text)
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		start := strings.TrimSpace(line)
		if markdown && strings.HasPrefix(start, "```") {
			inCode = !inCode
		}
		exempt := inCode || markdown && strings.HasPrefix(start, "|") || strings.Contains(line, "://")
		if !exempt && utf8.RuneCountInString(line)-raw[number] > maxColumns {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// rawCharacters returns, for each line of Go source, how many of its characters are in raw strings.
func rawCharacters(text string) map[int]int {
	count := map[int]int{}
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, 0)
	for {
		position, kind, literal := s.Scan()
		if kind == token.EOF {
			return count
		}
		if kind == token.STRING && literal[0] == '`' {
			for i, part := range strings.Split(literal, "\n") {
				count[file.Line(position)+i] += utf8.RuneCountInString(part)
			}
		}
	}
}
