package targets_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// The text of the next function's body is in README.md; TestPageGo compares them.

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "digits-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	var builder project.Builder // which boards and compilers there are; the zero value is the normal case
	spec := project.Spec{Board: "host", Model: "../examples/samples/digits_i8.aot_packed.tar"}
	p, err := builder.Generate(ctx, dir, spec)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	session, err := p.Run(ctx, nil, "") // builds, attaches, flashes, opens
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
	inputs, err := ndarray.ReadNPZ("../examples/samples/digits_i8.inputs.npz")
	if err != nil {
		log.Fatal(err)
	}
	if err := digits.SetInput(ctx, "image", inputs[0].Array); err != nil {
		log.Fatal(err)
	}
	if err := digits.Run(ctx); err != nil {
		log.Fatal(err)
	}
	logits, err := digits.Output(ctx, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(logits.DType, ndarray.ShapeString(logits.Shape), logits.Text(0))
	// Output: int32 (1, 10) -7122
}
