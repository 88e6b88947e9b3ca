// Package tolerance compares elements of arrays with expected ones.
package tolerance

import (
	"math"

	"github.com/boardsmith/boardsmith/ndarray"
)

// Compare returns the distance of element i of two arrays of one type, NaN if it has none, and whether that is at most
// abs + rel × |want|. Infinities and NaN are near only to themselves. Integers of up to 64 bits are subtracted as
// integers: a float64 does not hold all of them.
func Compare(got, want *ndarray.Array, i int, abs, rel float64) (by float64, ok bool) {
	w := want.Float(i)
	most := abs + rel*math.Abs(w)
	if !IsInteger(got.DType) {
		g := got.Float(i)
		return math.Abs(g - w), near(g, w, most)
	}
	n := distance(got, want, i)
	return float64(n), most >= 1<<64 || n <= uint64(most)
}

// near reports whether two floats differ by at most most.
func near(g, w, most float64) bool {
	if math.IsNaN(g) || math.IsNaN(w) || math.IsInf(g, 0) || math.IsInf(w, 0) {
		return g == w || math.IsNaN(g) && math.IsNaN(w)
	}
	return math.Abs(g-w) <= most
}

// IsInteger reports whether the elements are integers of at most 64 bits.
func IsInteger(d ndarray.DType) bool {
	return d.Lanes == 1 && d.Size() <= 8 && d.Code <= ndarray.UInt
}

// distance returns the distance of element i of two arrays of integers, which 64 bits without a sign always hold.
func distance(a, b *ndarray.Array, i int) uint64 {
	x, y := a.Int(i), b.Int(i)
	if Larger(a.DType, y, x) {
		x, y = y, x
	}
	return uint64(x) - uint64(y)
}

// Larger compares two elements of a type of integers, as Array.Int returns them.
func Larger(d ndarray.DType, x, y int64) bool {
	if d.Code == ndarray.UInt {
		return uint64(x) > uint64(y)
	}
	return x > y
}

// ArgMax returns the position of the first largest element; ok is false if an element is not a number.
func ArgMax(a *ndarray.Array) (best int64, ok bool) {
	integer := IsInteger(a.DType)
	for i := range a.Len() {
		v := a.Float(i)
		if math.IsNaN(v) {
			return -1, false
		}

		// Integers are compared as such: a float64 does not hold all of 64 bits.
		b := int(best)
		if integer && Larger(a.DType, a.Int(i), a.Int(b)) || !integer && v > a.Float(b) {
			best = int64(i)
		}
	}
	return best, a.Len() > 0
}
