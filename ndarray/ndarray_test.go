package ndarray

import (
	"math"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

var must = testkit.Must

func TestDTypeNames(t *testing.T) {
	for name, want := range map[string]DType{
		"int8": {Int, 8, 1}, "uint8": {UInt, 8, 1}, "float32": {Float, 32, 1}, "float": {Float, 32, 1},
		"uint8x4": {UInt, 8, 4}, "bool": {UInt, 1, 1}, "bfloat16": {BFloat, 16, 1}, "handle": {Handle, 64, 1},
		"int4": {Int, 4, 1}, "complex64": {complexCode, 64, 1}, "int": {Int, 32, 1},
	} {
		got, err := ParseDType(name)
		must(t, err)
		testkit.Equal(t, name, got, want)
		back, err := ParseDType(got.String())
		must(t, err)
		testkit.Equal(t, name, back, got)
	}
	for _, bad := range []string{
		"", "int8 ", "int0", "int-8", "int+8", "float999", "int8x0", "int8x", "int8x99999",
		"string", "8int",
	} {
		if d, err := ParseDType(bad); err == nil {
			t.Errorf("ParseDType(%q) = %v, want an error", bad, d)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		d    DType
		want int
	}{
		{DType{UInt, 1, 1}, 1},
		{DType{Int, 4, 1}, 1},
		{DType{Int, 4, 3}, 2},
		{DType{Float, 64, 4}, 32},
		{DType{Int, 0, 1}, 0},
	} {
		testkit.Equal(t, c.d, c.d.Size(), c.want)
	}
}

func TestNewRefusesWhatCannotBe(t *testing.T) {
	f32 := DType{Float, 32, 1}
	for _, shape := range [][]int64{
		{-1},
		{0, -1},
		{math.MaxInt64},
		{1 << 32, 1 << 32},
		{MaxBytes/4 + 1},
		{1 << 62, 4, 0, 1 << 62, -1},
	} {
		if a, err := New(f32, shape...); err == nil {
			t.Errorf("New(%v) made %d bytes, want an error", shape, len(a.Data))
		}
	}
	if _, err := New(DType{Int, 0, 1}, 3); err == nil {
		t.Error("a type of no bits was accepted")
	}
	a, err := New(f32)
	if err != nil || a.Shape == nil || len(a.Shape) != 0 || len(a.Data) != 4 {
		t.Errorf("a scalar is %+v, %v", a, err)
	}
	for _, shape := range [][]int64{{3, 0, 5}, {1_000_000_000, 0, 8}, {math.MaxInt64, math.MaxInt64, 0}} {
		a, err = New(f32, shape...)
		if err != nil || len(a.Data) != 0 || a.Len() != 0 {
			t.Errorf("an empty array is %+v, %v", a, err)
		}
	}
}

func TestElements(t *testing.T) {
	for _, c := range []struct {
		d    DType
		data []byte
		text string
		f    float64
		i    int64
	}{
		{DType{Int, 8, 1}, []byte{0xff}, "-1", -1, -1},
		{DType{UInt, 1, 1}, []byte{1}, "true", 1, 1},
		{DType{Int, 64, 1}, []byte{0xfe, 255, 255, 255, 255, 255, 255, 255}, "-2", -2, -2},
		{DType{UInt, 64, 1}, []byte{255, 255, 255, 255, 255, 255, 255, 255}, "18446744073709551615", math.MaxUint64, -1},
		{DType{Float, 32, 1}, []byte{0xcd, 0xcc, 0xcc, 0x3d}, "0.1", float64(float32(0.1)), 0},
		{DType{Float, 16, 1}, []byte{0x00, 0xc2}, "-3", -3, -3},
		{DType{Float, 16, 1}, []byte{0x01, 0x00}, "5.9604645e-08", math.Ldexp(1, -24), 0},
		{DType{Float, 16, 1}, []byte{0x00, 0x7c}, "+Inf", math.Inf(1), math.MaxInt64},
		{DType{BFloat, 16, 1}, []byte{0x80, 0x3f}, "1", 1, 1},
		{DType{Float, 64, 1}, []byte{0, 0, 0, 0, 0, 0, 0xf8, 0xbf}, "-1.5", -1.5, -1},
	} {
		a := &Array{c.d, []int64{1}, c.data}
		testkit.Equal(t, c, a.Text(0), c.text)
		testkit.Equal(t, c, a.Float(0), c.f)
		testkit.Equal(t, c, a.Int(0), c.i)
	}
	pair := &Array{DType{UInt, 8, 2}, []int64{1}, []byte{1, 2}}
	if pair.Text(0) != "0102" || !math.IsNaN(pair.Float(0)) {
		t.Errorf("a vector element prints %s, is %v", pair.Text(0), pair.Float(0))
	}
}
