package validate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/validate"
)

// Compares the outputs of a model on a device with expected ones.
func Example() {
	var digits executor.Executor // as executor.Open returns it
	var model *mlf.Model         // as project.Project.Model returns it
	ctx := context.Background()
	samples, err := ndarray.ReadNPZ("samples.npz")
	if err != nil {
		log.Fatal(err)
	}
	set, err := validate.New(samples, model)
	if err != nil {
		log.Fatal(err)
	}
	report, err := validate.Run(ctx, digits, set, validate.Options{Rule: validate.Rule{Abs: 0.01}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Samples, "samples,", 100*report.Accuracy(), "% right")
}
