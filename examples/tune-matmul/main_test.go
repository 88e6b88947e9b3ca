package main

import (
	"bytes"
	"io"
	"os/exec"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/tune"
)

// TestSpaceData compares the arrays that the space file names with the example's own.
func TestSpaceData(t *testing.T) {
	arrays, err := ndarray.ReadNPZ("kernel/matmul.npz")
	testkit.Must(t, err)
	args := arguments()
	if len(arrays) != len(args) {
		t.Fatalf("%d arrays, want %d", len(arrays), len(args))
	}
	for i, want := range [][]byte{args[0].Data, args[1].Data, args[2].Want} {
		if a := arrays[i]; a.Name != string(rune('a'+i)) || a.Array.DType != args[i].DType ||
			!bytes.Equal(a.Array.Data, want) {
			t.Errorf("array %s differs from argument %d", a.Name, i)
		}
	}
}

// TestSearch runs the example: the configuration that it finds is faster than the first one, and all outputs are right.
func TestSearch(t *testing.T) {
	for _, tool := range []string{"arm-none-eabi-gcc", "qemu-system-arm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	dir := t.TempDir()
	times, err := search(t.Context(), io.Discard, dir, []string{"mps2_an385", "mps2_an385"})
	testkit.Must(t, err)
	if times[1] > 0.6*times[0] {
		t.Errorf("the fastest takes %v s, the first %v s", times[1], times[0])
	}
	results, err := tune.ReadResults(dir)
	testkit.Must(t, err)
	boards := map[string]int{}
	for _, r := range results {
		boards[r.Board]++
		if r.Failure != nil {
			t.Errorf("%s: %+v", r.ID, r.Failure)
		}
	}
	if len(boards) != 2 {
		t.Errorf("candidates by board: %v, want two boards", boards)
	}
}
