package failure_test

import (
	"errors"
	"fmt"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// A library names an option as data; a program prints what its own users type.
func Example() {
	missing := failure.New(failure.ToolMissing, nextstep.Option("Builder.Path", "FOLDER"), "no template %q", "mine")
	err := errors.Join(errors.New("generate"), missing)
	fmt.Println(failure.Of(err))
	fmt.Println(failure.Next(err))
	// Output:
	// tool-missing
	// Builder.Path=FOLDER
}
