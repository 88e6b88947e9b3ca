package space_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/boardsmith/boardsmith/tune/space"
)

// The cost of a configuration comes from a formula here. A program would compile matmul.c with the flags, measure it,
// and report the seconds.
func Example() {
	s, err := space.Read("testdata/matmul.json")
	if err != nil {
		log.Fatal(err)
	}
	cost := func(c space.Config) float64 {
		at := c.Indices()
		return float64(10 + (at[0]-2)*(at[0]-2) + (at[1]-4)*(at[1]-4) + (at[2]-3)*(at[2]-3) + 3 - at[5])
	}
	search := s.Evolve(1)
	var best space.Config
	lowest := 1e9
	for range 200 {
		c, ok := search.Next()
		if !ok {
			break
		}
		seconds := cost(c)
		search.Report(c, seconds, true)
		if seconds < lowest {
			best, lowest = c, seconds
		}
	}
	if err := search.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Size(), "combinations")
	fmt.Println("best:", best)
	fmt.Println("flags:", strings.Join(best.Flags(), " "))
	// Output:
	// 13720 combinations
	// best: TILE_M=4 TILE_N=16 TILE_K=8 UNROLL=4 ACC=int32_t opt="-O3 -funroll-loops"
	// flags: -DTILE_M=4 -DTILE_N=16 -DTILE_K=8 -DUNROLL=4 -DACC=int32_t -O3 -funroll-loops
}
