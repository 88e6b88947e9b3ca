// Package boardclient is the client's end of a server of boards: of TVM's tracker, and of the functions by which a
// client runs firmware of its own on a board (docs/formats/rpc_tcp.md §6). Package serve is the other end, and uses
// what both ends have in common.
package boardclient

import (
	"encoding/json"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
)

// What TVM's handshake and its first packet have.
const (
	Magic    = 0xFF271
	MaxKey   = 1 << 10 // bytes
	Protocol = "0.8.0" // of InitServer, in each version
)

// The names of the functions.
const (
	DescribeName = "boardsmith.place.describe"
	PrepareName  = "boardsmith.place.prepare"
	ResetName    = "boardsmith.place.reset"
	LinkName     = "boardsmith.place.link"
)

// The codes of packets that have no reply: bytes of the link, in both directions, and the end of the board's link, with
// a reply.
const (
	CodeLinkBytes tvmrpc.Code = 0x4253_0001
	CodeLinkEnd   tvmrpc.Code = 0x4253_0002
)

// LinkChunk is the size in bytes of the longest packet of a link: even a slow link takes it within writeTimeout.
const LinkChunk = 16 << 10

// A reply is the result of each function, in JSON.
type reply struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"` // "": none
	Class  failure.Class   `json:"class,omitempty"`
	Next   string          `json:"next,omitempty"` // advice, in the notation of package failure
}

// A LinkFacts is the result of LinkName.
type LinkFacts struct {
	Lossy   bool `json:"lossy,omitempty"`
	Bounded bool `json:"bounded,omitempty"`
}

// NewReply returns the text of a reply.
func NewReply(result json.RawMessage, err error) string {
	r := reply{Result: result}
	if err != nil {
		next := failure.NextFor(err, nextstep.Option, nextstep.Target)
		r = reply{Error: err.Error(), Class: failure.Of(err), Next: next}
	}

	text, err := json.Marshal(r)
	if err != nil {
		text, _ = json.Marshal(reply{Error: err.Error(), Class: failure.Internal}) // of texts
	}
	return string(text)
}

// LinkBytes returns the bytes of a packet for the link; false for another packet.
func LinkBytes(msg []byte) ([]byte, bool) {
	const head = 12
	if len(msg) < head || tvmrpc.Code(le.Uint32(msg[8:])) != CodeLinkBytes {
		return nil, false
	}
	return msg[head:], true
}

// LinkPacket returns a packet of one of the codes above.
func LinkPacket(code tvmrpc.Code, data []byte) []byte {
	msg := le.AppendUint64(make([]byte, 0, 12+len(data)), uint64(4+len(data)))
	return append(le.AppendUint32(msg, uint32(code)), data...)
}
