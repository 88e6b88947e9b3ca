package mlf_test

import (
	"fmt"
	"log"

	"github.com/boardsmith/boardsmith/mlf"
)

// Reads an archive that TVM exported.
func Example() {
	archive, err := mlf.Open("../examples/samples/digits_i8.aot_packed.tar")
	if err != nil {
		log.Fatal(err)
	}
	model, err := archive.Model("") // its only one
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(model.Name, model.Executor, model.ABI)
	for _, t := range model.Inputs {
		fmt.Println(t)
	}
	// Output:
	// digits_i8 aot packed
	// image int8 (1, 1, 8, 8)
}
