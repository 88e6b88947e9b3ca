//go:build linux

package transport_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

// TestContexts ends the contexts of all that this package does, before it begins and while it waits.
func TestContexts(t *testing.T) {
	mute, other := transporttest.Pair() // nobody is at the other end
	defer other.Close()
	full := bytes.Repeat([]byte{1}, 1<<20)
	process := start(t, "hang")
	_, serial := openTerminal(t)
	tcp, _ := connect(t)
	listener := transporttest.Listen(t, "127.0.0.1:0")
	dialTCP := failuretest.Of(transport.DialTCP, transport.TCPConfig{Address: listener.Address()})
	recorded := transport.Record(mute, &bytes.Buffer{}) // each of its calls is one of mute's too
	session := func() *transport.Session {
		host := answered()
		s, err := transport.Dial(testkit.Context(t), host, quick)
		must(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	reads := func(l transport.Link) failuretest.Call {
		return func(ctx context.Context) error {
			n, err := l.Read(ctx, make([]byte, 1))
			if n != 0 && err != nil {
				t.Errorf("%T: %d bytes with %v", l, n, err)
			}
			return err
		}
	}
	writes := func(l transport.Link) failuretest.Call { return failuretest.Of(l.Write, full) }
	endless := func(l transport.Link) failuretest.Call { // the kernel takes megabytes
		return func(ctx context.Context) error {
			for {
				if err := l.Write(ctx, full); err != nil {
					return err
				}
			}
		}
	}
	dial := failuretest.Of(transport.Dial, mute, quick)
	redial := failuretest.Of(session().Redial)
	failuretest.Ended(t, failuretest.Calls{
		"StartProcess": failuretest.Of(transport.StartProcess, child("echo")),
		"Process.Read": reads(process), "Process.Write": writes(process),
		"Link.Read": reads(recorded), "Link.Write": writes(recorded),
		"DialTCP": dialTCP, "Dial": dial, "Session.Redial": redial,
		"Session.Send": failuretest.Of(session().Send, []byte("x")),
		"Session.Recv": failuretest.Of(session().Recv),
	})
	failuretest.Waiting(t, failuretest.Calls{
		"Process.Read": reads(process), "Link.Read": reads(mute), "serial Read": reads(serial),
		"Process.Write": writes(process), "Link.Write": writes(mute), "serial Write": writes(serial),
		"TCP Read": reads(tcp), "TCP Write": endless(tcp),
		"Dial": dial, "Session.Recv": failuretest.Of(session().Recv),
	})
}
