package ndarray_test

import (
	"fmt"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/ndarray"
)

// TestFill compares with the values that other implementations of splitmix64 give for the seed 1234567, and checks the
// range and the mean of floats.
func TestFill(t *testing.T) {
	words, err := ndarray.Fill(ndarray.DType{Code: ndarray.UInt, Bits: 64, Lanes: 1}, []int64{3}, 1234567)
	testkit.Must(t, err)
	if got := fmt.Sprintf("%s %s %s", words.Text(0), words.Text(1), words.Text(2)); got !=
		"6457827717110365317 3203168211198807973 9817491932198370423" {
		t.Errorf("words %s", got)
	}
	for _, bits := range []uint8{16, 32, 64} {
		a, err := ndarray.Fill(ndarray.DType{Code: ndarray.Float, Bits: bits, Lanes: 1}, []int64{10000}, 5)
		testkit.Must(t, err)
		mean := 0.0
		for i := range a.Len() {
			x := a.Float(i)
			if !(x >= 0 && x < 1) {
				t.Fatalf("float%d: %v", bits, x)
			}
			mean += x / float64(a.Len())
		}
		if mean < 0.48 || mean > 0.52 {
			t.Errorf("float%d: the mean is %v", bits, mean)
		}
	}
	if _, err := ndarray.Fill(ndarray.DType{Code: 5, Bits: 64, Lanes: 1}, []int64{1}, 5); err == nil {
		t.Error("complex numbers are filled")
	}
}
