package transport_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

// restless is a device that answers each session's first message, and is reset in the middle of its second answer.
// What its wire still held of the old session comes after the new one's Terminate.
func restless(link transport.Link) {
	ctx := context.Background()
	for seed := byte(1); ; seed++ {
		s, err := transporttest.Boot(ctx, link, seed)
		if err != nil {
			return
		}
		msg, err := s.Recv(ctx)
		if err != nil || s.Send(ctx, msg) != nil {
			return
		}
		if _, err = s.Recv(ctx); err != nil {
			return
		}
		if link.Write(ctx, frame(9, 9, 0x10, 'h', 'a', 'l', 'f')[:8]) != nil {
			return
		}
	}
}

func TestRedialBeginsNewSession(t *testing.T) {
	for name, pair := range map[string]func() (transport.Link, transport.Link){
		"pipe": transporttest.Pair,
		"UART": transporttest.LossyPair,
	} {
		t.Run(name, func(t *testing.T) {
			host, device := pair()
			done := make(chan struct{})
			go func() {
				defer close(done)
				restless(device)
			}()
			ctx := testkit.Context(t)
			s, err := transport.Dial(ctx, host, quick)
			must(t, err)
			for i := range 20 {
				must(t, s.Send(ctx, []byte{byte(i)}))
				if msg, err := s.Recv(ctx); err != nil || len(msg) != 1 || msg[0] != byte(i) {
					t.Fatalf("session %d: %q, %v", i, msg, err)
				}
				must(t, s.Send(ctx, []byte("die")))
				if _, err := s.Recv(ctx); !errors.Is(err, transport.ErrTerminated) {
					t.Fatalf("session %d ended with %v", i, err)
				}
				must(t, s.Redial(ctx))
			}
			_ = s.Close()
			<-done
		})
	}
}

func TestRedialFails(t *testing.T) {
	host, device := transporttest.Pair()
	accepted := make(chan error, 1)
	go func() {
		_, err := transporttest.Boot(context.Background(), device, 0)
		accepted <- err
	}()
	s, err := transport.Dial(testkit.Context(t), host, quick)
	must(t, err)
	defer s.Close()
	must(t, <-accepted)
	var failed *transport.HandshakeError
	if err := s.Redial(within(t, 100*time.Millisecond)); !errors.As(err, &failed) || failed.Received != 0 ||
		failed.Damaged != 0 {
		t.Errorf("no answer: %v", err)
	}
	if err := s.Send(t.Context(), []byte("x")); failure.Of(err) != failure.Fault {
		t.Errorf("without a session: %v", err)
	}
	_ = device.Close()
	if err := s.Redial(within(t, time.Second)); !errors.As(err, &failed) {
		t.Errorf("the link is closed: %v", err)
	}
}
