// Command boardsmith-keeper keeps one emulated chip with its debug probe, from one command to the next, as a desk holds
// a board. Package emulated starts it when an emulated board is first used; it ends by itself a minute after its last
// client.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
)

func main() {
	switch err := emulated.Keep(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", chipkeeper.Program, err)
		os.Exit(1)
	}
}
