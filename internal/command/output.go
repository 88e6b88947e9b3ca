// This file keeps what a program prints.

package command

import (
	"bytes"
	"sync"
)

// An excerpt keeps the beginning and the end of the data written to its streams.
type excerpt struct {
	mu         sync.Mutex
	head, tail []byte
}

// stream returns one of the program's outputs, which calls line for each line.
func (e *excerpt) stream(line func(string)) *stream { return &stream{e: e, line: line} }

func (e *excerpt) add(p []byte) {
	if room := headBytes - len(e.head); room > 0 {
		n := min(room, len(p))
		e.head, p = append(e.head, p[:n]...), p[n:]
	}
	e.tail = append(e.tail, p...)
	if extra := len(e.tail) - tailBytes; extra > 0 {
		e.tail = append(e.tail[:0], e.tail[extra:]...)
	}
}

func (e *excerpt) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.head) + string(e.tail)
}

// A stream passes on whole lines, and the rest at its end. The excerpt gets them whole, too: one stream's lines do not
// come into another's. Of a longer line than the head, it gets pieces.
type stream struct {
	e    *excerpt
	line func(string)
	part []byte // of a line, for line
	rest []byte // of a line, for the excerpt
}

func (s *stream) Write(p []byte) (int, error) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	whole := bytes.LastIndexByte(p, '\n') + 1
	if len(s.rest)+len(p)-whole > headBytes {
		whole = len(p)
	}
	if whole > 0 {
		s.e.add(s.rest)
		s.e.add(p[:whole])
		s.rest = s.rest[:0]
	}
	s.rest = append(s.rest, p[whole:]...)
	if s.line == nil {
		return len(p), nil
	}
	rest := p
	for {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		s.keep(rest[:i])
		s.handOn()
		rest = rest[i+1:]
	}
	s.keep(rest)
	return len(p), nil
}

// keep adds to the line, up to its longest.
func (s *stream) keep(p []byte) { s.part = append(s.part, p[:min(len(p), headBytes-len(s.part))]...) }

func (s *stream) handOn() {
	s.line(string(bytes.TrimRight(s.part, "\r")))
	s.part = s.part[:0]
}

// end passes on a last line without newline. No write may follow.
func (s *stream) end() {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.e.add(s.rest)
	if len(s.part) > 0 {
		s.handOn()
	}
}
