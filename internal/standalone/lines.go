// This file reads and writes lines.

package standalone

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	maxLine   = 4096 // bytes; the firmware's longest lines have a tenth
	crcDigits = 8
)

// A line is a line of the firmware with a right CRC.
type line struct {
	answer bool   // to request number; else a line without a request
	number uint16 // of the request; 0 if the firmware did not read it
	words  []string
}

// encode returns the bytes of a request.
func encode(number uint16, words []string) []byte {
	text := fmt.Sprintf("?%04x %s ", number, strings.Join(words, " "))
	return fmt.Appendf(nil, "%s%08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// parse reads a line without its end. isLine is false for text that is no line of this protocol; err reports a damaged
// line.
func parse(text []byte) (l line, isLine bool, err error) {
	if len(text) == 0 || text[0] != '=' && text[0] != '!' {
		return line{}, false, nil
	}

	at := len(text) - crcDigits
	if at < 1 || text[at-1] != ' ' {
		return line{}, true, fmt.Errorf("%d bytes without a CRC", len(text))
	}

	crc, ok := number(string(text[at:]), crcDigits)
	if want := crc32.ChecksumIEEE(text[:at]); !ok || crc != uint64(want) {
		return line{}, true, fmt.Errorf("its CRC is %.8q, that of its text %08x", text[at:], want)
	}

	words := strings.Split(string(text[1:at-1]), " ")
	n, ok := number(words[0], 4)
	if !ok || len(words) < 2 {
		return line{}, true, fmt.Errorf("%.40q has no number or no word", text)
	}

	return line{text[0] == '=', uint16(n), words[1:]}, true, nil
}

// number parses exactly this many hexadecimal digits, in small letters.
func number(word string, digits int) (uint64, bool) {
	if len(word) != digits || strings.ToLower(word) != word || strings.ContainsAny(word, "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(word, 16, 64)
	return n, err == nil
}

// numbers parses words with exactly these numbers of digits.
func numbers(words []string, digits ...int) (list []uint64, ok bool) {
	if len(words) != len(digits) {
		return nil, false
	}
	for i, word := range words {
		n, ok := number(word, digits[i])
		if !ok {
			return nil, false
		}
		list = append(list, n)
	}
	return list, true
}

// data parses a word of bytes.
func data(word string) ([]byte, bool) {
	if word == "-" {
		return nil, true
	}

	b, err := hex.DecodeString(word)
	return b, err == nil && word != "" && strings.ToLower(word) == word
}

// RecordMark begins the line with a fault record that a port sends each time that it starts again with the same one.
// Hexadecimal digits follow.
const RecordMark = "#fault "

// RecordIn returns the last fault record in text that firmware has sent; nil: there is none.
func RecordIn(text []byte) (rec *fault.Record) {
	for line := range bytes.Lines(text) {
		digits, marked := bytes.CutPrefix(bytes.TrimSpace(line), []byte(RecordMark))
		if b, err := hex.DecodeString(string(digits)); marked && err == nil {
			if parsed, err := fault.ParseRecord(b); err == nil {
				rec = parsed
			}
		}
	}

	return rec
}

// A reader splits a link's bytes into lines. It drops text that is longer than any line.
type reader struct {
	link     transport.Link
	text     []byte
	drop     bool  // the rest of a line that is too long
	received int64 // bytes
}

// next waits for the end of a line and returns it without its end. It is valid until the next call. Errors: those of
// transport.Link.
func (r *reader) next(ctx context.Context) ([]byte, error) {
	buffer := make([]byte, 1024)
	for {
		if end := bytes.IndexByte(r.text, '\n'); end >= 0 {
			line := bytes.TrimSuffix(r.text[:end], []byte("\r"))
			r.text = r.text[end+1:]
			// The end of a line that was too long.
			if r.drop {
				r.drop = false
				continue
			}
			return line, nil
		}

		if len(r.text) > maxLine {
			r.text, r.drop = r.text[:0], true
		}

		n, err := r.link.Read(ctx, buffer)
		if err != nil {
			return nil, err
		}

		r.received += int64(n)
		r.text = append(r.text, buffer[:n]...)
	}
}
