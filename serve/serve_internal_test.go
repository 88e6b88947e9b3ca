package serve

import (
	"net"
	"net/netip"
	"testing"
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
		if got := s.allows(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.client))); got != c.want {
			t.Errorf("network %s, client %s: %v", c.network, c.client, got)
		}
	}
}
