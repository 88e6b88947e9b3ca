//go:build linux

package tune_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/tune"
)

// Measures on all boards that mage serve offers to TVM's tracker with a key, on any computer.
func ExampleRemote() {
	run, err := tune.OpenRun(context.Background(), "run", &device.Desk{}, nil, tune.Options{
		Remotes: []tune.Remote{{Tracker: "10.1.0.1:9190", Key: "bench", Board: "nucleo_f746zg", Priority: 1}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
}

// Measures two ways to add up numbers, on two processes of this computer. One of them forgets the last number.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tune-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	run, err := tune.OpenRun(ctx, dir, &device.Desk{}, []string{"host", "host"}, tune.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()

	const source = `void sum(const signed char* in, signed char* out) {
  out[0] = 0;
  for (int i = 0; i < N; i++) {
    out[0] += in[i];
  }
}`
	files := []mlf.File{{Name: "sum.c", Data: []byte(source)}}
	var candidates []tune.Candidate
	for _, n := range []int{3, 4} {
		c := tune.Func(fmt.Sprintf("sum of %d", n), "sum", files,
			tune.ArgOf([]int8{1, 2, 3, 4}), tune.ArgOf([]int8{10}).Expected())
		c.Operators.Flags = []string{fmt.Sprintf("-DN=%d", n)}
		candidates = append(candidates, c)
	}
	for r, err := range run.All(ctx, slices.Values(candidates)) {
		switch {
		case err != nil:
			log.Fatal(err)
		case r.Failure != nil:
			fmt.Println(r.ID, "fails:", r.Failure.Message)
		default:
			fmt.Println(r.ID, "takes less than a millisecond:", r.Time.Median < 1e-3)
		}
	}
	// Unordered output:
	// sum of 4 takes less than a millisecond: true
	// sum of 3 fails: argument 1: 1 of 1 elements differ, the first is 0: 6, wanted 10; the largest difference is 4
}
