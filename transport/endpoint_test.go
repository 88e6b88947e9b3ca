package transport

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

var (
	must      = testkit.Must
	wantEqual = testkit.WantEqual
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	must(t, err)
	return b
}

func TestNonces(t *testing.T) {
	e := endpoint{nonce: 0x22}
	wantEqual(t, e.nextNonce(), 0x42, "after 22")
	for n := range 256 {
		e := endpoint{nonce: byte(n)}
		for range 300 {
			if e.nextNonce() == 0 {
				t.Fatalf("nonce 0 after a start with %02x", n)
			}
		}
	}
}

// Every message in every state, after wire.md §2.3 and §2.4.
func TestEndpoint(t *testing.T) {
	const own = 0x42 // the nonce of the Init on its way; a regenerated one is 43
	at := map[string]endpoint{
		"none":        {state: noSession, nonce: own},
		"sent":        {state: startSent, nonce: own, id: sessionID{own}},
		"established": {state: established, nonce: own, id: sessionID{own, 0x83}},
	}
	for _, c := range []struct {
		state, message string
		want           notice
		reply          string
		after          state
		id             sessionID
	}{
		{"none", "07 00 00 01", sessionBegan, "07 43 01 01", established, sessionID{7, 0x43}},
		{"none", "07 00 00 02", sessionBegan, "07 43 01 01", established, sessionID{7, 0x43}}, // version unchecked here
		{"none", "00 00 00 01", strayMessage, "", noSession, sessionID{}},
		{"none", "07 00 00", strayMessage, "", noSession, sessionID{}},
		{"none", "42 83 01 01", strayMessage, "", noSession, sessionID{}},
		{"none", "00 00 02", nothing, "", noSession, sessionID{}},
		{"none", "00 00 03 68", gotLog, "", noSession, sessionID{}},
		{"none", "42 83 10 01", strayMessage, "", noSession, sessionID{}},
		{"none", "00 00 10 01", strayMessage, "", noSession, sessionID{}},

		{"sent", "42 83 01 01", sessionBegan, "", established, sessionID{own, 0x83}},
		{"sent", "41 83 01 01", strayMessage, "", startSent, sessionID{own}}, // to an earlier Init
		{"sent", "42 00 01 01", strayMessage, "", startSent, sessionID{own}},
		{"sent", "42 83 01", strayMessage, "", startSent, sessionID{own}},
		{"sent", "42 83 01 02", wrongVersion, "", startSent, sessionID{own}},
		{"sent", "00 00 02", nothing, "", startSent, sessionID{own}},
		{"sent", "41 00 00 01", sessionBegan, "41 43 01 01", established, sessionID{0x41, 0x43}}, // their nonce is lower
		{"sent", "41 00 00 02", wrongVersion, "", startSent, sessionID{own}},
		{"sent", "43 00 00 01", nothing, "", startSent, sessionID{own}}, // they will answer ours
		{"sent", "42 00 03 68", gotLog, "", startSent, sessionID{own}},
		{"sent", "42 83 10 01", strayMessage, "", startSent, sessionID{own}},

		{"established", "42 83 10 01", gotMessage, "", established, sessionID{own, 0x83}},
		{"established", "42 84 10 01", strayMessage, "", established, sessionID{own, 0x83}},
		{"established", "00 00 10 01", strayMessage, "", established, sessionID{own, 0x83}},
		{"established", "42 83 11 01", strayMessage, "", established, sessionID{own, 0x83}},
		{"established", "42 83 01 01", strayMessage, "", established, sessionID{own, 0x83}}, // kills the reference
		{"established", "42 83 03 68", gotLog, "", established, sessionID{own, 0x83}},
		{"established", "00 00 03 68", gotLog, "", established, sessionID{own, 0x83}},
		{"established", "01 00 03 68", strayMessage, "", established, sessionID{own, 0x83}},
		{"established", "00 00 02", sessionEnded, "", noSession, sessionID{own, 0x83}},
		{"established", "99 99 02", sessionEnded, "", noSession, sessionID{own, 0x83}}, // its id is not looked at
		{"established", "07 00 00 01", newInitiator, "07 43 01 01", established, sessionID{7, 0x43}},
		{"established", "07 00", strayMessage, "", established, sessionID{own, 0x83}},
		{"established", "", strayMessage, "", established, sessionID{own, 0x83}},
	} {
		e := at[c.state]
		got, reply := e.receive(unhex(t, c.message))
		if got != c.want || !bytes.Equal(reply, unhex(t, c.reply)) || e.state != c.after || e.id != c.id {
			t.Errorf("%s, got %q: notice %d reply % x, then state %d id % x; want %d %q, %d % x",
				c.state, c.message, got, reply, e.state, e.id, c.want, c.reply, c.after, c.id)
		}
	}
}

// Two initiators that begin at once end up in one session, whichever message arrives first.
func TestSimultaneousStart(t *testing.T) {
	for a := 1; a < 256; a += 7 { // ties among them, of which each side begins again
		for b := 1; b < 256; b += 5 {
			alice, bob := endpoint{nonce: byte(a)}, endpoint{nonce: byte(b)}
			toBob, toAlice := [][]byte{alice.begin()}, [][]byte{bob.begin()}
			for rounds := 0; len(toBob)+len(toAlice) > 0 && rounds < 20; rounds++ {
				var forAlice, forBob [][]byte
				for _, m := range toBob {
					if _, reply := bob.receive(m); reply != nil {
						forAlice = append(forAlice, reply)
					}
				}
				for _, m := range toAlice {
					if _, reply := alice.receive(m); reply != nil {
						forBob = append(forBob, reply)
					}
				}
				toBob, toAlice = forBob, forAlice
			}
			if alice.state != established || alice.id != bob.id || bob.state != established {
				t.Errorf("nonces %d and %d: states %d and %d, ids % x and % x", a, b, alice.state, bob.state, alice.id, bob.id)
			}
		}
	}
}
