package serve

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
)

// TestAllows compares addresses of clients with networks.
func TestAllows(t *testing.T) {
	for _, c := range []struct {
		network, client string
		want            bool
	}{
		{"192.168.7.0/24", "192.168.7.9:1", true},
		{"192.168.7.0/24", "192.168.8.9:1", false},
		{"192.168.7.0/24", "[::ffff:192.168.7.9]:1", true}, // of a socket for both families
		{"::ffff:192.168.7.0/120", "192.168.7.9:1", true},
		{"::ffff:192.168.7.0/120", "192.168.8.9:1", false},
		{"::ffff:192.168.7.0/120", "[::ffff:192.168.7.9]:1", true},
		{"::ffff:0:0/90", "10.0.0.1:1", true},
		{"fe80::/10", "[fe80::1%eth0]:1", true},
		{"fe80::/10", "[fd00::1]:1", false},
		{"::/0", "10.0.0.1:1", false},
		{"0.0.0.0/0", "[fd00::1]:1", false},
	} {
		s := &server{o: Options{Allow: []netip.Prefix{netip.MustParsePrefix(c.network)}}}
		wantEqual(t, s.allows(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.client))), c.want, c.network, c.client)
	}
}

// TestFullAtEnd ends a server that waits for a place for a connection, and all others with it.
func TestFullAtEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := silentConns{place: make(chan struct{}, 1)}
		for range maxSilent {
			s.add(ctx, &net.TCPConn{})
		}
		go s.add(ctx, &net.TCPConn{})
		synctest.Wait()

		s.mu.Lock()
		cancel()
		s.all = nil
		s.mu.Unlock()
	})
}

// TestSessionLimits: what a session has freed, and an upload that was refused, do not count.
func TestSessionLimits(t *testing.T) {
	q := &session{own: map[uint64]any{}}
	seen := map[uint64]bool{}
	for range maxOwn + 1 {
		h, err := q.add(function("f"))
		if err != nil || seen[h] || !isOwn(h) {
			t.Fatalf("object %d: handle %#x, %v", len(seen)+1, h, err)
		}
		seen[h] = true
		must(t, last(q.freeHandle(t.Context(), h)))
	}
	for range maxOwn {
		must(t, last(q.add(function("f"))))
	}
	wantError(t, last(q.add(function("f"))), "")

	u := uploads{parent: t.TempDir(), limit: 3 * fileCost}
	wantError(t, u.write("large", make([]byte, 3*fileCost)), "", `"large"`)
	must(t, u.write("small", make([]byte, fileCost)))
	wantError(t, u.write("another", make([]byte, fileCost)), "")
	must(t, u.remove())
}
