package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A mutant is one change: it replaces the bytes from..end of a file by to.
type mutant struct {
	file        string
	line        int
	at          position
	function    [2]position // of a change in Go: where the function around it begins and ends
	above, text string      // the line above, the line
	what        string      // for people
	from, end   int
	to          string
	tests       [][]string // commands; if there are none, packages applies
	packages    []string   // packages whose tests are run, if they run the line
}

type position struct{ line, column int }

func (p position) before(q position) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

// others has the replacement of each operator.
var others = map[string]string{
	"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&", "+": "-", "-": "+",
}

func mutantsOf(root, name string) ([]mutant, error) {
	src, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, ".go") {
		all, err := goMutants(name, src)
		return withText(all, src), err
	}
	return withText(cMutants(name, src), src), nil
}

func withText(all []mutant, src []byte) []mutant {
	lines := strings.Split(string(src), "\n")

	for i := range all {
		n := all[i].line - 1
		all[i].text = strings.TrimSpace(lines[n])
		if n > 0 {
			all[i].above = strings.TrimSpace(lines[n-1])
		}
	}
	return all
}

// goMutants finds changes by the syntax tree.
func goMutants(name string, src []byte) ([]mutant, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, 0)
	if err != nil {
		return nil, err
	}

	var all []mutant
	positionOf := func(p token.Pos) position { return position{set.Position(p).Line, set.Position(p).Column} }
	add := func(from, end token.Pos, to, what string) {
		m := mutant{
			file: name, line: set.Position(from).Line, at: positionOf(from), what: what,
			from: set.Position(from).Offset, end: set.Position(end).Offset, to: to,
		}
		// The function is for a change that is in no block of the coverage.
		for _, d := range file.Decls {
			if _, ok := d.(*ast.FuncDecl); ok && d.Pos() <= from && from < d.End() {
				m.function = [2]position{positionOf(d.Pos()), positionOf(d.End())}
			}
		}

		all = append(all, m)
	}

	text := func(n ast.Node) string { return short(src[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset]) }

	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		// Imports and types have nothing to change.
		case *ast.GenDecl:
			return n.Tok == token.VAR || n.Tok == token.CONST
		case *ast.BinaryExpr:
			if to := others[n.Op.String()]; to != "" {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), to, text(n)+"  →  "+to)
			}
		case *ast.BasicLit:
			if n.Kind == token.INT && !strings.HasPrefix(n.Value, "0o") { // one bit of a file's mode seldom matters
				add(n.Pos(), n.End(), "("+n.Value+"+1)", n.Value+"  →  "+n.Value+"+1")
			}
		case *ast.BlockStmt:
			for _, s := range n.List {
				if droppable(s) {
					add(s.Pos(), s.End(), "", "drop  "+text(s))
				}
			}
		}
		return true
	})

	return all, nil
}

// droppable reports whether a statement can be removed without an error of the compiler, in most cases.
func droppable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt:
		return true
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	case *ast.IfStmt: // a check that returns
		return s.Else == nil && s.Init == nil
	}
	return false
}

var (
	cSkipped   = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?m:^[ \t]*#(?:[^\n\\]|\\.|\\\n)*)|_Static_assert[^;]*;`)
	cOperator  = regexp.MustCompile(` (==|!=|<=|>=|<|>|&&|\|\||\+|-) `)
	cNumber    = regexp.MustCompile(`\b(\d+|0x[0-9a-fA-F]+)(U?)\b`)
	cStatement = regexp.MustCompile(`(?m)^ +((?:[\w.>\[\]*()-]+ (?:[-+|&^]?=|<<=|>>=) [^;{}\n]+|(?:\(void\))?[a-z_]\w*\([^;{}\n]*\)|[\w.>-]+(?:\+\+|--));)$`)
)

// cMutants finds changes by patterns, outside of comments, strings and preprocessor lines.
func cMutants(name string, src []byte) []mutant {
	// Blanks keep the offsets, so that those in code are those in src.
	code := cSkipped.ReplaceAllFunc(src, blank)
	var all []mutant

	add := func(from, end int, to, what string) {
		all = append(all, mutant{
			file: name, line: 1 + bytes.Count(src[:from], []byte("\n")), what: what, from: from,
			end: end, to: to,
		})
	}

	lineAt := func(at int) string {
		begin, end := bytes.LastIndexByte(src[:at], '\n')+1, bytes.IndexByte(src[at:], '\n')
		return short(bytes.TrimSpace(src[begin : at+end]))
	}

	for _, m := range cOperator.FindAllSubmatchIndex(code, -1) {
		op := string(code[m[2]:m[3]])
		add(m[2], m[3], others[op], lineAt(m[2])+"  →  "+others[op])
	}

	for _, m := range cNumber.FindAllSubmatchIndex(code, -1) {
		number := string(code[m[0]:m[1]])
		add(m[0], m[1], fmt.Sprintf("(%s + 1%s)", number, code[m[4]:m[5]]), lineAt(m[0])+"  →  "+number+" + 1")
	}

	for _, m := range cStatement.FindAllSubmatchIndex(code, -1) {
		add(m[2], m[3], ";", "drop  "+lineAt(m[2]))
	}

	return all
}

// blank replaces a text by spaces and keeps its line breaks.
func blank(text []byte) []byte {
	spaces := bytes.Repeat([]byte(" "), len(text))
	for i, c := range text {
		if c == '\n' {
			spaces[i] = c
		}
	}
	return spaces
}

func short(text []byte) string {
	s := strings.Join(strings.Fields(string(text)), " ")
	if len(s) > 70 {
		s = s[:70] + "…"
	}
	return s
}
