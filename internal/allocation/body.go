// This file reads the statements of one function for its memory operations.

package allocation

import (
	"fmt"
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
	steps    []Step
	held     []Step // the pieces that are not freed
	pieces   int
	depth    int            // of nested statements
	takes    bool           // whether it allocates or frees
	strays   string         // a reason why the order of statements is unknown
	jump     string         // the word of the last jump
	tested   []cmacro.Token // the condition around a statement
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
	if b.strays != "" && b.takes {
		b.unclear("allocates and has %s", b.strays)
	}
	r.steps[name] = b.steps
}

// readNames lists what may be a variable or an enumerator that the function declares, because it follows a type or a
// comma, is assigned, or its address is taken. It hides a constant of this name.
func (b *bodyReader) readNames() {
	parameters, depth := true, 0
	for i, t := range b.tokens {
		switch t.Text {
		case "(":
			depth++
		case ")":
			depth--
		}
		before, after := cmacro.Token{}, cmacro.Token{}
		if i > 0 {
			before = b.tokens[i-1]
		}
		if i+1 < len(b.tokens) {
			after = b.tokens[i+1]
		}
		parameters = parameters && t.Text != ";"
		listed := depth == 0 && slices.Contains([]string{",", "{"}, before.Text) &&
			slices.Contains([]string{",", ";", "}"}, after.Text)
		follows := before.Kind == cmacro.Name &&
			!slices.Contains([]string{"return", "case", "goto", "else", "sizeof"}, before.Text)
		if t.Kind == cmacro.Name && (parameters || follows || listed || after.Text == "=" || before.Text == "&") {
			b.names[t.Text] = true
		}
	}
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
		return b.take("else") && b.branch(nil) && jumps
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
		b.leave(word)
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

// leave reads the rest of a jump, and reports the memory that a return leaks.
func (b *bodyReader) leave(word string) {
	value := b.untilSemicolon()
	b.jump = word
	if word == "goto" {
		b.strays = "a goto"
	}
	b.expression(value)
	if word != "return" || b.fails(value) {
		return
	}
	for _, p := range b.held {
		if !tests(b.tested, p.Name, "==", "!") {
			b.leak(p)
		}
	}
}

// fails reports whether a function returns an error: a number but 0, or what the condition around has tested.
func (b *bodyReader) fails(value []cmacro.Token) bool {
	if len(value) == 1 && value[0].Kind == cmacro.Name {
		return tests(b.tested, value[0].Text, "")
	}
	if len(value) == 2 && value[0].Text == "-" {
		value = value[1:]
	}
	return len(value) == 1 && value[0].Kind == cmacro.Number && strings.Trim(value[0].Text, "0xXuUlL") != ""
}

// tests reports whether a condition depends only on a name, and has one of these operators; "" is any.
func tests(condition []cmacro.Token, name string, operators ...string) bool {
	has := func(texts ...string) bool {
		return slices.ContainsFunc(condition, func(t cmacro.Token) bool { return slices.Contains(texts, t.Text) })
	}
	return name != "" && has(name) && !has("&&", "||", "?") && (has(operators...) || slices.Contains(operators, ""))
}

// simple reads an expression or a declaration.
func (b *bodyReader) simple() {
	tokens := b.untilSemicolon()
	b.expression(tokens)
	if slices.ContainsFunc(tokens, func(t cmacro.Token) bool { return t.Text == "const" }) {
		if name, expression, ok := constantOf(textOf(tokens)); ok {
			_, twice := b.locals[name]
			if _, hides := b.constants[name]; twice || hides { // its scope may end before its use
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
	before, from, around := slices.Clone(b.held), len(b.steps), b.tested
	b.tested = condition
	jumps = b.statement()
	b.tested = around
	if jumps {
		b.keep(before, from)
		for _, p := range slices.Backward(b.held) {
			if !slices.Contains(before, p) {
				if b.jump != "return" {
					b.unclear("allocates %s and leaves a loop", p.Name)
				}
				b.steps = append(b.steps, Step{Kind: StepGive, Piece: p.Piece, Name: p.Name})
			}
		}
		b.held = before
		return true
	}
	for _, p := range before {
		if !slices.Contains(b.held, p) && (!tests(condition, p.Name, "") || tests(condition, p.Name, "==", "!")) {
			b.unclear("frees %s under a condition", p.Name)
			b.keep([]Step{p}, from)
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
			b.keep([]Step{p}, from)
			b.held = append(b.held, p)
		}
	}
}

// keep removes the steps from an index on that free one of these pieces.
func (b *bodyReader) keep(pieces []Step, from int) {
	kept := b.steps[:from]
	for _, s := range b.steps[from:] {
		isOne := func(p Step) bool { return p.Piece == s.Piece }
		if s.Kind != StepGive || !slices.ContainsFunc(pieces, isOne) {
			kept = append(kept, s)
		}
	}
	b.steps = kept
}

var (
	statementWords = []string{"if", "else", "for", "while", "do", "switch", "return", "goto", "break", "continue"}
	assemblyWords  = []string{"asm", "__asm__", "__asm"}
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
			b.strays = "a macro without a semicolon"
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
		b.allocate(assigned(tokens[:i]), arguments[2])
	case tokens[i].Text == giveFunction && len(arguments) == 3:
		variable := bare(arguments[2])
		calls := func(t cmacro.Token) bool { return b.functions[t.Text] != nil || t.Text == takeFunction }
		if rest := tokens[i+1:]; slices.ContainsFunc(rest, calls) {
			b.unclear("frees %s and calls a function in one expression", variable)
		}
		conditional := func(t cmacro.Token) bool { return slices.Contains([]string{"&&", "||", "?"}, t.Text) }
		last := len(tokens[:i]) - 1
		if last >= 0 && tokens[last].Text == "&&" && tests(tokens[:last], variable, "") || !slices.ContainsFunc(tokens[:i],
			conditional) {
			b.free(variable)
		} else {
			b.unclear("frees %s under a condition", variable)
		}
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

// sizeOf computes a constant expression.
func (b *bodyReader) sizeOf(size []cmacro.Token) (int64, error) {
	tokens, err := b.expanded(size, 0)
	if err != nil {
		return 0, err
	}
	v, used, err := cmacro.Evaluator{Width: 64, Portable: true}.Prefix(tokens)
	switch {
	case err != nil:
		return 0, err
	case v.Access || used < len(tokens):
		return 0, fmt.Errorf("%w: %s", cmacro.ErrNotConstant, textOf(tokens))
	}
	return int64(min(v.Number, mostBytes)), nil
}

const (
	deepestConstant = 16   // constants that are defined by constants
	longestConstant = 4096 // tokens
)

// expanded replaces constants by their text, as a preprocessor does, and sizeof of types by numbers.
func (b *bodyReader) expanded(tokens []cmacro.Token, depth int) (out []cmacro.Token, err error) {
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		text, isConstant := b.constantText(t)
		size, end := b.sizeOfType(tokens, i)
		switch {
		case end > 0:
			out = append(out, cmacro.Token{Kind: cmacro.Number, Text: size})
			i = end - 1
		case !isConstant:
			out = append(out, t)
		case text == "" || depth == deepestConstant:
			return nil, fmt.Errorf("%w: %s", cmacro.ErrNotConstant, t.Text)
		default:
			inner, err := cmacro.Tokens(text)
			if err == nil {
				inner, err = b.expanded(inner, depth+1)
			}
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
		}
		if len(out) > longestConstant {
			return nil, fmt.Errorf("%w: it is too long", cmacro.ErrNotConstant)
		}
	}
	return out, nil
}

// constantText returns the text that a name stands for; "" if there is none or there are several.
func (b *bodyReader) constantText(t cmacro.Token) (text string, ok bool) {
	if t.Kind != cmacro.Name {
		return "", false
	}
	if text, ok = b.locals[t.Text]; ok {
		return text, true
	}
	if text, ok = b.constants[t.Text]; ok && b.names[t.Text] {
		return "", true
	}
	return text, ok
}

// typeSizes are the sizes in bytes of types that have the same on all boards.
var typeSizes = map[string]string{
	"char": "1", "signed char": "1", "unsigned char": "1", "bool": "1", "_Bool": "1",
	"short": "2", "unsigned short": "2", "int": "4", "unsigned": "4", "unsigned int": "4", "float": "4",
	"double": "8", "long long": "8",
	"unsigned long long": "8", "int8_t": "1", "uint8_t": "1", "int16_t": "2", "uint16_t": "2", "int32_t": "4",
	"uint32_t": "4", "int64_t": "8", "uint64_t": "8",
}

// sizeOfType returns the size of a type for the sizeof at index i, and the index after it; 0 if it is none.
func (b *bodyReader) sizeOfType(tokens []cmacro.Token, i int) (size string, end int) {
	if tokens[i].Text != "sizeof" {
		return "", 0
	}
	if end = closingToken(tokens, i+1); end == 0 {
		return "", 0
	}
	words := tokens[i+2 : end-1]
	size, ok := typeSizes[textOf(words)]
	if !ok || slices.ContainsFunc(words, func(t cmacro.Token) bool { _, ok := b.constantText(t); return ok }) {
		return "", 0
	}
	return size, end
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
