// This file is a connection to TVM's tracker (rpc_tcp.md §4).

package boardclient

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

const (
	trackerMagic  = 0x2F271
	trackerWait   = 10 * time.Second // for a reply
	maxTrackerMsg = 1 << 20          // of a reply
)

// The tracker's messages.
const (
	CodePut     = 3
	codeRequest = 4
	CodeUpdate  = 5
	codeSummary = 6
	codePending = 7
)

var le = binary.LittleEndian

// A Tracker is a connection to TVM's tracker. One goroutine uses it.
type Tracker struct {
	conn net.Conn
	stop func() bool
}

// DialTracker connects to a tracker. The connection ends with ctx.
func DialTracker(ctx context.Context, address string) (*Tracker, error) {
	d := net.Dialer{Timeout: trackerWait}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, failure.Errorf(failure.Transport, "%w", err)
	}

	t := &Tracker{conn, context.AfterFunc(ctx, func() { _ = conn.Close() })}
	if err := t.greet(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close ends the connection.
func (t *Tracker) Close() {
	t.stop()
	_ = t.conn.Close()
}

// greet makes the handshake.
func (t *Tracker) greet() error {
	if err := t.conn.SetDeadline(time.Now().Add(trackerWait)); err != nil {
		return err
	}
	if _, err := t.conn.Write(le.AppendUint32(nil, trackerMagic)); err != nil {
		return err
	}

	var reply [4]byte
	if _, err := io.ReadFull(t.conn, reply[:]); err != nil {
		return err
	}
	if le.Uint32(reply[:]) != trackerMagic {
		return failure.Errorf(failure.Config, "%v is no tracker of TVM", t.conn.RemoteAddr())
	}
	return nil
}

// Pending lists the keys of this connection that were not handed out.
func (t *Tracker) Pending() (all []string, err error) {
	err = t.Request(&all, codePending)
	return all, err
}

// Request sends a message and decodes the reply into result; nil: the reply must be 0.
func (t *Tracker) Request(result any, message ...any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}

	reply, err := t.exchange(text, time.Now().Add(trackerWait))
	if err != nil {
		return err
	}

	if result == nil {
		if string(bytes.TrimSpace(reply)) != "0" {
			return failure.Errorf(failure.Transport, "the tracker answered %.100q to %s", reply, text)
		}
		return nil
	}

	if err := json.Unmarshal(reply, result); err != nil {
		return failure.Errorf(failure.Transport, "the tracker answered %.100q to %s", reply, text)
	}
	return nil
}

// exchange sends a message and returns the reply, which must arrive before a time; the zero time: no limit.
func (t *Tracker) exchange(text []byte, before time.Time) ([]byte, error) {
	if err := t.conn.SetWriteDeadline(time.Now().Add(trackerWait)); err != nil {
		return nil, err
	}
	if _, err := t.conn.Write(append(le.AppendUint32(nil, uint32(len(text))), text...)); err != nil {
		return nil, err
	}

	if err := t.conn.SetReadDeadline(before); err != nil {
		return nil, err
	}
	return t.receive()
}

func (t *Tracker) receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(t.conn, head[:]); err != nil {
		return nil, err
	}

	n := le.Uint32(head[:])
	if n > maxTrackerMsg {
		return nil, failure.Errorf(failure.Transport, "the tracker sent a message of %d bytes", n)
	}

	// Memory is allocated for bytes that arrive, not for the announced length.
	var msg bytes.Buffer
	_, err := io.CopyN(&msg, t.conn, int64(n))
	return msg.Bytes(), err
}

// Keys asks TVM's tracker how many servers it has of each key.
func Keys(ctx context.Context, tracker string) (map[string]int, error) {
	limited, cancel := context.WithTimeout(ctx, trackerWait)
	defer cancel()
	t, err := DialTracker(limited, tracker)
	if err != nil {
		return nil, trackerError(ctx, tracker, err)
	}
	defer t.Close()

	var reply []json.RawMessage
	if err := t.Request(&reply, codeSummary); err != nil {
		return nil, trackerError(ctx, tracker, err)
	}

	var summary struct {
		Servers []struct {
			Key string `json:"key"`
		} `json:"server_info"`
	}
	if len(reply) != 2 || json.Unmarshal(reply[1], &summary) != nil {
		return nil, failure.Errorf(failure.Transport, "tracker %s: its summary is of another form", tracker)
	}

	keys := map[string]int{}
	for _, s := range summary.Servers {
		keys[strings.TrimPrefix(s.Key, "server:")]++
	}
	return keys, nil
}

func trackerError(ctx context.Context, tracker string, err error) error {
	switch {
	case ctx.Err() != nil:
		return failure.Stopped(ctx, "tracker %s", tracker)
	case failure.Of(err) == failure.Config:
		return failure.New(failure.Config, "name the address of TVM's tracker", "tracker %s: %w", tracker, err)
	}
	return failure.New(failure.Network, "start TVM's tracker there: python -m tvm.exec.rpc_tracker",
		"tracker %s: %w", tracker, err)
}

// requestServer waits until the tracker hands out a server.
func requestServer(ctx context.Context, tracker, key string, priority int) (address, matchKey string, err error) {
	t, err := DialTracker(ctx, tracker)
	if err != nil {
		return "", "", err
	}
	defer t.Close()

	text, err := json.Marshal([]any{codeRequest, key, "", priority})
	if err != nil {
		return "", "", err
	}

	// No limit: the tracker replies when a board is free.
	reply, err := t.exchange(text, time.Time{})
	if err != nil {
		return "", "", err
	}

	var code, port int
	var host string
	server := [3]any{&host, &port, &matchKey}
	if err := json.Unmarshal(reply, &[2]any{&code, &server}); err != nil || code != 0 || matchKey == "" {
		return "", "", failure.Errorf(failure.Transport, "it answered %.100q to %s", reply, text)
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), matchKey, nil
}
