package transport_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/boardsmith/boardsmith/transport"
)

// Records a link's bytes while a message goes to the firmware and back.
func Example() {
	ctx := context.Background()
	serial, err := transport.OpenSerial("/dev/ttyACM0", 115200)
	if err != nil {
		log.Fatal(err)
	}
	session, err := transport.Dial(ctx, transport.Record(serial, os.Stderr), transport.SessionOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	if err := session.Send(ctx, []byte{1, 2, 3}); err != nil {
		log.Fatal(err)
	}
	reply, err := session.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply)
}
