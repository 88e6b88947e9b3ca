// This file has the handshake of a TCP connection and its packets (rpc_tcp.md §1).

package serve

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// The numbers that begin the handshake.
const (
	magic       = 0xFF271
	keyMismatch = 0xFF273
)

const (
	helloTimeout = 10 * time.Second // for a client to send its key
	packetTime   = 30 * time.Second // for one packet, beside its bytes
	packetRate   = 64 << 10         // bytes a second that a client reaches at least
	writeTimeout = 60 * time.Second
	maxKey       = 1 << 10
	protocol     = "0.8.0" // of InitServer, in each version
)

// A hello is a client's part of the handshake.
type hello struct {
	key     string        // "client:" and the match key
	timeout time.Duration // of the session; 0: none
}

// readHello reads a client's part of the handshake.
func readHello(c net.Conn) (hello, error) {
	if err := c.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return hello{}, err
	}
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return hello{}, err
	}
	n := le.Uint32(head[4:])
	if le.Uint32(head[:]) != magic || n > maxKey {
		return hello{}, failure.Errorf(failure.Transport, "%v is no client of TVM's RPC", c.RemoteAddr())
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(c, text); err != nil {
		return hello{}, err
	}
	return parseHello(string(text)), c.SetReadDeadline(time.Time{})
}

func parseHello(text string) (h hello) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return h
	}
	h.key = words[0]
	for _, w := range words[1:] {
		if value, ok := strings.CutPrefix(w, "-timeout="); ok {
			const longest = 1e9 // seconds
			if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 && s < longest {
				h.timeout = time.Duration(s * float64(time.Second))
			}
		}
	}
	return h
}

// refuse ends the handshake with a client whose key is not the current one.
func refuse(c net.Conn) { _ = writeAll(c, le.AppendUint32(nil, keyMismatch)) }

// welcome ends the handshake with a client that is served.
func welcome(c net.Conn, key string) error {
	text := "server:" + key
	msg := le.AppendUint32(nil, magic)
	msg = le.AppendUint32(msg, uint32(len(text)))
	return writeAll(c, append(msg, text...))
}

func writeAll(c net.Conn, msg []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := c.Write(msg)
	return err
}

// readPacket reads the rest of a packet of at most limit bytes behind its first byte, and returns it with its length in
// front; nil for one of length 0. Memory is allocated only for bytes that arrive. The packet has a deadline.
func readPacket(c net.Conn, first byte, limit int) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(packetTime)); err != nil {
		return nil, err
	}
	msg := bytes.NewBuffer([]byte{first})
	if _, err := io.CopyN(msg, c, 7); err != nil {
		return nil, err
	}
	n := le.Uint64(msg.Bytes())
	if n == 0 {
		return nil, nil
	}
	if n > uint64(limit) {
		return nil, &longPacketError{n, limit}
	}
	end := packetTime + time.Duration(n/packetRate)*time.Second
	if err := c.SetReadDeadline(time.Now().Add(end)); err != nil {
		return nil, err
	}
	_, err := io.CopyN(msg, c, int64(n))
	return msg.Bytes(), err
}

// readByte waits for the first byte of a packet.
func readByte(c net.Conn) (byte, error) {
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	var b [1]byte
	_, err := io.ReadFull(c, b[:])
	return b[0], err
}

// A longPacketError ends a session: the packet was not read.
type longPacketError struct {
	bytes uint64
	limit int
}

func (e *longPacketError) Error() string {
	return fmt.Sprintf("a packet of %d bytes: at most %d are accepted", e.bytes, e.limit)
}
