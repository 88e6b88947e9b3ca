// This file drafts a description from a function's prototype, as the compiler describes it in DWARF.

package modelfile

import (
	"cmp"
	"context"
	"debug/dwarf"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
)

// unknown marks what a prototype does not tell: a value that no compiler accepts. A shape and a size are 0.
const unknown = "?"

// A Draft is a first description of a model.
type Draft struct {
	Description
	Open []string // what must be filled in or confirmed, such as "argument 1, x: shape"

	firstIsInput bool // the first pointer that is not const
}

// Write writes the description to a new file. A file that exists is an error of class config.
func (d *Draft) Write(file string) error {
	data, err := json.MarshalIndent(d.Description, "", "  ")
	if err != nil {
		return fmt.Errorf("model %s: %w", d.Name, err)
	}
	if _, err := os.Lstat(file); err == nil {
		return failure.New(failure.Config, "delete it first, or edit it", "%s: the file exists", file)
	}
	if err := atomicwriter.WriteFile(file, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("model %s: %w", d.Name, err)
	}
	return nil
}

// New drafts the description of a function that a C file or header declares. It runs the compiler cc. Errors: class
// config for a file without the function, compile for one that does not compile alone.
func New(ctx context.Context, cc, file, function string) (*Draft, error) {
	if err := jsonfile.CheckValue(function, "identifier"); err != nil {
		return nil, failure.New(failure.Config, "name the function that runs the model", "%w", err)
	}

	folder, err := scratch.Make("boardsmith-draft-")
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", function, err)
	}
	defer folder.Remove()
	dir := folder.Dir

	file, err = filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", function, err)
	}

	// A variable's type is in the debug information, also if the file only declares the function.
	probe := fmt.Sprintf("#include %q\n__typeof__(%s)* boardsmith_probe = %s;\n", filepath.ToSlash(file), function,
		function)
	object, err := compileProbe(ctx, cc, dir, probe)
	if err != nil {
		return nil, undeclared(ctx, cc, dir, file, function, err)
	}

	found, err := readPrototype(object, function)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "%s: function %s: %w", file, function, err)
	}

	prototype, names := found.of, found.names
	d := &Draft{Description: Description{Name: strings.ToLower(function), Function: function}}
	d.addFiles(file)

	for _, loader := range found.loaders {
		d.open(loader, "the call does not call it, and firmware has no files: if it loads weights, have the generator write "+
			"them into the C, as emx-onnx-cgen does with --large-weight-threshold 0")
	}

	// A prototype without const tells nothing of its pointers. A model has an input, mostly the first of them.
	d.firstIsInput = !slices.ContainsFunc(prototype.ParamType, func(t dwarf.Type) bool {
		p, ok := plain(t).(*dwarf.PtrType)
		return ok && p.Type != nil && isConst(p.Type)
	})

	unnamed := ""
	for i, t := range prototype.ParamType {
		if _, ok := t.(*dwarf.DotDotDotType); ok {
			break // it may get no more arguments
		}
		name := fmt.Sprintf("arg%d", i+1)
		if i < len(names) && names[i] != "" {
			name = names[i]
		} else if unnamed == "" {
			unnamed = name
		}
		d.Arguments = append(d.Arguments, d.argument(fmt.Sprintf("argument %d, %s", i+1, name), name, t))
	}

	if unnamed != "" {
		d.Open = append(d.Open, unnamed+" and the like: names, which only the definition of a function tells, if it has them")
	}

	d.addReturn(prototype.ReturnType)
	return d, nil
}

// compileProbe compiles C in a folder, and returns the path of the object.
func compileProbe(ctx context.Context, cc, dir, text string) (object string, err error) {
	if err := os.WriteFile(filepath.Join(dir, "probe.c"), []byte(text), 0o600); err != nil {
		return "", err
	}

	args := []string{"-g", "-O0", "-w", "-std=gnu11", "-c", "probe.c", "-o", "probe.o"}
	err = command.Command{Path: cc, Args: args, Dir: dir, Timeout: time.Minute}.Run(ctx)
	return filepath.Join(dir, "probe.o"), err
}

// undeclared returns the error for a file that does not compile with a function's name: it lists the functions that the
// file has, or has the compiler's message.
func undeclared(ctx context.Context, cc, dir, file, function string, err error) error {
	// The file alone, to see whether the name is what fails.
	object, failed := compileProbe(ctx, cc, dir, fmt.Sprintf("#include %q\n", filepath.ToSlash(file)))
	if failed == nil {
		if names := functionsOf(object); len(names) > 0 {
			return failure.New(failure.Config, "name one of its functions: "+strings.Join(names, ", "),
				"%s has no function %s", file, function)
		}
	}

	var tool *command.Error
	if errors.As(err, &tool) {
		if message := diagnostics.FirstError(tool.Stderr); message != "" {
			err = errors.New(message)
		}
	}
	return failure.New(failure.Compile, "name a file that compiles alone and declares the function",
		"%s: function %s: %w", file, function, err)
}

// functionsOf returns the names of some functions that an object defines, those that other files can call first.
func functionsOf(object string) []string {
	const most = 20
	f, err := elf.Open(object)
	if err != nil {
		return nil // on a computer with other objects
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return nil
	}

	var global, local []string
	for _, s := range symbols {
		switch {
		case elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF:
		case elf.ST_BIND(s.Info) == elf.STB_LOCAL:
			local = append(local, s.Name)
		default:
			global = append(global, s.Name)
		}
	}

	all := append(global, local...)
	return all[:min(len(all), most)]
}

// addFiles adds the file, and the header of its name beside it. A C file without a header is included by the call.
func (d *Draft) addFiles(file string) {
	name := filepath.Base(file)
	if filepath.Ext(name) != ".c" {
		d.Headers = []string{name}
		d.Open = append(d.Open, "sources: the C files of the model")
		return
	}

	header := strings.TrimSuffix(name, ".c") + ".h"
	if info, err := os.Stat(filepath.Join(filepath.Dir(file), header)); err == nil && info.Mode().IsRegular() {
		d.Sources, d.Headers = []string{name}, []string{header}
		return
	}
	d.Headers, d.Include = []string{name}, []string{name}
}

// A prototype is the type of a function, with what else the object of its probe has.
type prototype struct {
	of      *dwarf.FuncType
	names   []string // of its parameters, if the object defines it
	loaders []string // functions of the object with a result whose only parameter is a text: NAME(const char*)
}

// readPrototype returns the prototype of the probe's function.
func readPrototype(object, function string) (p prototype, err error) {
	f, err := elf.Open(object)
	if err != nil {
		return p, fmt.Errorf("the compiler's object: %w", err)
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		return p, fmt.Errorf("the compiler's object: %w", err)
	}

	var current string // the function whose parameters follow
	count := map[string]int{}
	for r := data.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			return p, fmt.Errorf("the compiler's object: %w", err)
		}
		if e == nil {
			break
		}

		name, _ := e.Val(dwarf.AttrName).(string)
		switch e.Tag {
		case dwarf.TagSubprogram:
			current = ""
			// The function itself, or one with a result that the object defines: perhaps a loader.
			if name == function && len(p.names) == 0 || e.Val(dwarf.AttrExternal) != nil && e.Val(dwarf.AttrType) != nil &&
				e.Val(dwarf.AttrDeclaration) == nil {
				current = name
			}
		case dwarf.TagSubroutineType:
			current = ""
		case dwarf.TagFormalParameter:
			if current == function {
				p.names = append(p.names, name)
			}
			count[current]++
			loader := current + "(const char*)"
			// With a second parameter it is no loader.
			if count[current] > 1 {
				p.loaders = slices.DeleteFunc(p.loaders, func(l string) bool { return l == loader })
			} else if offset, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok && current != "" && isText(data, offset) {
				p.loaders = append(p.loaders, loader)
			}
		case dwarf.TagVariable:
			offset, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
			if name != "boardsmith_probe" || !ok {
				continue
			}
			t, err := data.Type(offset)
			if err != nil {
				return p, fmt.Errorf("the compiler's object: %w", err)
			}
			if pointer, ok := t.(*dwarf.PtrType); ok {
				p.of, _ = plain(pointer.Type).(*dwarf.FuncType)
			}
		}
	}

	if p.of == nil {
		return p, errors.New("it is not a function")
	}
	return p, nil
}

// isText reports whether a type is const char*.
func isText(data *dwarf.Data, offset dwarf.Offset) bool {
	t, err := data.Type(offset)
	if err != nil {
		return false // of a kind that this reader lacks
	}
	p, ok := plain(t).(*dwarf.PtrType)
	if !ok || p.Type == nil || !isConst(p.Type) {
		return false
	}
	_, ok = plain(p.Type).(*dwarf.CharType)
	return ok
}

// plain returns a type without its names and qualifiers.
func plain(t dwarf.Type) dwarf.Type {
	for {
		switch of := t.(type) {
		case *dwarf.TypedefType:
			t = of.Type
		case *dwarf.QualType:
			t = of.Type
		default:
			return t
		}
	}
}

// isConst reports whether a type is const.
func isConst(t dwarf.Type) bool {
	for {
		switch of := t.(type) {
		case *dwarf.TypedefType:
			t = of.Type
		case *dwarf.ArrayType:
			t = of.Type
		case *dwarf.QualType:
			if of.Qual == "const" {
				return true
			}
			t = of.Type
		default:
			return false
		}
	}
}

// elementOf returns the dtype of a type, "" if it is none, and its ctype if it is not the usual one.
func elementOf(t dwarf.Type) (dtype, ctype string) {
	bits := 8 * t.Size()
	switch of := plain(t).(type) {
	case *dwarf.FloatType:
		dtype = fmt.Sprintf("float%d", bits)
	case *dwarf.EnumType:
		dtype = fmt.Sprintf("uint%d", bits)
		if slices.ContainsFunc(of.Val, func(v *dwarf.EnumValue) bool { return v.Val < 0 }) {
			dtype = fmt.Sprintf("int%d", bits)
		}
	case *dwarf.IntType, *dwarf.CharType:
		dtype = fmt.Sprintf("int%d", bits)
	case *dwarf.UintType, *dwarf.UcharType, *dwarf.BoolType:
		dtype = fmt.Sprintf("uint%d", bits)
	}

	usual := Elements[dtype]
	if usual == "" {
		return "", ""
	}

	// The outermost of its names is the ctype, unless one of them is the usual one.
	outer := ""
	for {
		name := ""
		switch of := t.(type) {
		case *dwarf.TypedefType:
			name, t = of.Name, of.Type
		case *dwarf.QualType:
			t = of.Type
		case *dwarf.EnumType:
			return dtype, cmp.Or(outer, "enum "+of.EnumName)
		default:
			name = t.String()
		}
		if name == usual {
			return dtype, ""
		}
		if outer == "" && name != "" {
			outer = name
		}
		if _, ok := t.(*dwarf.TypedefType); !ok && name == t.String() {
			return dtype, outer
		}
	}
}

func (d *Draft) open(label, what string) { d.Open = append(d.Open, label+": "+what) }

// argument drafts an argument of a type.
func (d *Draft) argument(label, name string, t dwarf.Type) Argument {
	of := t
	byAddress := false
	if p, ok := plain(t).(*dwarf.PtrType); ok {
		of, byAddress = p.Type, true
	}

	s, ok := plain(of).(*dwarf.StructType)
	if !ok {
		return Argument{Value: d.value(label, name, t)}
	}

	a := Argument{Struct: nameOf(of, s)}
	if !byAddress {
		a.Pass = byValue
	}
	if s.Incomplete || s.Kind != "struct" {
		d.open(label, "a state of type "+a.Struct+", or an expression")
		return Argument{Value: Value{Expression: unknown}}
	}

	d.open(label, "a struct of buffers, or a state")
	for _, f := range s.Field {
		member := Member{Member: f.Name, Value: d.value(label+", member "+f.Name, f.Name, f.Type)}
		a.Members = append(a.Members, member)
	}
	return a
}

// nameOf returns the name of a struct's type in C.
func nameOf(t dwarf.Type, s *dwarf.StructType) string {
	for {
		switch of := t.(type) {
		case *dwarf.TypedefType:
			return of.Name
		case *dwarf.QualType:
			t = of.Type
		default:
			return s.Kind + " " + s.StructName
		}
	}
}

// value drafts what is not a struct.
func (d *Draft) value(label, name string, t dwarf.Type) Value {
	var v Value
	var shape []int64
	of := t
	switch p := plain(t).(type) {
	case *dwarf.PtrType:
		of = p.Type
		if _, ok := plain(of).(*dwarf.VoidType); ok || of == nil {
			d.open(label, "bytes of the arena")
			return Value{Arena: name}
		}

		// A prototype does not tell the number of elements.
		shape = []int64{0}
	case *dwarf.ArrayType:
		v.Pass = byArray
	default:
		d.open(label, "value, or an input by value")
		return Value{Expression: unknown}
	}

	isInput := isConst(of)
	for {
		a, ok := plain(of).(*dwarf.ArrayType)
		if !ok {
			break
		}
		v.Pass, shape, of = byArray, append(shape, max(a.Count, 0)), a.Type
	}

	if v.DType, v.CType = elementOf(of); v.DType == "" {
		d.open(label, "a state, or an expression")
		return Value{Expression: unknown}
	}

	v.Shape = shape
	d.open(label, "shape")
	switch {
	case isInput:
		v.Input = name
	case d.firstIsInput:
		d.firstIsInput = false
		v.Input = name
		d.open(label, "an input, or an output if the function writes it")
	default:
		v.Output = name
		d.open(label, "an output, if the function writes it")
	}
	return v
}

// addReturn drafts what the function returns.
func (d *Draft) addReturn(t dwarf.Type) {
	if t == nil {
		return
	}
	if _, ok := plain(t).(*dwarf.VoidType); ok {
		return
	}

	dtype, _ := elementOf(t)
	// A float is no status.
	if strings.HasPrefix(dtype, "float") {
		d.Returns = Returns{Output: "result", DType: dtype}
		return
	}

	d.open("returns", "a status, of which 0 is success, or an output")
	success := int64(0)
	d.Returns = Returns{Status: &success}
}
