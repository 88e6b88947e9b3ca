package templatecheck_test

import (
	"fmt"

	"github.com/boardsmith/boardsmith/project/templatecheck"
)

// Lists the checks; Run carries them out with a template and a board.
func Example() {
	for _, c := range templatecheck.List() {
		fmt.Println(c.Name)
	}
}
