package develop

import (
	"testing"
)

func TestParseBench(t *testing.T) {
	name, v, ok := parseBench("BenchmarkFrame-2   \t 1000\t  1201 ns/op\t 1364.2 MB/s\t 0 B/op\t 0 allocs/op")
	if !ok || name != "BenchmarkFrame" || v["MB/s"] != 1364.2 || v["allocs/op"] != 0 {
		t.Errorf("got %q %v %v", name, v, ok)
	}
	if _, _, ok := parseBench("PASS"); ok {
		t.Error("PASS was taken for a benchmark")
	}
}
