package cmodel_test

import (
	"fmt"
	"log"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/mlf"
)

// Generates C for a firmware of one's own.
func Example() {
	archive, err := mlf.Open("../examples/samples/digits_i8.aot_packed.tar")
	if err != nil {
		log.Fatal(err)
	}
	model, err := archive.Model("")
	if err != nil {
		log.Fatal(err)
	}
	code, err := cmodel.Generate(archive, model, cmodel.Options{})
	if err != nil {
		log.Fatal(err)
	}
	files, err := cmodel.Bundle(code)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range files {
		fmt.Println(f.Name, len(f.Data), "bytes")
	}
}
