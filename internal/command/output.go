// This file keeps what a program prints.

package command

import (
	"bytes"
	"sync"
)

// A keeper keeps the beginning and the end of the data written to its streams.
type keeper struct {
	mu         sync.Mutex
	head, tail []byte
}

// stream returns one of the program's outputs, which calls line for each line.
func (k *keeper) stream(line func(string)) *stream { return &stream{k: k, line: line} }

func (k *keeper) add(p []byte) {
	if room := headBytes - len(k.head); room > 0 {
		n := min(room, len(p))
		k.head, p = append(k.head, p[:n]...), p[n:]
	}
	k.tail = append(k.tail, p...)
	if extra := len(k.tail) - tailBytes; extra > 0 {
		k.tail = append(k.tail[:0], k.tail[extra:]...)
	}
}

func (k *keeper) text() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return string(k.head) + string(k.tail)
}

// A stream passes on whole lines, and the rest at its end. The keeper gets them whole, too: one stream's lines do not
// come into another's. Of a longer line than the head, it gets pieces.
type stream struct {
	k    *keeper
	line func(string)
	part []byte // of a line, for line
	rest []byte // of a line, for the keeper
}

func (s *stream) Write(p []byte) (int, error) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	whole := bytes.LastIndexByte(p, '\n') + 1
	if len(s.rest)+len(p)-whole > headBytes {
		whole = len(p)
	}
	if whole > 0 {
		s.k.add(s.rest)
		s.k.add(p[:whole])
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
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	s.k.add(s.rest)
	if len(s.part) > 0 {
		s.handOn()
	}
}
