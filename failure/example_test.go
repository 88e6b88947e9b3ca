package failure_test

import (
	"errors"
	"fmt"

	"github.com/boardsmith/boardsmith/failure"
)

// A library names an option as data; a program prints what its own users type.
func Example() {
	missing := failure.New(failure.ToolMissing, failure.Option("Builder.Path", "FOLDER"), "no template %q", "mine")
	err := errors.Join(errors.New("generate"), missing)
	fmt.Println(failure.Of(err))
	fmt.Println(failure.Next(err))
	// Output:
	// tool-missing
	// Builder.Path=FOLDER
}
