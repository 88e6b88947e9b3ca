package ndarray_test

import (
	"fmt"
	"log"

	"github.com/boardsmith/boardsmith/ndarray"
)

// Makes an array and sets two of its elements: elements are in row-major order, little-endian.
func Example() {
	a, err := ndarray.New(ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	a.Data[0], a.Data[5] = 7, 0xff
	fmt.Println(a.DType, ndarray.ShapeString(a.Shape), a.Text(0), a.Text(5))
	// Output: int8 (2, 3) 7 -1
}
