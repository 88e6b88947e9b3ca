package boards_test

import (
	"fmt"
	"log"

	"github.com/boardsmith/boardsmith/boards"
)

// Finds a board that comes with boardsmith, and completes options by its own.
func Example() {
	board, err := boards.Find("mps2_an386", nil)
	if err != nil {
		log.Fatal(err)
	}
	options, err := boards.ParseOptions([]string{"upload_kib=64"})
	if err != nil {
		log.Fatal(err)
	}
	options, err = board.Settle(options)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(board.Name, options.UploadKiB)
	// Output: mps2_an386 64
}
