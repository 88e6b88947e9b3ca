package flasher_test

import (
	"context"
	"log"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/flasher"
)

// Erases nothing, compares a chip's flash with an image's first bytes, and restarts it.
func Example() {
	board, err := boards.Find("nrf52840dk", nil)
	if err != nil {
		log.Fatal(err)
	}
	programmer, err := flasher.New("openocd", flasher.Config{Flash: board.Flash, Probe: flasher.Probe{Serial: "683"}})
	if err != nil {
		log.Fatal(err)
	}
	job := flasher.Job{Verify: []flasher.Segment{{Addr: 0, Data: []byte{0, 0, 4, 0x20}}}, Restart: true}
	if err := programmer.Do(context.Background(), job); err != nil {
		log.Fatal(err)
	}
}
