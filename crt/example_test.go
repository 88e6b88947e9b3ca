package crt_test

import (
	"fmt"
	"io/fs"
	"log"

	"github.com/boardsmith/boardsmith/crt"
)

// Lists the folders that a project gets.
func Example() {
	folders, err := fs.ReadDir(crt.Sources.Runtime, ".")
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range folders {
		fmt.Println(f.Name())
	}
	// Output:
	// include
	// src
}
