package device_test

import (
	"context"
	"fmt"
	"log"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
)

// Attaches this computer, whose firmware is a process.
func Example() {
	host, err := boards.Find("host", nil)
	if err != nil {
		log.Fatal(err)
	}
	desk := device.Desk{}
	d, err := desk.Attach(context.Background(), host, "")
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	fmt.Println("keeps its image:", d.KeepsImage())
	// Output: keeps its image: false
}
