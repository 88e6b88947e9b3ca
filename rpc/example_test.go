package rpc_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// Calls a function of the firmware behind a serial server.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	link, err := transport.DialTCP(ctx, transport.TCPConfig{Address: "192.0.2.7:4000", Lossy: true})
	if err != nil {
		log.Fatal(err)
	}
	channel, err := transport.Dial(ctx, link, transport.SessionOptions{})
	if err != nil {
		log.Fatal(err)
	}
	session := rpc.New(channel, rpc.Options{})
	defer session.Close(ctx)
	lib, err := session.SystemLib(ctx)
	if err != nil {
		log.Fatal(err)
	}
	relu, err := lib.Function(ctx, "relu")
	if err != nil {
		log.Fatal(err)
	}
	in, err := session.NewArray(ctx, &ndarray.Array{
		DType: ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}, Shape: []int64{2}, Data: []byte{0xfe, 3},
	})
	if err != nil {
		log.Fatal(err)
	}
	out, err := session.Empty(ctx, in.DType(), in.Shape())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := relu.Call(ctx, in, out); err != nil {
		log.Fatal(err)
	}
	result, err := out.Array(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Data)
}
