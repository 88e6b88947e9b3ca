package executor_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// Runs a model ten times and prints the median of its times.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "digits-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var builder project.Builder
	p, err := builder.Generate(ctx, dir, project.Spec{Board: "host", Model: "digits.tar"})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	session, err := p.Run(ctx, nil, "")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	_, model, err := p.Model()
	if err != nil {
		log.Fatal(err)
	}
	digits, err := executor.Open(ctx, session, model)
	if err != nil {
		log.Fatal(err)
	}
	defer digits.Close(ctx)
	inputs, err := ndarray.ReadNPZ("inputs.npz")
	if err != nil {
		log.Fatal(err)
	}
	if err := executor.SetInputs(ctx, digits, inputs); err != nil {
		log.Fatal(err)
	}
	seconds, err := digits.Time(ctx, rpc.TimeOptions{Repeat: 10})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rpc.StatsOf(seconds).Median)
}
