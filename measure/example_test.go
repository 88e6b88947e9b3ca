package measure_test

import (
	"context"
	"fmt"
	"log"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
)

func Example() {
	ctx := context.Background()
	o := measure.Options{Files: measure.Files{
		Inputs: "../examples/samples/digits_i8.inputs.npz", Expected: "../examples/samples/digits_i8.outputs.npz",
	}}
	spec := project.Spec{Board: "host", Model: "../examples/samples/digits_i8.aot_packed.tar"}
	r, err := measure.Model(ctx, spec, o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Outputs.Equal, "of", r.Outputs.Samples, "outputs are exact; a number of", r.Cost.Unit)
	// Output:
	// 1 of 1 outputs are exact; a number of s
}

// Compares the outputs of a model on a device with expected ones.
func ExampleResult_Run() {
	var digits executor.Executor // as executor.Open returns it
	var model *mlf.Model         // as project.Project.Model returns it
	ctx := context.Background()
	set, err := measure.ReadSet(ctx, measure.Files{Inputs: "testset.npz"}, model)
	if err != nil {
		log.Fatal(err)
	}
	var r measure.Result
	if err := r.Run(ctx, digits, set, measure.Options{Rule: measure.Rule{Abs: 0.01}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Outputs.Samples, "samples,", 100*r.Outputs.Accuracy(), "% right,", r.Cost, "each")
}
