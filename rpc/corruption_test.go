//go:build unix

package rpc_test

// This file plays a recorded session, damaged at random, to real firmware that was built with ASan and UBSan.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// buildChecked builds the firmware with sanitizers that end it at the first finding.
var buildChecked = sync.OnceValues(func() (string, error) {
	return makeFirmware("testdata/model", filepath.Join(scratch, "checked"),
		"CC=cc -fsanitize=address,undefined -fno-sanitize-recover=all")
})

// A spy records what the host sends.
type spy struct {
	transport.Link
	sent []byte
}

func (s *spy) Write(ctx context.Context, p []byte) error {
	s.sent = append(s.sent, p...)
	return s.Link.Write(ctx, p)
}

// messages returns the requests that were sent: the payloads of frames with the session's id.
func (s *spy) messages() [][]byte {
	const normal = 0x10
	var u framing.Unframer
	var all [][]byte
	for p := s.sent; len(p) > 0; {
		n, event := u.Next(p)
		if event == framing.Frame && len(u.Payload()) > 3 && u.Payload()[2] == normal {
			all = append(all, append([]byte(nil), u.Payload()...))
		}
		p = p[n:]
	}
	return all
}

// recordSession uses the firmware as a tuner does and returns the requests. The device frees what they allocated
// when the next session begins, so that their handles are invalid then.
func recordSession(ctx context.Context, t *testing.T, p transport.Link) [][]byte {
	t.Helper()
	link := &spy{Link: unclosed{p}}
	conn := valueOf[*transport.Session](t)(transport.Dial(ctx, link, transport.SessionOptions{}))
	s := rpc.New(conn, rpc.Options{})
	negate := operator(t, s, "negate")
	for _, n := range []int{16, 1500, 6000} { // short, and longer than the packet buffer
		in, out := filled(t, s, random(n)), empty(t, s, n)
		_, err := negate.Call(ctx, in, out)
		must(t, err)
		content(t, out)
	}
	if _, err := operator(t, s, "fail").Call(ctx, "text", []byte{1, 0xff}, 3.5, nil, i8); err == nil {
		t.Fatal("fail returned no error")
	}
	valueOf[[]float64](t)(library(t, s).Time(ctx, "count", rpc.TimeOptions{Number: 2, Repeat: 2}))
	return link.messages()
}

// corrupt changes p in one to four places: it flips bits, drops or doubles bytes, or truncates p.
func corrupt(r *rand.Rand, p []byte) []byte {
	for range 1 + r.IntN(4) {
		at, run := r.IntN(len(p)), 1+r.IntN(8)
		end := min(at+run, len(p))
		switch r.IntN(8) {
		case 0, 1, 2:
			p[at] ^= 1 << r.IntN(8)
		case 3, 4:
			if end < len(p) {
				p = append(p[:at], p[end:]...)
			}
		case 5, 6:
			p = append(p[:end], append(append([]byte(nil), p[at:end]...), p[end:]...)...)
		default:
			p = p[:at+1]
		}
	}
	return p
}

// No damage to a session crashes or hangs the firmware or causes a wrong write, and an undamaged session works
// afterwards.
func TestFirmwareSurvivesCorruption(t *testing.T) {
	needTools(t)
	path, err := buildChecked()
	must(t, err)
	seed := rand.Uint64()
	if s := os.Getenv("SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatalf("SEED=%q: %v", s, err)
		}
	}
	t.Logf("%d corruptions drawn by SEED=%d", drawn.Count(600, 10000), seed)
	r := rand.New(rand.NewPCG(seed, 0))
	link := startFirmware(t, path)
	for round := range drawn.Count(600, 10000) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := corruptedRound(ctx, r, link, recordSession(ctx, t, link))
		cancel()
		if err != nil {
			t.Fatalf("SEED=%d: after corruption %d: %v", seed, round, err)
		}
	}
}

// corruptedRound sends the recorded session, damaged, and then an undamaged one.
func corruptedRound(ctx context.Context, r *rand.Rand, link transport.Link, requests [][]byte) error {
	var f framing.Framer
	f.Append(nil, nil) // after its reset nop
	var bytes []byte
	for _, m := range requests {
		bytes = f.Append(bytes, m)
	}
	if err := link.Write(ctx, corrupt(r, bytes)); err != nil {
		return err
	}
	conn, err := transport.Dial(ctx, unclosed{link}, transport.SessionOptions{})
	if err != nil {
		return err
	}
	return shortTrip(ctx, rpc.New(conn, rpc.Options{}), r.Uint64())
}
