// This file checks, during the handshake, whether a link carries every byte unchanged. Flow control by XON and XOFF,
// conversion of line ends, telnet and echoes change the stream, which would otherwise look like a device that hangs.

package transport

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/framing"
)

// suspects are the bytes that links change. Each is the nonce of an Init, whose reply has it, too.
var suspects = []byte{xon, xoff, '\n', '\r', framing.Escape}

const (
	xon, xoff = 0x11, 0x13

	checkRounds = 8 // handshakes after which a suspect without a reply counts as changed: a lossy link loses some
	mostEchoes  = 3 // Inits of this side received; two sides that begin at once rarely choose equal nonces twice
)

var errEcho = errors.New("received what was sent")

// A byteCheck collects what the handshake shows about a link.
type byteCheck struct {
	unproven []byte // suspects that no reply had yet
	rounds   int    // completed handshakes
	echoes   int    // Inits of this side that were received
	high     bool   // a byte with the highest bit set was received
	masked   bool   // a frame's start without these bits was received
}

// inits returns the Init messages of the suspects without a reply, besides the session's own.
func (c *byteCheck) inits(nonce byte) (all [][]byte) {
	for _, b := range c.unproven {
		if b != nonce {
			all = append(all, []byte{b, 0, typeInit, sessionVersion})
		}
	}
	return all
}

// received takes bytes as the link delivered them.
func (c *byteCheck) received(p []byte) {
	c.high = c.high || slices.ContainsFunc(p, func(b byte) bool { return b >= 0x80 })
	c.masked = c.masked || bytes.Contains(p, []byte{framing.Escape & 0x7f, framing.FrameStart & 0x7f})
}

// message takes a message before the session is established. It reports whether it is an echo of an Init that inits
// returned.
func (c *byteCheck) message(msg []byte, nonce byte) bool {
	if len(msg) <= headerSize {
		return false
	}

	switch msg[2] {
	case typeReply:
		c.unproven = slices.DeleteFunc(c.unproven, func(b byte) bool { return b == msg[0] })
	case typeInit:
		own := slices.Contains(c.unproven, msg[0])
		if own || msg[0] == nonce {
			c.echoes++
		}
		// With the session's own nonce it may be the other side's Init: endpoint.receive decides.
		return own && msg[0] != nonce
	}
	return false
}

// changed describes the bytes that the link changes; "" without such a finding. established: the handshake succeeded
// but for them.
func (c *byteCheck) changed(established bool) (changed, advice string) {
	switch {
	case c.echoes >= mostEchoes:
		return "sends back what it receives", "turn its echo off"
	case !established && c.masked && !c.high:
		return "clears the highest bit of each byte", "set it to 8 data bits without parity"
	case !established || len(c.unproven) == 0:
		return "", ""
	}

	var list []string
	for _, b := range c.unproven {
		list = append(list, fmt.Sprintf("0x%02x", b))
	}
	changed = "loses or changes the bytes " + strings.Join(list, ", ")

	has := func(b byte) bool { return slices.Contains(c.unproven, b) }
	switch {
	// 0xff is telnet's command byte, too.
	case has(framing.Escape):
		return changed, "its serial server speaks telnet: choose its raw mode"
	case has(xon) && has(xoff):
		return changed, "turn its flow control by XON and XOFF off"
	case has('\n') || has('\r'):
		return changed, "turn its conversion of line ends off: choose its raw mode"
	}
	return changed, "choose its raw mode, with 8 data bits and without flow control by XON and XOFF"
}
