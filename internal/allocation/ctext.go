// This file splits C sources into functions and their tokens, as far as workspace.go needs it.

package allocation

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/mlf"
)

// A cText is what a source defines, outside of its comments.
type cText struct {
	name      string // of the file
	functions []cFunction
	mentions  map[string]bool // names in declarations and initialisers at file scope
	optional  []byte          // text that is compiled under a condition
	macros    []string        // all #define lines
	broken    bool            // braces or quotes do not match
	registry  bool            // the file has the system library's registry
	composes  bool            // a macro composes names
	parts     map[string]bool // words that may be the end of the composed name of a function that allocates
}

// A cFunction is one definition.
type cFunction struct {
	name string
	body string // without the outer braces
}

// readC splits one file.
func readC(f mlf.File) *cText {
	c := &cText{name: f.Name, mentions: map[string]bool{}, parts: map[string]bool{}}
	c.registry = f.HasRegistry()
	c.readFileScope(c.plain(f.Data))
	return c
}

// plain returns the source without comments and directives, which it reads.
func (c *cText) plain(src []byte) []byte {
	if bytes.ContainsRune(src, '\\') {
		src = bytes.ReplaceAll(bytes.ReplaceAll(src, []byte("\\\r\n"), nil), []byte("\\\n"), nil)
	}
	src = c.withoutComments(src)
	c.composes = bytes.Contains(src, []byte("##"))
	eachName(src, func(name string) {
		if isEnding(name) {
			c.parts[name] = true
		}
	})
	depth := 0 // of #if
	out := make([]byte, 0, len(src))
	for len(src) > 0 {
		line, rest, _ := bytes.Cut(src, []byte("\n"))
		src = rest
		if directive := bytes.TrimLeft(line, " \t\r\f\v"); len(directive) > 0 && directive[0] == '#' {
			depth += c.readDirective(string(bytes.TrimSpace(directive[1:])))
			continue
		}
		if depth > 0 {
			c.optional = append(append(c.optional, line...), '\n')
		}
		out = append(append(out, line...), '\n')
	}
	return out
}

// isEnding reports whether a word is the end of the name of a function that allocates.
func isEnding(word string) bool {
	const least = 4 // letters
	return len(word) >= least && slices.ContainsFunc(append(otherTakes, takeFunction), func(name string) bool {
		return word != name && strings.HasSuffix(name, word)
	})
}

// withoutComments replaces each comment by a space.
func (c *cText) withoutComments(src []byte) []byte {
	out := make([]byte, 0, len(src))
	for len(src) > 0 {
		i := bytes.IndexAny(src, "/\"'")
		if i < 0 {
			return append(out, src...)
		}
		out, src = append(out, src[:i]...), src[i:]
		n := 1
		switch {
		case src[0] != '/':
			if n = literal(src); n == 0 {
				n, c.broken = 1, true
			}
			out = append(out, src[:n]...)
		case bytes.HasPrefix(src, []byte("//")):
			if n = bytes.IndexByte(src, '\n'); n < 0 {
				n = len(src)
			}
		case bytes.HasPrefix(src, []byte("/*")):
			n = bytes.Index(src[2:], []byte("*/")) + 4
			if n < 4 {
				n, c.broken = len(src), true
			}
			out = append(out, ' ')
		default:
			out = append(out, '/')
		}
		src = src[n:]
	}
	return out
}

// literal returns the length of the string or character at the beginning of src, 0 if its line ends before it.
func literal(src []byte) int {
	for i := 1; i < len(src) && src[i] != '\n'; i++ {
		switch src[i] {
		case '\\':
			i++
		case src[0]:
			return i + 1
		}
	}
	return 0
}

var defineLine = regexp.MustCompile(`^define\s+(\w+)(.*)$`)

// readDirective reads one, without its #. It returns by how much the next lines are deeper in conditions.
func (c *cText) readDirective(line string) (deeper int) {
	switch {
	case strings.HasPrefix(line, "if"):
		return 1
	case strings.HasPrefix(line, "endif"):
		return -1
	case strings.HasPrefix(line, "define"):
		c.macros = append(c.macros, line)
	}
	return 0
}

// readFileScope reads declarations and definitions one after the other.
func (c *cText) readFileScope(text []byte) {
	var head []byte // of a declaration, without what is in braces
	begin := 0      // of what is not yet in head
	for at := 0; at < len(text); {
		next := at + 1
		switch text[at] {
		case '"', '\'':
			next = at + max(literal(text[at:]), 1)
		case ';':
			c.readDeclaration(append(head, text[begin:at]...))
			head, begin = nil, next
		case '}': // of a scope
			head, begin = nil, next
		case '{':
			head = append(head, text[begin:at]...)
			begin = next
			head = bytes.TrimSpace(attributeText.ReplaceAll(head, nil))
			if scopeHead.Match(head) { // what is inside is at file scope
				head = nil
				break
			}
			size := closing(text[at:])
			if size == 0 || len(head) > longestHead {
				c.broken = true
				return
			}

			inner := text[at+1 : at+size-1]
			if m := functionHead.FindSubmatch(head); m != nil {
				c.functions, head = append(c.functions, cFunction{string(m[1]), string(inner)}), nil
			} else {
				c.mention(inner)
			}
			next = at + size
			begin = next
		}
		at = next
	}
	c.readDeclaration(append(head, text[begin:]...))
}

const longestHead = 1 << 16 // bytes of a declaration without what is in its braces

// closing returns the length of text up to the brace that closes its first character, 0 if none does.
func closing(text []byte) int {
	depth := 0
	for at := 0; at < len(text); at++ {
		i := bytes.IndexAny(text[at:], "{}\"'")
		if i < 0 {
			return 0
		}
		at += i
		switch text[at] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return at + 1
			}
		default:
			at += max(literal(text[at:]), 1) - 1
		}
	}
	return 0
}

var (
	scopeHead     = regexp.MustCompile(`(?:extern\s*"C(?:\+\+)?"|\bnamespace(?:\s+[\w:]+)?)\s*$`)
	attributeText = regexp.MustCompile(`__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)`)
	functionHead  = regexp.MustCompile(`(?s)^[^()=]*?(\w+)\s*\((.*)\)\s*$`)
)

// readDeclaration reads what ends with a semicolon at file scope. A prototype mentions nothing. Without a type it is a
// macro, or a statement for an #include in a function.
func (c *cText) readDeclaration(text []byte) {
	head := bytes.TrimSpace(attributeText.ReplaceAll(text, nil))
	switch {
	case assembly.Match(head):
		eachName(text, func(name string) { c.mentions[name] = true })
		return
	case functionHead.Match(head) && !plainCall.Match(head):
		return
	}
	c.mention(text)
}

var (
	assembly  = regexp.MustCompile(`^(?:asm|__asm__|__asm)\b`)
	plainCall = regexp.MustCompile(`^\w+\s*\(`)
)

// mention adds the names in text that are outside of strings.
func (c *cText) mention(text []byte) {
	for at := 0; at < len(text); {
		begin := at
		for at < len(text) && text[at] != '"' && text[at] != '\'' {
			at++
		}
		eachName(text[begin:at], func(name string) { c.mentions[name] = true })
		if at < len(text) {
			at += max(literal(text[at:]), 1)
		}
	}
}

// eachName finds names. It does not tokenize the text, because it may hold megabytes of numbers.
func eachName(text []byte, yield func(name string)) {
	for at := 0; at < len(text); at++ {
		b := text[at]
		if !isWord(b) {
			continue
		}
		end := at + 1
		for end < len(text) && isWord(text[end]) {
			end++
		}
		if b < '0' || b > '9' {
			yield(string(text[at:end]))
		}
		at = end
	}
}

func isWord(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
