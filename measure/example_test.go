package measure_test

import (
	"context"
	"fmt"
	"log"

	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/validate"
)

func Example() {
	ctx := context.Background()
	var o measure.Options
	o.Files = validate.Files{
		Inputs: "../examples/samples/digits_i8.inputs.npz", Expected: "../examples/samples/digits_i8.outputs.npz",
	}
	spec := project.Spec{Board: "host", Model: "../examples/samples/digits_i8.aot_packed.tar"}
	r, err := measure.Model(ctx, spec, o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Outputs.Equal, "of", r.Outputs.Samples, "outputs are exact; a number of", r.Cost.Unit)
	// Output:
	// 1 of 1 outputs are exact; a number of s
}
