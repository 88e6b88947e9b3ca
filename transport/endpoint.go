// This file is the state machine of the session layer (wire.md §2). It does no I/O and does not wait: Session does.

package transport

import "math/rand/v2"

// Message types, the third byte of the header.
const (
	typeInit      = 0x00
	typeReply     = 0x01
	typeTerminate = 0x02
	typeLog       = 0x03
	typeNormal    = 0x10
)

const (
	headerSize     = 3
	sessionVersion = 1
)

type state uint8

const (
	noSession state = iota
	startSent       // an Init was sent
	established
)

// A notice is the meaning of a received message.
type notice uint8

const (
	nothing      notice = iota
	sessionBegan        // established, perhaps once more
	sessionEnded        // the other side terminated
	gotMessage          // a message of this session; its body follows the header
	gotLog              // a log line
	wrongVersion        // the other side uses another version of the session layer
	strayMessage        // a message of another session: ignored
	newInitiator        // an Init in an established session, which it replaces
)

// A session id as sent: the initiator's nonce, then the responder's.
type sessionID [2]byte

// An endpoint is one end of a session, initiator or responder. No received message makes it fail.
type endpoint struct {
	state state
	nonce byte // the last nonce used; 0 before the first
	id    sessionID
}

// nextNonce returns the nonce of the next attempt (wire.md §2.2).
func (e *endpoint) nextNonce() byte {
	e.nonce = (e.nonce<<5 | e.nonce>>5) + 1
	if e.nonce == 0 {
		e.nonce = 1
	}
	return e.nonce
}

// terminate is the message that ends the other side's session.
var terminate = []byte{0, 0, typeTerminate}

// begin starts an attempt with a new nonce and returns its Init.
func (e *endpoint) begin() []byte {
	e.state, e.id = startSent, sessionID{e.nextNonce()}
	return []byte{e.id[0], 0, typeInit, sessionVersion}
}

// header returns the header of the next message of this session.
func (e *endpoint) header() [headerSize]byte { return [headerSize]byte{e.id[0], e.id[1], typeNormal} }

// belongs reports whether a message, possibly damaged, has this session's id and type.
func (e *endpoint) belongs(msg []byte) bool {
	return e.state == established && len(msg) >= headerSize && [headerSize]byte(msg) == e.header()
}

// receive handles a message of an undamaged frame. reply is a message to send back, or nil.
func (e *endpoint) receive(msg []byte) (n notice, reply []byte) {
	if len(msg) < headerSize {
		return strayMessage, nil
	}

	id := sessionID{msg[0], msg[1]}
	switch msg[2] {
	case typeInit:
		return e.receiveInit(id, msg[headerSize:])
	case typeReply:
		return e.receiveReply(id, msg[headerSize:]), nil
	case typeTerminate:
		if e.state != established {
			return nothing, nil
		}
		e.state = noSession
		return sessionEnded, nil
	case typeLog:
		// A log line usually has the id 0, also before a session.
		if id == (sessionID{}) || id == e.id {
			return gotLog, nil
		}
	case typeNormal:
		if e.belongs(msg) {
			return gotMessage, nil
		}
	}
	return strayMessage, nil
}

func (e *endpoint) receiveInit(id sessionID, body []byte) (notice, []byte) {
	nonce := id[0]
	// Messages outside of a session have the nonce 0.
	if nonce == 0 || len(body) < 1 {
		return strayMessage, nil
	}

	if e.state == startSent { // both sides began at once: the side with the lower nonce stays initiator
		switch {
		case nonce > e.nonce:
			return nothing, nil
		case nonce == e.nonce:
			e.nonce ^= byte(rand.Uint32()) // otherwise two equal sides would conflict repeatedly
			return nothing, e.begin()
		case body[0] != sessionVersion:
			return wrongVersion, nil
		}
	}

	replaced := e.state == established
	e.state, e.id = established, sessionID{nonce, e.nextNonce()}
	reply := []byte{e.id[0], e.id[1], typeReply, sessionVersion}

	if replaced {
		return newInitiator, reply
	}
	return sessionBegan, reply
}

// receiveReply handles a reply. It ignores one to an earlier attempt, or during a session.
func (e *endpoint) receiveReply(id sessionID, body []byte) notice {
	if e.state != startSent || id[0] != e.nonce || id[1] == 0 || len(body) < 1 {
		return strayMessage
	}
	if body[0] != sessionVersion {
		return wrongVersion
	}
	e.state, e.id = established, id
	return sessionBegan
}
