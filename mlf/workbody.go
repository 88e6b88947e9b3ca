// This file reads the statements of one function for its memory operations.

package mlf

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/cmacro"
)

// A bodyReader reads a function's statements in their order. It follows a branch that returns to its end, and continues
// as if the branch was not taken.
type bodyReader struct {
	*workspaceReader
	function string
	tokens   []cmacro.Token
	at       int
	locals   map[string]string // constants
	names    map[string]bool   // variables that are declared in the function
	steps    []WorkStep
	held     []WorkStep // the pieces that are not freed
	pieces   int
	depth    int  // of nested statements
	takes    bool // whether it allocates or frees
	jumps    bool // whether there is a goto
}

func (r *workspaceReader) readBody(name string, f *cFunction) {
	b := &bodyReader{workspaceReader: r, function: name, locals: map[string]string{}, names: map[string]bool{}}
	var err error
	if b.tokens, err = cmacro.Tokens(f.parameters + ";" + f.body); err != nil {
		b.unclear("cannot be read: %v", err)
		return
	}
	b.readNames()
	b.at = slices.IndexFunc(b.tokens, func(t cmacro.Token) bool { return t.Text == ";" }) + 1
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
	if b.jumps && b.takes {
		b.unclear("allocates and has a goto")
	}
	r.steps[name] = b.steps
}

// readNames lists the variables that the function declares: each follows a type.
func (b *bodyReader) readNames() {
	for i := 1; i < len(b.tokens); i++ {
		before := b.tokens[i-1]
		if b.tokens[i].Kind == cmacro.Name && before.Kind == cmacro.Name &&
			!slices.Contains([]string{"return", "case", "goto", "else", "sizeof"}, before.Text) {
			b.names[b.tokens[i].Text] = true
		}
	}
}

// unclear adds a doubt about the function.
func (b *bodyReader) unclear(format string, args ...any) {
	b.doubt(DoubtCode, "%s %s", b.place(b.function), fmt.Sprintf(format, args...))
}

func (b *bodyReader) leak(p WorkStep) {
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

// statement reads one, and reports whether it ends with a jump.
func (b *bodyReader) statement() (jumps bool) {
	if b.depth == deepestStatement {
		b.unclear("is too deeply nested")
		b.at = len(b.tokens)
	}
	b.depth++
	defer func() { b.depth-- }()
	switch word := b.peek(0); word {
	case "{":
		b.at++
		for b.at < len(b.tokens) && !b.take("}") {
			jumps = b.statement()
		}
		return jumps
	case "if":
		b.at++
		condition := b.parentheses()
		b.expression(condition)
		jumps = b.branch(condition)
		return b.take("else") && b.branch(condition) && jumps
	case "for", "while", "switch":
		b.at++
		head := b.parentheses()
		if first := slices.IndexFunc(head, func(t cmacro.Token) bool { return t.Text == ";" }); first >= 0 {
			b.expression(head[:first])
			head = head[first:]
		}
		if word == "switch" {
			b.expression(head)
			head = nil
		}
		b.loop(head)
		return false
	case "do":
		b.at++
		b.loop(nil)
		return false
	case "case":
		for b.at < len(b.tokens) && !b.take(":") {
			b.at++
		}
		return b.statement()
	case "return", "break", "continue", "goto":
		b.at++
		value := b.untilSemicolon()
		b.jumps = b.jumps || word == "goto"
		b.expression(value)
		if word == "return" && len(value) == 1 && value[0].Text == "0" {
			for _, p := range b.held {
				b.leak(p)
			}
		}
		return true
	case "}":
		b.at++
		return false
	}
	if b.peek(1) == ":" && b.peek(2) != ":" { // a label
		b.at += 2
		return b.statement()
	}
	b.simple()
	return false
}

// simple reads an expression or a declaration.
func (b *bodyReader) simple() {
	tokens := b.untilSemicolon()
	b.expression(tokens)
	if slices.ContainsFunc(tokens, func(t cmacro.Token) bool { return t.Text == "const" }) {
		if name, expression, ok := constantOf(textOf(tokens)); ok {
			if _, twice := b.locals[name]; twice {
				expression = ""
			}
			b.locals[name] = expression
		}
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

// untilSemicolon returns the tokens of a statement. It also ends before a block that follows a macro with parameters.
func (b *bodyReader) untilSemicolon() []cmacro.Token {
	begin, value := b.at, false
	for b.at < len(b.tokens) {
		switch text := b.peek(0); text {
		case ";":
			b.at++
			return b.tokens[begin : b.at-1]
		case "}":
			return b.tokens[begin:b.at]
		case "(", "[", "{":
			if text == "{" && !value && b.at > begin && b.tokens[b.at-1].Text == ")" {
				tokens := b.tokens[begin:b.at]
				b.loop(nil)
				return tokens
			}
			end := closingToken(b.tokens, b.at)
			if end == 0 {
				end = len(b.tokens)
			}
			b.at = end
		default:
			value = value || text == "="
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

// branch reads a statement that is not always executed.
func (b *bodyReader) branch(condition []cmacro.Token) (jumps bool) {
	before, from := slices.Clone(b.held), len(b.steps)
	if jumps = b.statement(); jumps {
		b.keep(before, from)
		for _, p := range slices.Backward(b.held) {
			if !slices.Contains(before, p) {
				b.steps = append(b.steps, WorkStep{Kind: StepGive, Piece: p.Piece, Name: p.Name})
			}
		}
		b.held = before
		return true
	}
	for _, p := range before {
		asks := func(t cmacro.Token) bool { return t.Text == p.Name }
		if !slices.Contains(b.held, p) && !slices.ContainsFunc(condition, asks) {
			b.unclear("frees %s under a condition", p.Name)
			b.keep([]WorkStep{p}, from)
			b.held = append(b.held, p)
		}
	}
	return false
}

// loop reads the statement that is repeated, after its condition.
func (b *bodyReader) loop(condition []cmacro.Token) {
	before, from := slices.Clone(b.held), len(b.steps)
	b.expression(condition)
	b.statement()
	for _, p := range b.held {
		if !slices.Contains(before, p) {
			b.unclear("allocates %s in a loop and does not free it there", p.Name)
		}
	}
	for _, p := range before {
		if !slices.Contains(b.held, p) {
			b.unclear("frees %s in a loop", p.Name)
			b.keep([]WorkStep{p}, from)
			b.held = append(b.held, p)
		}
	}
}

// keep removes the steps from an index on that free one of these pieces.
func (b *bodyReader) keep(pieces []WorkStep, from int) {
	kept := b.steps[:from]
	for _, s := range b.steps[from:] {
		isOne := func(p WorkStep) bool { return p.Piece == s.Piece }
		if s.Kind != StepGive || !slices.ContainsFunc(pieces, isOne) {
			kept = append(kept, s)
		}
	}
	b.steps = kept
}

// expression reads the calls in tokens.
func (b *bodyReader) expression(tokens []cmacro.Token) {
	braces := 0
	for i, t := range tokens {
		name := t.Text
		switch {
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

func (b *bodyReader) call(name string, direct bool) {
	b.steps = append(b.steps, WorkStep{Kind: StepCall, Name: name})
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
		b.allocate(assigned(tokens[:i]), arguments[2])
	case tokens[i].Text == giveFunction && len(arguments) == 3:
		b.free(bare(arguments[2]))
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
	} else if slices.ContainsFunc(b.held, func(p WorkStep) bool { return p.Name == variable }) {
		b.unclear("allocates %s twice before it frees it", variable)
	}
	b.pieces++
	s := WorkStep{Kind: StepTake, Bytes: n, Piece: b.pieces, Name: variable}
	b.steps, b.held = append(b.steps, s), append(b.held, s)
}

func (b *bodyReader) free(variable string) {
	for i, p := range slices.Backward(b.held) {
		if p.Name == variable && variable != "" {
			b.steps = append(b.steps, WorkStep{Kind: StepGive, Piece: p.Piece, Name: p.Name})
			b.held = slices.Delete(b.held, i, i+1)
			return
		}
	}
	b.unclear("frees what it has not allocated")
}

// mostBytes is more than any board has: larger sizes count as this one, so that sums do not overflow.
const mostBytes = 1 << 40

// sizeOf computes a constant expression.
func (b *bodyReader) sizeOf(size []cmacro.Token) (int64, error) {
	v, err := b.evaluate(withSizes(size), 0)
	if err == nil && v.Access {
		err = cmacro.ErrNotConstant
	}
	return int64(min(v.Number, mostBytes, math.MaxInt64)), err
}

const deepestConstant = 16 // constants that are defined by constants

func (b *bodyReader) evaluate(tokens []cmacro.Token, depth int) (cmacro.Value, error) {
	e := cmacro.Evaluator{Width: 64, Names: func(name string) (cmacro.Value, error) {
		text, ok := b.locals[name]
		if !ok && !b.names[name] {
			text = b.constants[name]
		}
		if text == "" || depth == deepestConstant {
			return cmacro.Value{}, fmt.Errorf("%w: %s", cmacro.ErrNotConstant, name)
		}
		inner, err := cmacro.Tokens(text)
		if err != nil {
			return cmacro.Value{}, err
		}
		return b.evaluate(withSizes(inner), depth+1)
	}}
	v, used, err := e.Prefix(tokens)
	if err == nil && used < len(tokens) {
		err = fmt.Errorf("%w: %s", cmacro.ErrNotConstant, textOf(tokens))
	}
	return v, err
}

// typeSizes are the sizes in bytes of types that have the same on all boards.
var typeSizes = map[string]string{
	"char": "1", "signed char": "1", "unsigned char": "1", "bool": "1", "_Bool": "1",
	"short": "2", "unsigned short": "2", "int": "4", "unsigned": "4", "unsigned int": "4", "float": "4",
	"double": "8", "long long": "8",
	"unsigned long long": "8", "int8_t": "1", "uint8_t": "1", "int16_t": "2", "uint16_t": "2", "int32_t": "4",
	"uint32_t": "4", "int64_t": "8", "uint64_t": "8",
}

// withSizes replaces sizeof of such types by numbers.
func withSizes(tokens []cmacro.Token) (out []cmacro.Token) {
	for i := 0; i < len(tokens); i++ {
		if tokens[i].Text == "sizeof" {
			if end := closingToken(tokens, i+1); end > 0 {
				if size, ok := typeSizes[textOf(tokens[i+2:end-1])]; ok {
					out = append(out, cmacro.Token{Kind: cmacro.Number, Text: size})
					i = end - 1
					continue
				}
			}
		}
		out = append(out, tokens[i])
	}
	return out
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

// bare returns the variable of an expression with casts and parentheses around it, else "".
func bare(tokens []cmacro.Token) string {
	for len(tokens) > 1 && tokens[0].Text == "(" {
		switch end := closingToken(tokens, 0); {
		case end == len(tokens):
			tokens = tokens[1 : end-1]
		case end > 0 && isType(tokens[1:end-1]):
			tokens = tokens[end:]
		default:
			return ""
		}
	}
	if len(tokens) != 1 || tokens[0].Kind != cmacro.Name {
		return ""
	}
	return tokens[0].Text
}

func isType(tokens []cmacro.Token) bool {
	return len(tokens) > 0 && !slices.ContainsFunc(tokens, func(t cmacro.Token) bool {
		return t.Kind != cmacro.Name && t.Text != "*"
	})
}

// assigned returns the variable to which what follows the tokens is assigned, "" if it is no variable. Casts and
// parentheses may precede the value.
func assigned(tokens []cmacro.Token) string {
	n := len(tokens)
	for n > 0 && tokens[n-1].Text != "=" {
		switch tokens[n-1].Text {
		case "(":
			n--
		case ")":
			begin := openingToken(tokens[:n])
			if begin < 0 || !isType(tokens[begin+1:n-1]) {
				return ""
			}
			n = begin
		default:
			return ""
		}
	}
	if n < 2 || tokens[n-2].Kind != cmacro.Name {
		return ""
	}
	before := n - 3
	for before >= 0 && tokens[before].Text == "*" {
		before--
	}
	pointer := before < n-3 // either a declaration of a pointer, or what a pointer points to
	if before >= 0 && (tokens[before].Text == "." || tokens[before].Text == "->") ||
		pointer && (before < 0 || tokens[before].Kind != cmacro.Name && tokens[before].Text != ",") {
		return ""
	}
	return tokens[n-2].Text
}

// openingToken returns the index of the bracket that the last token closes, -1 if there is none.
func openingToken(tokens []cmacro.Token) int {
	depth := 0
	for i, t := range slices.Backward(tokens) {
		switch t.Text {
		case ")", "]", "}":
			depth++
		case "(", "[", "{":
			depth--
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}
