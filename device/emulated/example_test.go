package emulated_test

import (
	"context"
	"fmt"
	"log"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
)

// Attaches an emulated chip, which is flashed and opened as one on USB is.
func Example() {
	ctx := context.Background()
	board, err := boards.Find("microbit", nil)
	if err != nil {
		log.Fatal(err)
	}
	desk := device.Desk{Probes: emulated.Probes()}
	state, err := desk.StartEmulated(ctx, board)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("running:", state.Running)
	d, err := desk.Attach(ctx, board, "emulated")
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
}
