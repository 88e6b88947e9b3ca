//go:build linux

package release_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/release"
)

// Runs a model as standalone firmware, a process here, and releases it.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	var builder project.Builder
	spec := project.Spec{Board: "host", Model: "../../examples/samples/digits_i8.aot_packed.tar"}
	spec.Options.App = boards.Standalone
	p, err := builder.Generate(ctx, filepath.Join(dir, "project"), spec)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	session, err := p.RunStandalone(ctx, nil, "") // builds, attaches, flashes, opens
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	_, model, err := p.Model()
	if err != nil {
		log.Fatal(err)
	}
	digits, err := executor.OpenStandalone(ctx, session, model)
	if err != nil {
		log.Fatal(err)
	}
	inputs, err := ndarray.ReadNPZ("../../examples/samples/digits_i8.inputs.npz")
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

	image, err := p.Built()
	if err != nil {
		log.Fatal(err)
	}
	r, err := release.Of(p, image, release.Options{})
	if err != nil {
		log.Fatal(err)
	}
	folder := filepath.Join(dir, "release")
	if err := r.Write(ctx, folder, false); err != nil {
		log.Fatal(err)
	}
	fmt.Println("released:", r.Matches(folder))
	// Output:
	// int32 (1, 10) -7122
	// released: true
}
