// This file reads the statements of one function for its memory operations.

package allocation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/cmacro"
)

// A bodyReader reads a function's statements in their order.
type bodyReader struct {
	*workspaceReader
	function string
	tokens   []cmacro.Token
	at       int
	steps    []Step
	held     []Step // the pieces that are not freed
	pieces   int
	depth    int    // of nested statements
	takes    bool   // whether it allocates or frees
	strays   string // a word that makes the order of statements unknown
}

func (r *workspaceReader) readBody(name string, f *cFunction) {
	b := &bodyReader{workspaceReader: r, function: name}
	var err error
	if b.tokens, err = cmacro.Tokens(f.body); err != nil {
		b.unclear("cannot be read: %v", err)
		return
	}

	for b.at < len(b.tokens) {
		at := b.at
		b.statement()
		if b.at == at {
			b.at++ // a brace too many
		}
	}
	for _, p := range b.held {
		b.leak(p)
	}
	if b.strays != "" && b.takes {
		b.unclear("allocates and has a %q that is not understood", b.strays)
	}
	r.steps[name] = b.steps
}

// unclear adds a doubt about the function.
func (b *bodyReader) unclear(format string, args ...any) {
	b.doubt(DoubtCode, "%s %s", b.place(b.function), fmt.Sprintf(format, args...))
}

func (b *bodyReader) leak(p Step) {
	if p.Name != "" { // else it is unclear
		b.doubt(DoubtLeak, "%s does not free %s of %d bytes: each call allocates more", b.place(b.function), p.Name,
			p.Bytes)
	}
}

func (b *bodyReader) peek(ahead int) string {
	if b.at+ahead < len(b.tokens) {
		return b.tokens[b.at+ahead].Text
	}
	return ""
}

// take passes over the token if it is this one.
func (b *bodyReader) take(text string) bool {
	if b.peek(0) != text {
		return false
	}
	b.at++
	return true
}

const deepestStatement = 500 // statements in statements

// statement reads one.
func (b *bodyReader) statement() {
	if b.depth == deepestStatement {
		b.unclear("is too deeply nested")
		b.at = len(b.tokens)
	}
	b.depth++
	defer func() { b.depth-- }()

	switch b.peek(0) {
	case "{":
		b.at++
		for b.at < len(b.tokens) && !b.take("}") {
			b.statement()
		}
	case "if":
		b.at++
		b.expression(b.parentheses())
		b.nested("under a condition", nil)
		if b.take("else") {
			b.nested("under a condition", nil)
		}
	case "for":
		b.at++
		b.nested("in a loop", b.parentheses())
	case "return":
		b.at++
		b.leave()
	case "}":
		b.at++
	default:
		b.expression(b.untilSemicolon())
	}
}

// nested reads an expression and a statement that are not executed exactly once.
func (b *bodyReader) nested(how string, head []cmacro.Token) {
	from := len(b.steps)
	b.expression(head)
	b.statement()
	for _, s := range b.steps[from:] {
		if s.Kind != StepCall {
			b.unclear("allocates or frees %s %s", s.Name, how)
		}
	}
}

// leave reads the rest of a return, and reports the memory that it leaks. A number but 0 is an error, which ends a run.
func (b *bodyReader) leave() {
	value := b.untilSemicolon()
	b.expression(value)

	if len(value) == 2 && value[0].Text == "-" {
		value = value[1:]
	}
	if len(value) == 1 && value[0].Kind == cmacro.Number && strings.Trim(value[0].Text, "0xXuUlL") != "" {
		return
	}
	for _, p := range b.held {
		b.leak(p)
	}
}

// parentheses returns what is inside the parentheses at this place.
func (b *bodyReader) parentheses() []cmacro.Token {
	end := closingToken(b.tokens, b.at)
	if b.peek(0) != "(" || end == 0 {
		return nil
	}
	inner := b.tokens[b.at+1 : end-1]
	b.at = end
	return inner
}

// untilSemicolon returns the tokens of a statement.
func (b *bodyReader) untilSemicolon() []cmacro.Token {
	begin := b.at
	for b.at < len(b.tokens) {
		switch b.peek(0) {
		case ";":
			b.at++
			return b.tokens[begin : b.at-1]
		case "}":
			return b.tokens[begin:b.at]
		case "(", "[", "{":
			end := closingToken(b.tokens, b.at)
			if end == 0 {
				end = len(b.tokens)
			}
			b.at = end
		default:
			b.at++
		}
	}
	return b.tokens[begin:]
}

// closingToken returns the index after the bracket that closes the one at `at`, 0 if none does.
func closingToken(tokens []cmacro.Token, at int) int {
	depth := 0
	for ; at < len(tokens); at++ {
		switch tokens[at].Text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth == 0 {
				return at + 1
			}
		}
		if depth == 0 {
			return 0
		}
	}
	return 0
}

var (
	statementWords = []string{
		"if", "else", "for", "while", "do", "switch", "case", "default", "return", "goto", "break", "continue",
	}
	assemblyWords = []string{"asm", "__asm__", "__asm"}
)

// expression reads the calls in tokens.
func (b *bodyReader) expression(tokens []cmacro.Token) {
	braces := 0
	isAssembly := slices.ContainsFunc(tokens, func(t cmacro.Token) bool { return slices.Contains(assemblyWords, t.Text) })
	for i, t := range tokens {
		name := t.Text
		switch {
		case isAssembly && t.Kind == cmacro.String:
			eachName([]byte(name), b.assemblyCalls)
		case slices.Contains(statementWords, name):
			b.strays = name
		case b.changes(tokens, i):
			b.unclear("changes %s, or takes its address", name)
		case name == "{":
			braces++
		case name == "}":
			braces--
		case t.Kind == cmacro.String:
			if name = strings.Trim(name, `"`); b.functions[name] != nil {
				b.call(name, false)
			}
		case t.Kind != cmacro.Name || i > 0 && (tokens[i-1].Text == "." || tokens[i-1].Text == "->"):
		case name == takeFunction || name == giveFunction:
			b.takes = true
			if braces > 0 {
				b.unclear("calls %s in an expression with braces", name)
			}
			b.memory(tokens, i)
		case slices.Contains(otherTakes, name):
			b.unclear("calls %s, which allocates", name)
		case b.functions[name] != nil:
			b.call(name, i+1 < len(tokens) && tokens[i+1].Text == "(")
		}
	}
}

// assemblyCalls adds what a name in an assembler's text may call.
func (b *bodyReader) assemblyCalls(name string) {
	switch {
	case name == takeFunction || name == giveFunction || slices.Contains(otherTakes, name):
		b.unclear("has %s in assembly", name)
	case b.functions[name] != nil:
		b.call(name, false)
	}
}

// changes reports whether a token is a variable with the address of a piece that may become another one.
func (b *bodyReader) changes(tokens []cmacro.Token, i int) bool {
	if !slices.ContainsFunc(b.held, func(p Step) bool { return p.Name == tokens[i].Text }) {
		return false
	}
	before, after := "", ""
	if i > 0 {
		before = tokens[i-1].Text
	}
	if i+1 < len(tokens) {
		after = tokens[i+1].Text
	}
	member := before == "." || before == "->"
	assigns := strings.HasSuffix(after, "=") && !slices.Contains([]string{"==", "!=", "<=", ">="}, after)
	steps := []string{"++", "--"}
	return !member && (assigns || slices.Contains(steps, before) || slices.Contains(steps, after) ||
		before == "&" && !slices.Contains([]string{"[", "."}, after) && (i < 2 || !isOperand(tokens[i-2])))
}

// isOperand reports whether a token ends an operand, so that an & after it is not unary.
func isOperand(t cmacro.Token) bool {
	return t.Kind == cmacro.Name && t.Text != "return" || t.Kind == cmacro.Number || t.Text == ")" || t.Text == "]"
}

func (b *bodyReader) call(name string, direct bool) {
	b.steps = append(b.steps, Step{Kind: StepCall, Name: name})
	if !direct {
		b.indirect = append(b.indirect, name)
	}
}

// memory reads a call that allocates or frees.
func (b *bodyReader) memory(tokens []cmacro.Token, i int) {
	const most = 4096 // tokens
	arguments := argumentsOf(tokens[i+1 : min(len(tokens), i+most)])
	switch {
	case tokens[i].Text == takeFunction && len(arguments) == 5:
		b.allocate(declared(tokens[:i]), arguments[2])
	case tokens[i].Text == giveFunction && len(arguments) == 3:
		variable := textOf(arguments[2])
		follows := func(t cmacro.Token) bool { return b.functions[t.Text] != nil || t.Text == takeFunction }
		if slices.ContainsFunc(tokens[i+1:], follows) {
			b.unclear("frees %s and calls a function in one expression", variable)
		}

		if i > 0 { // behind an operator, or a macro that decides whether it is called
			b.unclear("frees %s under a condition", variable)
		}
		b.free(variable)
	default:
		b.unclear("uses %s other than by a call", tokens[i].Text)
	}
}

func (b *bodyReader) allocate(variable string, size []cmacro.Token) {
	n, err := b.sizeOf(size)
	if err != nil {
		b.unclear("allocates %s bytes: %v", textOf(size), err)
	}
	if variable == "" {
		b.unclear("does not store the address of %s bytes in a variable of its own", textOf(size))
	} else if slices.ContainsFunc(b.held, func(p Step) bool { return p.Name == variable }) {
		b.unclear("allocates %s twice before it frees it", variable)
	}
	b.pieces++
	s := Step{Kind: StepTake, Bytes: n, Piece: b.pieces, Name: variable}
	b.steps, b.held = append(b.steps, s), append(b.held, s)
}

func (b *bodyReader) free(variable string) {
	for i, p := range slices.Backward(b.held) {
		if p.Name == variable && variable != "" {
			b.steps = append(b.steps, Step{Kind: StepGive, Piece: p.Piece, Name: p.Name})
			b.held = slices.Delete(b.held, i, i+1)
			return
		}
	}
	b.unclear("frees what it has not allocated")
}

// mostBytes is more than any board has: larger sizes count as this one, so that sums do not overflow.
const mostBytes = 1 << 40

// sizeOf computes a number, which may have casts and operators.
func (b *bodyReader) sizeOf(size []cmacro.Token) (int64, error) {
	v, err := cmacro.Evaluator{Width: 64, Portable: true}.Evaluate(textOf(size))
	switch {
	case err != nil:
		return 0, err
	case v.Access:
		return 0, cmacro.ErrNotConstant
	}
	return int64(min(v.Number, mostBytes)), nil
}

func textOf(tokens []cmacro.Token) string {
	var words []string
	for _, t := range tokens {
		words = append(words, t.Text)
	}
	return strings.Join(words, " ")
}

// argumentsOf splits the arguments of a call; tokens begin with its parenthesis.
func argumentsOf(tokens []cmacro.Token) (list [][]cmacro.Token) {
	end := closingToken(tokens, 0)
	if end == 0 || tokens[0].Text != "(" {
		return nil
	}
	begin := 1
	for i := 1; i < end; i++ {
		switch tokens[i].Text {
		case "(", "[", "{":
			i = max(closingToken(tokens, i), i+1) - 1
		case ",", ")":
			list = append(list, tokens[begin:i])
			begin = i + 1
		}
	}
	return list
}

// declared returns the pointer that a declaration with an initialiser, whose begin the tokens are, declares; else "".
func declared(tokens []cmacro.Token) string {
	n := len(tokens)
	if n != 4 || tokens[0].Kind != cmacro.Name || tokens[1].Text != "*" || tokens[2].Kind != cmacro.Name ||
		tokens[3].Text != "=" {
		return ""
	}
	return tokens[2].Text
}
