package cache_test

import (
	"fmt"
	"log"
	"os"

	"github.com/boardsmith/boardsmith/cache"
)

// Keeps what builds share in a folder of its own, of at most 1 GiB.
func Example() {
	dir, err := os.MkdirTemp("", "cache-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	c := cache.New(dir, cache.Options{Limit: 1 << 30})
	entries, err := c.List()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(entries), "entries") // a project.Builder with this cache adds some
	// Output: 0 entries
}
