package serve_test

import (
	"context"
	"log"
	"net"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/serve"
	"github.com/boardsmith/boardsmith/tune"
)

// Serves a board to clients of TVM.
func Example() {
	ctx := context.Background()
	board, err := tune.OpenBoard(ctx, "served", &device.Desk{}, "nucleo_f746zg", tune.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer board.Close()
	listener, err := net.Listen("tcp", "localhost:9090")
	if err != nil {
		log.Fatal(err)
	}
	if err := serve.Serve(ctx, listener, board, serve.Options{Key: "nucleo"}); err != nil {
		log.Fatal(err)
	}
}
