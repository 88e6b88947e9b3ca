package framing

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func randomPayload(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

var benchSizes = []int{16, 512, 4096, 64 << 10, 1 << 20}

func BenchmarkFrame(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := randomPayload(n)
			f := Framer{}
			out := f.Append(nil, p)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				out = f.Append(out[:0], p)
			}
		})
	}
}

func BenchmarkUnframe(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := Framer{running: true}
			wire := f.Append(nil, randomPayload(n))
			var u Unframer
			u.Next(wire)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if got, ev := u.Next(wire); got != len(wire) || ev != Frame {
					b.Fatal(got, ev)
				}
			}
		})
	}
}
