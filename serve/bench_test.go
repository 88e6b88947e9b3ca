package serve_test

import (
	"testing"

	"github.com/boardsmith/boardsmith/serve"
)

// BenchmarkCandidate is a candidate's whole session, as TVM's runners have it, on a simulated board: what a candidate
// costs besides its compiler, its board and the tracker. It contains a client's part.
func BenchmarkCandidate(b *testing.B) {
	_, address := start(b, serve.Options{Folder: b.TempDir()})
	for b.Loop() {
		c := beginSession(b, address)
		must(b, c.measure([]byte("candidate")))
		c.send(shutdown)
		c.Close()
	}
}
