// This file makes candidates of plain C functions.

package tune

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// Func returns the candidate of a plain C function, such as void scale(const int16_t* x, int16_t factor, int16_t* y).
// An input of shape [] is passed by value, every other argument as the address of its first element. What the function
// returns is ignored. The first of the files (.c) that has the function's name gets a packed function that calls it, so
// that the function may be static; it must declare the function. A function of objects is declared by args. Whether
// pointers have the types of args is not checked: Arg.Want compares results.
func Func(id, function string, files []mlf.File, args ...Arg) Candidate {
	entry := function + "_packed"
	var call, types []string
	for i, a := range args {
		data, element := fmt.Sprintf("((DLTensor*)boardsmith_args[%d].v_handle)->data", i), "void*"
		if len(a.Shape) == 0 && a.isInput() {
			element = elementOf(a.DType)
			data = fmt.Sprintf("*(const %s*)%s", element, data)
		}
		call, types = append(call, data), append(types, element)
	}

	wrapper := fmt.Appendf(nil, "\n#include <stdint.h>\n#include <tvm/runtime/c_runtime_api.h>\n"+
		"#pragma GCC diagnostic push\n#pragma GCC diagnostic error \"-Wimplicit-function-declaration\"\n"+
		"int %s(TVMValue* boardsmith_args, int* boardsmith_codes, int boardsmith_count, TVMValue* boardsmith_result,\n"+
		"    int* boardsmith_result_code, void* boardsmith_resource) {\n  (void)%s(%s);\n  return 0;\n}\n"+
		"#pragma GCC diagnostic pop\n", // a float would be passed as a double
		entry, function, strings.Join(call, ",\n      "))

	c := Candidate{ID: id, Entry: entry, Operators: project.Operators{Files: slices.Clone(files)}, Args: args}
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(function) + `\b`)
	for i, f := range c.Operators.Files {
		if filepath.Ext(f.Name) == ".c" && word.Match(f.Data) {
			c.Operators.Files[i].Data = append(bytes.Clone(f.Data), wrapper...)
			return c
		}
	}

	// No file has the function: it is in an object, and args declare it.
	declaration := fmt.Appendf(nil, "#include <stdint.h>\nvoid %s(%s);\n", function, strings.Join(types, ", "))
	c.Operators.Files = append(c.Operators.Files, mlf.File{
		Name: entry + ".c", Data: append(declaration, wrapper...),
	})
	return c
}

// elementOf returns the type in C of numbers; of other types, void, which no function takes by value.
func elementOf(d ndarray.DType) string {
	switch {
	case d.Lanes != 1 || d.Bits < 8:
		return "void"
	case d.Code == ndarray.Float && d.Bits == 32:
		return "float"
	case d.Code == ndarray.Float && d.Bits == 64:
		return "double"
	case d.Code == ndarray.Int:
		return fmt.Sprintf("int%d_t", d.Bits)
	case d.Code == ndarray.UInt:
		return fmt.Sprintf("uint%d_t", d.Bits)
	}
	return "void"
}

// ArgOf returns an argument with a number or a list of numbers. Without a shape, that of a list is its length.
func ArgOf[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 |
	[]int8 | []int16 | []int32 | []int64 | []uint8 | []uint16 | []uint32 | []uint64 | []float32 | []float64](
	value T, shape ...int64,
) Arg {
	v := reflect.ValueOf(value)
	element := v.Type()
	if v.Kind() == reflect.Slice {
		element = element.Elem()
		if shape == nil {
			shape = []int64{int64(v.Len())}
		}
	}

	d := ndarray.DType{Code: ndarray.Int, Bits: uint8(element.Bits()), Lanes: 1}
	// reflect has the kinds in this order: signed, unsigned, floating-point
	switch {
	case element.Kind() >= reflect.Float32:
		d.Code = ndarray.Float
	case element.Kind() >= reflect.Uint:
		d.Code = ndarray.UInt
	}

	data, err := binary.Append([]byte{}, binary.LittleEndian, value)
	if err != nil {
		panic(err) // not of these types
	}
	return Arg{DType: d, Shape: shape, Data: data}
}

// Expected returns the argument as an output, with its data as what is expected of it.
func (a Arg) Expected() Arg {
	a.Data, a.Want = nil, a.Data
	return a
}
