// Package trackertest is a tracker as TVM has it, for tests without TVM.
package trackertest

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// A Tracker is TVM's, as far as boards and runs use it (rpc_tcp.md §4).
type Tracker struct {
	listener net.Listener

	mu      sync.Mutex
	free    []offer
	waiting []request
	servers map[net.Conn]string // keys
	conns   []net.Conn
}

// An offer is a board that is free.
type offer struct {
	from     net.Conn
	key      string
	port     int
	matchKey string
}

// A request waits for a board.
type request struct {
	from     net.Conn
	key      string
	priority int
}

// Start starts a tracker, which ends with the test.
func Start(t testing.TB) *Tracker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	k := &Tracker{listener: l, servers: map[net.Conn]string{}}
	t.Cleanup(k.Stop)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			k.mu.Lock()
			k.conns = append(k.conns, c)
			k.mu.Unlock()
			go k.serve(c)
		}
	}()
	return k
}

// Address returns host and port.
func (k *Tracker) Address() string { return k.listener.Addr().String() }

// Stop ends the tracker with all connections.
func (k *Tracker) Stop() {
	k.listener.Close()
	k.Drop()
}

// Drop ends all connections.
func (k *Tracker) Drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		c.Close()
	}
}

func (k *Tracker) serve(c net.Conn) {
	defer k.forget(c)
	var magic [4]byte
	if _, err := io.ReadFull(c, magic[:]); err != nil {
		return
	}
	c.Write(magic[:])
	for {
		var n uint32
		if binary.Read(c, binary.LittleEndian, &n) != nil {
			return
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(c, text); err != nil {
			return
		}
		var message []json.RawMessage
		if json.Unmarshal(text, &message) != nil {
			return
		}
		k.mu.Lock()
		k.handle(c, message)
		k.mu.Unlock()
	}
}

func (k *Tracker) forget(c net.Conn) {
	c.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.servers, c)
	k.free = slices.DeleteFunc(k.free, func(o offer) bool { return o.from == c })
	k.waiting = slices.DeleteFunc(k.waiting, func(r request) bool { return r.from == c })
}

func reply(c net.Conn, value any) {
	text, _ := json.Marshal(value)
	c.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
}

func (k *Tracker) handle(c net.Conn, message []json.RawMessage) {
	var code int
	json.Unmarshal(message[0], &code)
	switch code {
	case 3:
		o := offer{from: c}
		json.Unmarshal(message[1], &o.key)
		json.Unmarshal(message[2], &[2]any{&o.port, &o.matchKey})
		k.free = append(k.free, o)
		reply(c, 0)
	case 4:
		r := request{from: c}
		json.Unmarshal(message[1], &r.key)
		json.Unmarshal(message[3], &r.priority)
		k.waiting = append(k.waiting, r)
	case 5:
		var info struct{ Key string }
		json.Unmarshal(message[1], &info)
		k.servers[c] = info.Key
		reply(c, 0)
	case 6:
		all := []map[string]string{}
		for _, key := range k.servers {
			all = append(all, map[string]string{"key": key})
		}
		reply(c, []any{0, map[string]any{"server_info": all}})
	case 7:
		keys := []string{}
		for _, o := range k.free {
			if o.from == c {
				keys = append(keys, o.matchKey)
			}
		}
		reply(c, keys)
	}
	k.match()
}

// match hands out the boards: the highest priority first.
func (k *Tracker) match() {
	for i := 0; i < len(k.free); i++ {
		best := -1
		for n, r := range k.waiting {
			if r.key == k.free[i].key && (best < 0 || r.priority > k.waiting[best].priority) {
				best = n
			}
		}
		if best < 0 {
			continue
		}
		o, r := k.free[i], k.waiting[best]
		k.free, k.waiting = slices.Delete(k.free, i, i+1), slices.Delete(k.waiting, best, best+1)
		reply(r.from, []any{0, []any{"127.0.0.1", o.port, o.matchKey}})
		i--
	}
}

// Offer hands a server on this computer out, once.
func (k *Tracker) Offer(key string, port int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = append(k.free, offer{key: key, port: port, matchKey: key + ":0.5"})
	k.match()
}
