package search_test

import (
	"fmt"

	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/search"
)

// Keeps the flags with which no others are both faster and smaller.
func Example() {
	trial := func(flags string, flash int64, seconds float64) search.NetworkTrial {
		stats := rpc.StatsOf([]float64{seconds})
		return search.NetworkTrial{Flags: flags, Flash: flash, Result: tune.Result{Time: &stats}}
	}
	trials := []search.NetworkTrial{trial("-Os", 20_000, 4e-3), trial("-O2", 30_000, 2e-3), trial("-O1", 31_000, 3e-3)}
	for _, t := range search.Front(trials) {
		fmt.Println(t.Flags)
	}
	// Output:
	// -O2
	// -Os
}
