package executor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// Runs a model ten times and prints the median of its times.
func Example() {
	var session *rpc.Session // as project.Project.Run returns it
	var model *mlf.Model     // as project.Project.Model returns it
	ctx := context.Background()
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
