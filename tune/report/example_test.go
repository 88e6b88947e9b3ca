package report_test

import (
	"log"
	"os"

	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/report"
)

// Prints the fastest candidates.
func Example() {
	fast, slow := rpc.StatsOf([]float64{1e-3, 1.2e-3}), rpc.StatsOf([]float64{4e-3})
	results := []tune.Result{{ID: "tile 4", Kind: "host", Time: &slow}, {ID: "tile 8", Kind: "host", Time: &fast}}
	if err := (report.Run{Results: results}).WriteTable(os.Stdout, 2); err != nil {
		log.Fatal(err)
	}
}
