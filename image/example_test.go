package image_test

import (
	"fmt"
	"log"
	"os"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
)

// Looks for an earlier build's image by its build id.
func Example() {
	dir, err := os.MkdirTemp("", "images-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store := image.Store{Cache: cache.New(dir, cache.Options{})}
	_, err = store.Find("0123456789abcdef0123456789abcdef")
	fmt.Println(failure.Of(err), err)
	// Output: config image 0123456789abcdef0123456789abcdef is not in the cache
}
