// This file calls one function of the firmware.

package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Call calls the function FUNC of the firmware with ARGS, and prints all tensors. ARGS are numbers, texts,
// .npy files, and int8(1,64) for a new tensor: docs/command-line.md. Without FUNC, it lists the functions. OUTPUT is an
// .npz with the tensors after the call.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [rpc]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	IMAGE        an earlier firmware, by the beginning of its build id or SHA-256 [the project's build]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	OUTPUT       .npz with all tensors [not written]
//	TRACE        file for a recording of the link: devices.md [not written]
//	TIMEOUT      limit for one call on the device: 60 (seconds), 2m30s [60 s]
//	FORCE=1      uses and flashes the board also if another one is named
//	DRYRUN=1     prints what would be done, without doing it
//	FUNC         the function to call, as in a call [all are listed]
//	ARGS         its arguments, separated by spaces: numbers, texts, .npy files, int8(1,64) for a new tensor
func Call(ctx context.Context) error { return doCall(ctx) }

var doCall = jobTarget("call", "", callFunction)

// callInputs are the variables of call.
type callInputs struct {
	inputs.OfProject
	inputs.OfCall
	inputs.Dry
	Image  string `var:"IMAGE"`
	Output string `var:"OUTPUT" write:".npz"`
	Trace  string `var:"TRACE" write:"recording"`
	Func   string `var:"FUNC"`
	Args   string `var:"ARGS"`
}

// A callable is a function that can be called by name.
type callable struct {
	name, from string
	form       string // from the comment above its C; "": unknown
	least      int    // tensors at its beginning; 0: unknown
	most       int
	tensors    []mlf.Tensor // the first ones; nil: unknown
}

// callables lists the board's own functions, and the operators of the project's model.
func callables(j *job) (all []callable, err error) {
	for _, f := range j.project.Board().Functions {
		form, err := commentedForm(j.project.Dir(), f.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, callable{name: f.Name, from: "C function " + f.Symbol + " of the board", form: form})
	}

	_, m, err := j.project.Model()
	if err != nil {
		return nil, err
	}
	for _, s := range m.Signatures() {
		all = append(all, callable{
			name: s.Function, from: "operator of the model", least: s.MinTensors, most: s.MaxTensors, tensors: s.Tensors,
		})
	}

	return all, nil
}

// commentedForm returns the line of a comment, in a C file of the board in a project, that begins with a function's
// name and a parenthesis; "" if there is none.
func commentedForm(dir, name string) (form string, err error) {
	line := regexp.MustCompile(`(?m)^\s*(?://|/?\*+)\s*(` + regexp.QuoteMeta(name) + `\(.*?)\s*(?:\*/)?\s*$`)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		// These folders have the runtime's and the model's C, not the board's functions.
		case d.IsDir() && path != dir && slices.Contains([]string{"build", "crt", "model"}, d.Name()):
			return fs.SkipDir
		case form != "" || !d.Type().IsRegular() || filepath.Ext(path) != ".c":
			return nil
		}
		text, err := os.ReadFile(path)
		if m := line.FindSubmatch(text); m != nil {
			form = strings.TrimSuffix(string(m[1]), ".")
		}
		return err
	})

	return form, err
}

// String returns the form of a call.
func (c callable) String() string {
	switch {
	case c.form != "":
		return c.form
	case c.tensors != nil:
		tensors := c.typed()
		if c.most > c.least {
			tensors = append(tensors, "…") // pools
		}
		return c.name + "(" + strings.Join(tensors, ", ") + ")"
	case c.least == 0:
		return c.name + "(any arguments)"
	case c.least == c.most:
		return fmt.Sprintf("%s(%d tensors)", c.name, c.least)
	}
	return fmt.Sprintf("%s(%d to %d tensors)", c.name, c.least, c.most)
}

// typed returns the tensors as new ones are written in ARGS.
func (c callable) typed() (all []string) {
	for _, t := range c.tensors {
		var dims []string
		for _, n := range t.Dims() {
			dims = append(dims, strconv.FormatInt(n, 10))
		}
		all = append(all, fmt.Sprintf("%v(%s)", t.DType, strings.Join(dims, ",")))
	}
	return all
}

// check returns an error of class config for arguments that are not the tensors: the function would read and write
// beside them.
func (c callable) check(args []any) error {
	if c.tensors == nil {
		return nil
	}

	next := "ARGS=" + command.Quote(strings.Join(c.typed(), " ")) + " for instance"
	if len(args) < c.least || len(args) > c.most {
		return failure.New(failure.Config, next, "ARGS: %s takes %s, not %s", c.name,
			format.Count(c.least, "tensor"), format.Count(len(args), "argument"))
	}
	for i, t := range c.tensors {
		a, ok := args[i].(*ndarray.Array)
		switch {
		case !ok:
			return failure.New(failure.Config, next, "ARGS: argument %d of %s is no tensor", i, c.name)
		case a.DType != t.DType || !slices.Equal(a.Shape, t.Dims()):
			return failure.New(failure.Config, next, "ARGS: argument %d of %s is %v %s, not %v %s", i, c.name, a.DType,
				ndarray.ShapeString(a.Shape), t.DType, ndarray.ShapeString(t.Dims()))
		}
	}

	return nil
}

func callFunction(ctx context.Context, j *job, v callInputs) error {
	if j.in.Library {
		return noFirmware()
	}

	name := v.Func
	args, err := parseArguments(v.Args)
	if err != nil {
		return err
	}
	if name == "" && len(args) > 0 {
		return failure.New(failure.Config, "name the function, or leave ARGS out: "+nextstep.Target("call")+" lists them",
			"ARGS=%s has no effect without FUNC", v.Args)
	}

	if j.DryRun {
		if name == "" {
			return j.would(ctx, "list the functions of board %s and its model", j.in.Board)
		}
		return j.would(ctx, "call %s on board %s", name, j.in.Board)
	}

	image, err := j.built(ctx)
	if err != nil {
		return err
	}

	all, err := callables(j)
	if err != nil {
		return err
	}

	if name == "" {
		j.list(all)
		return nil
	}

	// The arguments of a function that is listed are checked before a device is used.
	if i := slices.IndexFunc(all, func(c callable) bool { return c.name == name }); i >= 0 {
		if err := all[i].check(args); err != nil {
			return err
		}
	}

	if j.project.Options().App == boards.Standalone {
		return failure.New(failure.Config, "call it in firmware with APP=rpc", "standalone firmware has no RPC server")
	}

	d, err := j.attached(ctx)
	if err != nil {
		return err
	}
	defer j.detach()

	c := &connection{limit: j.in.CallTimeout()}
	err = c.call(ctx, "opening the link", func(ctx context.Context) (err error) {
		c.rpc, err = d.Open(ctx, image)
		return err
	})
	if err != nil {
		return err
	}

	err = c.call(ctx, name, func(ctx context.Context) error { return j.call(ctx, c.rpc, name, args, all) })
	// The link is closed also after an interrupt, which has ended ctx.
	return errors.Join(err, c.call(context.WithoutCancel(ctx), "closing the link", c.close))
}

func (j *job) list(all []callable) {
	if len(all) == 0 {
		j.Notef("note: %s has no functions of its own, and %s no operators that are called by name", j.in.BoardName(),
			inputs.ArchiveName(j.project.ArchiveName()))
	}
	for _, c := range all {
		j.Printf("%v: %s", c, c.from)
		j.JSONLine(jsonlines.Callable{Function: c.name, Form: c.String(), From: c.from, Least: c.least, Most: c.most})
	}
}

// call calls a function, and prints its result and the tensors.
func (j *job) call(ctx context.Context, s *rpc.Session, name string, args []any, all []callable) error {
	f, err := findFunction(ctx, s, name, all)
	if err != nil {
		return err
	}

	var tensors []*rpc.Tensor
	for i, arg := range args {
		a, ok := arg.(*ndarray.Array)
		if !ok {
			continue
		}
		t, err := s.NewArray(ctx, a)
		if err != nil {
			return err
		}
		args[i], tensors = t, append(tensors, t)
	}

	result, err := f.Call(ctx, args...)
	if err != nil {
		if strings.HasPrefix(err.Error(), "calling "+name+": ") {
			err = cmp.Or(errors.Unwrap(err), err) // without the function's name, which the step has
		}
		return err
	}

	line := jsonlines.Called{Function: name, Output: j.in.Output}
	if result != nil {
		j.Printf("%s returned %v", name, result)
		line.Result = fmt.Sprint(result)
	} else {
		j.Printf("%s returned nothing", name)
	}

	var named []ndarray.Named
	for i, t := range tensors {
		a, err := t.Array(ctx)
		if err != nil {
			return err
		}
		tensor := "tensor" + strconv.Itoa(i)
		text, described := tensorLine(tensor, a)
		j.Printf("%s", text)
		line.Tensors = append(line.Tensors, described)
		named = append(named, ndarray.Named{Name: tensor, Array: a})
	}

	if err := writeTensors(j, named); err != nil {
		return err
	}
	j.JSONLine(line)
	return nil
}

// findFunction looks for a function of the device, then of the model.
func findFunction(ctx context.Context, s *rpc.Session, name string, all []callable) (rpc.Function, error) {
	f, err := s.Function(ctx, name)
	if !errors.Is(err, rpc.ErrNotFound) {
		return f, err
	}

	lib, err := s.SystemLib(ctx)
	if err != nil {
		return f, err
	}
	if f, err = lib.Function(ctx, name); !errors.Is(err, rpc.ErrNotFound) {
		return f, err
	}

	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	next := spelling.Nearest(name, names)
	if next == "" {
		next = nextstep.Target("call") + " without FUNC lists them"
	}
	return f, failure.New(failure.Config, next, "the firmware has no such function")
}

// parseArguments parses ARGS: words that spaces separate, texts in single quotes, which may have spaces, and words with
// spaces in double quotes.
func parseArguments(text string) (args []any, err error) {
	for text = strings.TrimLeft(text, " "); text != ""; text = strings.TrimLeft(text, " ") {
		word, rest, _ := strings.Cut(text, " ")
		// A text in single quotes is taken as it is; in double quotes it is any other word.
		if quote := text[:1]; quote == "'" || quote == `"` {
			var ended bool
			if word, rest, ended = strings.Cut(text[1:], quote); !ended {
				return nil, failure.Errorf(failure.Config, "ARGS: %s has no second quote", text)
			}
			if quote == "'" {
				args, text = append(args, word), rest
				continue
			}
		}

		arg, err := parseArgument(word)
		if err != nil {
			return nil, fmt.Errorf("ARGS: %w", err)
		}
		args, text = append(args, arg), rest
	}
	return args, nil
}

// parseArgument returns the array of an .npy file, an array of zeroes of a type and a shape, a number or a text.
func parseArgument(word string) (any, error) {
	if strings.HasSuffix(word, ".npy") {
		arrays, err := ndarray.ReadNPZ(word)
		if err == nil && len(arrays) != 1 {
			err = failure.Errorf(failure.Config, "%s holds %d arrays, not one", word, len(arrays))
		}
		if err != nil {
			return nil, err
		}
		return arrays[0].Array, nil
	}
	if n, ok, err := parseNumber(word); ok || err != nil {
		return n, err
	}

	name, dims, isTensor := strings.Cut(strings.TrimSuffix(word, ")"), "(")
	if !isTensor || !strings.HasSuffix(word, ")") {
		return word, nil
	}

	dtype, err := ndarray.ParseDType(name)
	if err == nil && !isNumber(dtype) {
		err = fmt.Errorf("unknown data type %q", name)
	}
	if err != nil {
		return nil, failure.New(failure.Config, "a text with parentheses is in single quotes", "%s: %w", word, err)
	}

	var shape []int64
	dims = strings.TrimSuffix(dims, ",") // (3,) as Python writes it
	for d := range strings.SplitSeq(dims, ",") {
		if dims == "" {
			break
		}
		n, err := strconv.ParseInt(d, 10, 64)
		if err != nil {
			return nil, failure.Errorf(failure.Config, "%s: %q is no dimension", word, d)
		}
		shape = append(shape, n)
	}

	a, err := ndarray.New(dtype, shape...)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "%s: %w", word, err)
	}
	return a, nil
}

// isNumber reports whether C has numbers of a type, or vectors of them.
func isNumber(d ndarray.DType) bool {
	switch d.Code {
	case ndarray.Int, ndarray.UInt:
		return slices.Contains([]uint8{8, 16, 32, 64}, d.Bits) || d == ndarray.DType{Code: ndarray.UInt, Bits: 1, Lanes: 1}
	case ndarray.Float:
		return slices.Contains([]uint8{16, 32, 64}, d.Bits)
	}
	return d.Code == ndarray.BFloat && d.Bits == 16
}

// integer matches an integer, in C's notation but for octal ones, which begin with 0o.
var integer = regexp.MustCompile(`^[+-]?([0-9]+|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+)$`)

// parseNumber returns an int64 or a float64; ok is false for a text. A number that the type cannot hold is an error: a
// call has no other types.
func parseNumber(word string) (n any, ok bool, err error) {
	if integer.MatchString(word) {
		// Without a prefix a number is decimal, also with zeros in front, unlike in C.
		base := 10
		if digits := strings.TrimLeft(word, "+-"); len(digits) > 1 && strings.ContainsRune("xXoObB", rune(digits[1])) {
			base = 0
		}
		n, err := strconv.ParseInt(word, base, 64)
		if err != nil {
			return nil, false, failure.New(failure.Config, "pass it in an .npy, or as the negative number of the same bits",
				"%s is not in the range of integers of a call, %d to %d", word, math.MinInt64, math.MaxInt64)
		}
		return n, true, nil
	}

	x, err := strconv.ParseFloat(word, 64)
	if errors.Is(err, strconv.ErrRange) {
		return nil, false, failure.New(failure.Config, "write inf for infinity",
			"%s is larger than any number of a call, %g", word, math.MaxFloat64)
	}
	return x, err == nil, nil
}
