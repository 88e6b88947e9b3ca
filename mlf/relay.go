// This file reads the signature of @main from the Relay text, the only source of an AOT model's shapes and order.

package mlf

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/ndarray"
)

// A relayText is the signature of @main. Missing and unsupported parts are left out.
type relayText struct {
	Params      []Tensor // inputs and parameters alike
	Results     []Tensor // without names; tuples are flattened
	OutputNames []string // the function attribute output_tensor_names
}

var relayComment = regexp.MustCompile(`(?s)/\*.*?\*/`)

// parseRelay reads `def @main(%name: Type, ..., attribute=value) -> Type {`. Names may hold colons and dots.
func parseRelay(text string) *relayText {
	r := &relayText{}
	_, text, ok := strings.Cut(text, "def @main")
	if !ok {
		return r
	}

	end := strings.Index(text, "{\n") // the body follows; a type or attribute has no brace before a line's end
	if end < 0 {
		return r
	}
	text = relayComment.ReplaceAllString(text[:end], "")

	args, rest, ok := bracketed(strings.TrimSpace(text))
	if !ok {
		return r
	}
	for _, arg := range splitTop(args) {
		r.readArgument(arg)
	}

	if _, result, ok := strings.Cut(rest, "->"); ok {
		if ts, ok := relayTypes(strings.TrimSpace(result)); ok {
			r.Results = ts
		}
	}
	return r
}

func (r *relayText) readArgument(arg string) {
	if list, ok := strings.CutPrefix(arg, "output_tensor_names="); ok {
		r.OutputNames = quoted(list)
		return
	}
	if !strings.HasPrefix(arg, "%") {
		return
	}

	// A name may hold colons: the last one precedes the type.
	at := strings.LastIndex(arg, ": ")
	if at < 0 {
		return
	}

	if t, ok := relayType(strings.TrimSpace(arg[at+2:])); ok {
		t.Name = arg[1:at]
		r.Params = append(r.Params, t)
	}
}

// relayTypes reads a type, a tuple of types, or nested tuples.
func relayTypes(s string) ([]Tensor, bool) {
	if !strings.HasPrefix(s, "(") {
		t, ok := relayType(s)
		return []Tensor{t}, ok
	}

	inner, rest, ok := bracketed(s)
	if !ok || strings.TrimSpace(rest) != "" {
		return nil, false
	}

	var all []Tensor
	for _, part := range splitTop(inner) {
		ts, ok := relayTypes(part)
		if !ok {
			return nil, false
		}
		all = append(all, ts...)
	}
	return all, true
}

// relayType reads `Tensor[(1, 64), int8]`, or a scalar's type, which is its data type alone.
func relayType(s string) (Tensor, bool) {
	dtype, shape := s, []int64{}
	if rest, ok := strings.CutPrefix(s, "Tensor["); ok {
		dims, after, ok := bracketed(rest)
		dtype, ok2 := strings.CutPrefix(after, ",")
		dtype, ok3 := strings.CutSuffix(strings.TrimSpace(dtype), "]")
		if !ok || !ok2 || !ok3 {
			return Tensor{}, false
		}
		for _, part := range splitTop(dims) {
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil {
				return Tensor{}, false // a dimension known only at run time
			}
			shape = append(shape, n)
		}
		return typed(dtype, shape)
	}
	return typed(dtype, shape)
}

func typed(dtype string, shape []int64) (Tensor, bool) {
	d, err := ndarray.ParseDType(dtype)
	if err != nil {
		return Tensor{}, false
	}
	return shaped("", d, shape)
}

// bracketed returns the text inside the bracket that s begins with, and the text after it. It skips quoted text.
func bracketed(s string) (inner, rest string, ok bool) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			i += closingQuote(s[i+1:]) + 1
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth == 0 {
			return s[min(1, i):min(i, len(s))], s[min(i+1, len(s)):], i > 0 && i < len(s)
		}
	}
	return "", "", false
}

// splitTop splits at commas outside brackets and quotes, and trims the parts; empty parts are dropped.
func splitTop(s string) (parts []string) {
	depth, from := 0, 0
	add := func(part string) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}

	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			i += closingQuote(s[i+1:]) + 1
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',':
			if depth == 0 {
				add(s[from:i])
				from = i + 1
			}
		}
	}

	add(s[min(from, len(s)):])
	return parts
}

// closingQuote returns the index of the closing quote, or the length of s.
func closingQuote(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(s)
}

// quoted reads a list of texts, such as `["a", "b"]`.
func quoted(list string) (texts []string) {
	inner, _, ok := bracketed(list)
	if !ok {
		return nil
	}

	for _, part := range splitTop(inner) {
		s, err := strconv.Unquote(part)
		if err != nil {
			return nil
		}
		texts = append(texts, s)
	}
	return texts
}
