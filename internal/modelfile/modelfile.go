// Package modelfile packs a model in plain C, which a file in JSON describes, as a Model Library Format archive: the
// model's own files, and a typed call of its function, which the compiler checks against the model's headers.
//
// It does not parse C and compiles nothing. Input may be hostile: the files must lie in the description's folder.
package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// File is the name of the description in a folder or in a tar.
const File = "model.json"

// A Description is the file that describes a model in plain C. Paths are relative to its folder, which they do not
// leave, and have slashes.
type Description struct {
	Doc string `json:"doc,omitzero"` // one line for people
	// the model's name: lower-case letters, digits and underscores; it does not begin with `boardsmith_`
	Name string `json:"name,omitzero" is:"required name"`

	Sources []string `json:"sources,omitzero" is:".c"` // C files to compile; each has a name of its own
	// files that sources include, and folders in which `#include` searches. All sources are compiled in one
	// folder: `#include "../inc/net.h"` finds nothing
	Headers []string `json:"headers,omitzero"`
	// what the typed call includes. Default: each `.h` file that `headers` names; without one, it is required. A
	// generator's C file without a header may be in `headers` and here, in place of `sources`
	Include []string `json:"include,omitzero"`
	// compiled objects (`.o`) and libraries (`.a`), also of assembler or C++. Their core, float ABI and FPU must
	// be those of the board: another is an error before linking. All objects of a library are linked, as
	// `codegen/host/lib/net.a_1_conv.o` for the first one of `net.a`; it must not be a thin library, nor hold
	// bitcode of LLVM
	Objects []string `json:"objects,omitzero" is:".o|.a"`
	// macros of all sources and of the call, `NAME` or `NAME=VALUE`. `main=model_main` renames a function whose name
	// the firmware has, too. Names of the C library, as `read`, may be a model's own on `host`, where the firmware
	// does not use them; on a board, a function of such a name is the firmware's, too: `memcpy` must do what C says.
	// Flags of the compiler are the option `operator_flags`, which `tune` chooses
	Defines []string `json:"defines,omitzero" is:"define"`

	Function string `json:"function,omitzero" is:"required identifier"` // the function that runs the model
	// the [arguments](#arguments) of the function, in the order of its parameters
	Arguments []Argument `json:"arguments,omitzero"`
	// `{"status": 0}`: an integer, of which this one is success. The error of any other names the function; that
	// of standalone firmware has the number only. `{"output": NAME, "dtype": TYPE}`: the value is an output;
	// `{"ignored": true}`. Without it, the function returns nothing
	Returns Returns `json:"returns,omitzero"`
	// `function`, `arguments` and `returns` of a function to call once, before the first run
	Init *Init `json:"init,omitzero"`

	// an `.npz` with inputs and expected outputs ([a set](release.md#a-set)). `validate` and `measure` use them
	// without `INPUT`; `EXPECT` replaces the expected outputs and their rule, `LABELS` the labels, `COMPARE` the rule.
	// Other targets do not use them
	Examples string `json:"examples,omitzero" is:".npz"`
	// how equal outputs must be, such as `abs=1e-5`. Default: exact
	Compare string `json:"compare,omitzero" is:"rule" with:"examples"`

	// the program that generated the C, with its version; for people
	Generator string `json:"generator,omitzero"`
	// an SPDX expression, for `release`: the licence of sources and named headers that name none
	License string `json:"license,omitzero" is:"licence"`
}

// An Init is a function that prepares a model.
type Init struct {
	Function  string     `json:"function,omitzero" is:"required identifier"` // as above
	Arguments []Argument `json:"arguments,omitzero"`                         // of the function, in the order of its parameters: no inputs and outputs
	Returns   Returns    `json:"returns,omitzero"`                           // what the function returns: nothing, or a status
}

// Returns is the meaning of what a function returns. The zero value is that of a function without a result.
type Returns struct {
	Status  *int64 `json:"status,omitzero" is:"either"`                                                                         // a number: this one is success
	Output  string `json:"output,omitzero" is:"identifier either" needs:"dtype"`                                                // an output of one element: its name
	DType   string `json:"dtype,omitzero" is:"float32|float64|int8|int16|int32|int64|uint8|uint16|uint32|uint64" with:"output"` // of the output
	Ignored bool   `json:"ignored,omitzero" is:"either"`                                                                        // a value without meaning
}

// An Argument is one argument of a function: a Value, or a struct of them.
type Argument struct {
	Value
	Struct  string   `json:"struct,omitzero" is:"either"`                 // a struct: its type in C, such as "struct buffers"
	Members []Member `json:"members,omitzero" with:"struct" key:"Member"` // of the struct; others are zero
}

// A Member is a member of a struct.
type Member struct {
	// its name in C, also of a member in it, such as "meta.format"; "[0]", "[1]", ... of an array of the struct's type
	Member string `json:"member,omitzero" is:"required member"`
	Value
}

// A Value is one of: an input, an output, an arena, a state, an expression.
type Value struct {
	Input  string  `json:"input,omitzero" is:"identifier either" needs:"dtype shape"`                                                 // an input: its name
	Output string  `json:"output,omitzero" is:"identifier either" needs:"dtype shape"`                                                // an output: its name
	DType  string  `json:"dtype,omitzero" is:"float32|float64|int8|int16|int32|int64|uint8|uint16|uint32|uint64" with:"input output"` // of an input or output, such as float32 or int8
	Shape  []int64 `json:"shape,omitzero" is:"1..2147483647" with:"input output"`                                                     // of an input or output; [] for a scalar
	// how the function takes it: "pointer" to the first element, "array" of the shape, "flat" (a member: an array of one
	// dimension) or "value". Default: pointer, of a struct and a state the address
	Pass string `json:"pass,omitzero" is:"pointer|array|flat|value" with:"input output state struct"`
	// the type in C of elements if it is not the dtype's (float, int8_t, ...), or the type of a state
	CType string `json:"ctype,omitzero" with:"input output state"`

	// of a quantized input or output of integers: q stands for (q - zero_point) * scale
	Scale     *float64 `json:"scale,omitzero" with:"input output"`
	ZeroPoint *int64   `json:"zero_point,omitzero" with:"scale"` // Default: 0

	Arena string `json:"arena,omitzero" is:"identifier either"`          // memory for the function to work in: its name
	Bytes int64  `json:"bytes,omitzero" is:"1..1073741824" with:"arena"` // of the arena
	Align int64  `json:"align,omitzero" is:"1..4096 2^n" with:"arena"`   // of the arena, in bytes: a power of 2. Default: 16

	State      string `json:"state,omitzero" is:"identifier either" needs:"ctype"` // a variable of type ctype, zero at start, that is kept between calls: its name
	Expression string `json:"value,omitzero" is:"line either"`                     // an expression in C, such as "490", "KWS_THREADS" or "&weights"
}

// A reader collects the errors of a description.
type reader struct {
	Description
	file  string // for messages
	files fs.FS
	lines jsonfile.Lines
	bytes int64 // of the files that were read
	faults
}

// faults are errors with their lines.
type faults []error

func (r *reader) fault(line int, format string, args ...any) {
	r.faults = append(r.faults, &jsonfile.Error{File: r.file, Line: line, Err: fmt.Errorf(format, args...)})
}

// Pack returns the archive of the model that file in files describes, uncompressed. name is the description's for
// messages. Equal files give equal bytes. An error has class config and lists all faults of the description, each with
// its line.
func Pack(files fs.FS, file, name string) ([]byte, error) {
	r := &reader{file: name, files: files}
	if err := r.read(file); err != nil {
		return nil, err
	}

	m := r.check()
	if len(r.faults) > 0 {
		return nil, failure.New(failure.Config, "correct the description of the model", "%w", errors.Join(r.faults...))
	}
	return m.tar()
}

// read decodes the description.
func (r *reader) read(file string) error {
	next := "name a description of a model, or an archive that TVM exported"
	data, err := jsonfile.Read(r.files, file)
	if others, _ := fs.Glob(r.files, "*.json"); errors.Is(err, fs.ErrNotExist) && len(others) > 0 { // the pattern is valid
		next = "name the description itself: " + strings.Join(others, ", ")
	}
	if err != nil {
		return failure.New(failure.Config, next, "model %s: %w", r.file, err)
	}
	r.lines, err = jsonfile.Decode(r.file, data, &r.Description)
	return err
}
