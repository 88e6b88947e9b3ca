// This file defines a board's options: what a user may choose for a project, with the board's defaults.

package boards

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// Options are a user's choices for one project. A zero field means the board's default. The tags are the options'
// values, units and help, from which the table is made.
type Options struct {
	ArenaKiB      int    `json:"arena_kib,omitempty" is:"1..1048576" unit:"KiB" help:"memory for tensors, parameters and the runtime"`
	UploadKiB     int    `json:"upload_kib,omitempty" is:"0..65536" unit:"KiB" help:"memory that the host may upload code to, a power of two; 0: it cannot"`
	PacketBytes   int    `json:"packet_bytes,omitempty" is:"256..1048576" unit:"bytes" help:"receive buffer of the RPC server; TVM's host splits its copies to fit"`
	RegistryBytes int    `json:"registry_bytes,omitempty" is:"64..65536" unit:"bytes" help:"room for functions that the firmware registers while running"`
	StackBytes    int    `json:"stack_bytes,omitempty" is:"0..16777216" unit:"bytes" help:"stack of the firmware; 0 means the operating system's, if the board has one"`
	LogLevel      string `json:"log_level,omitempty" is:"error|warn|info|debug" help:"what the firmware logs to the host"`
	RuntimeOpt    string `json:"runtime_opt,omitempty" is:"O0|O1|O2|O3|Og|Os" help:"the compiler's optimisation of the runtime and the port"`
	OperatorOpt   string `json:"operator_opt,omitempty" is:"O0|O1|O2|O3|Og|Os" help:"the compiler's optimisation of the model's operators"`
	// -FLAG or FILE.c:-FLAG, separated by commas
	OperatorFlags string `json:"operator_flags,omitempty" help:"more flags for the model's operators, as in -O3,-funroll-loops; FILE.c:-O3 is for one of its files"`
	GraphExecutor string `json:"graph_executor,omitempty" is:"host|device" help:"device: the firmware can run graphs itself (tvm.graph_executor.create); host: only a host can"`
	App           string `json:"app,omitempty" is:"rpc|standalone" help:"rpc: a host calls the model's functions; standalone: the firmware runs the model by itself"`
	// PART=REGION, separated by commas, before the board's own; PART is arena, operators, packet, parameters, stack or
	// pools.NAME
	Place string `json:"place,omitempty" help:"memory regions of operators, parameters, packet buffer, arena, stack and named pools"`
}

// OperatorFlagsOf returns the flags of OperatorFlags for a C file of the model, by its name without a folder: those for
// all files, then its own. The file "" has none of its own.
func (o Options) OperatorFlagsOf(file string) []string {
	var all, own []string
	for word := range strings.SplitSeq(o.OperatorFlags, ",") {
		switch of, flag, _ := cutFile(word); {
		case flag == "":
		case of == "":
			all = append(all, flag)
		case of == file:
			own = append(own, flag)
		}
	}
	return append(all, own...)
}

// OperatorFiles returns the files that OperatorFlags names, each once.
func (o Options) OperatorFiles() []string {
	var files []string
	for word := range strings.SplitSeq(o.OperatorFlags, ",") {
		if file, _, _ := cutFile(word); file != "" && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// operatorFlag matches one flag of operator_flags: a macro, or what changes how code is generated, and nothing that
// names a file or changes how functions call each other.
var operatorFlag = regexp.MustCompile(
	`^(?:([A-Za-z0-9_][A-Za-z0-9_.-]*\.c):)?(-O[0-3gs]|-f[a-z0-9-]+(?:=[a-z0-9-]+)?|` +
		`-D[A-Za-z_][A-Za-z0-9_]*(?:=[A-Za-z0-9_.+-]*)?|--param=[a-z0-9-]+=[0-9]+)$`)

// cutFile splits FILE.c:-FLAG.
func cutFile(word string) (file, flag string, ok bool) {
	m := operatorFlag.FindStringSubmatch(word)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

func checkOperatorFlags(value string) error {
	for word := range strings.SplitSeq(value, ",") {
		if _, _, ok := cutFile(word); !ok {
			return fmt.Errorf("%q is neither -O…, -f…, -DNAME=VALUE nor --param=P=NUMBER, after FILE.c: or without it", word)
		}
	}
	return nil
}

// An Option describes one of the Options for one board.
type Option struct {
	Name    string
	Type    string   // int or string
	Unit    string   // "" for none
	Min     int      // of an int
	Max     int      // of an int
	Choices []string // of a string
	Default string   // the board's own
	Help    string
}

// An option is one field of Options.
type option struct {
	Option
	is     string // the tag
	field  int
	syntax func(value string) error // of a text without Choices
}

// onDevice is the value of Options.GraphExecutor for firmware with a graph executor.
const onDevice = "device"

// GraphOnDevice reports whether the firmware has a graph executor.
func (o Options) GraphOnDevice() bool { return o.GraphExecutor == onDevice }

// Values of Options.App.
const (
	RPC        = "rpc"        // a host calls the model's functions
	Standalone = "standalone" // the firmware runs the model by itself, without an RPC server
)

// table is made of the tags of Options.
var table = func() (table []option) {
	for i, f := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		o := option{is: f.Tag.Get("is"), field: i, syntax: syntaxes[name]}
		o.Option = Option{Name: name, Type: f.Type.String(), Unit: f.Tag.Get("unit"), Help: f.Tag.Get("help")}

		if least, most, isRange := strings.Cut(o.is, ".."); isRange {
			o.Min, _ = strconv.Atoi(least)
			o.Max, _ = strconv.Atoi(most)
		} else if o.is != "" {
			o.Choices = strings.Split(o.is, "|")
		}

		table = append(table, o)
	}
	return table
}()

// syntaxes check the options whose values are lists.
var syntaxes = map[string]func(value string) error{"operator_flags": checkOperatorFlags, "place": checkPlaceOption}

// own returns the board's defaults.
func (b *Board) own() Options {
	return Options{
		ArenaKiB: b.ArenaKiB, UploadKiB: b.UploadKiB, PacketBytes: b.PacketBytes, RegistryBytes: b.RegistryBytes,
		StackBytes: b.StackBytes,
		LogLevel:   b.LogLevel, RuntimeOpt: b.RuntimeOpt, OperatorOpt: b.OperatorOpt,
		GraphExecutor: cmp.Or(b.GraphExecutor, "host"), App: RPC,
	}
}

// Options lists the board's options with their defaults.
func (b *Board) Options() []Option {
	own := b.own()
	list := make([]Option, len(table))
	for i, row := range table {
		list[i] = row.Option
		list[i].Default = row.get(&own)
	}
	return list
}

func (r option) get(o *Options) string { return fmt.Sprint(reflect.ValueOf(o).Elem().Field(r.field)) }

// check returns an error for an invalid value of the option.
func (r option) check(value string) error {
	switch n, err := strconv.Atoi(value); {
	case r.Type == "int" && err != nil:
		return fmt.Errorf("%q is not a whole number of %s", value, r.Unit)
	case r.Type == "int":
		return jsonfile.CheckValue(n, r.is)
	case r.syntax != nil && value != "":
		return r.syntax(value)
	}
	return jsonfile.CheckValue(value, r.is)
}

// ParseOptions parses "name=value", as in arena_kib=64. Errors have class config and name the most similar option.
func ParseOptions(words []string) (Options, error) {
	var o Options
	given := map[string]bool{}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		row := find(name)
		switch {
		case !ok:
			return Options{}, wrongOption("option %q is not written as name=value", w)
		case row == nil:
			return Options{}, wrongOption("option %q is not known%s", name, jsonfile.DidYouMean(name, optionNames()))
		case given[name]:
			return Options{}, wrongOption("option %q is given twice", name)
		}

		if err := row.check(value); err != nil {
			return Options{}, wrongOption("option %s: %v", name, err)
		}

		// In Options, 0 stands for the board's default.
		if row.set(&o, value); row.get(&o) == "0" {
			return Options{}, wrongOption("option %s=%s has no effect: the board's own value holds", name, value)
		}
		given[name] = true
	}
	return o, nil
}

func wrongOption(format string, args ...any) error {
	return failure.New(failure.Config, "the options are: "+strings.Join(optionNames(), ", "), format, args...)
}

func optionNames() []string {
	var names []string
	for _, r := range table {
		names = append(names, r.Name)
	}
	return names
}

func find(name string) *option {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

// set stores a value that check accepted.
func (r *option) set(o *Options, value string) {
	field := reflect.ValueOf(o).Elem().Field(r.field)
	if n, err := strconv.Atoi(value); field.CanInt() && err == nil {
		field.SetInt(int64(n))
		return
	}
	field.SetString(value)
}

// Words returns the fields that are not zero as NAME=VALUE, which ParseOptions reads.
func (o Options) Words() []string {
	words := []string{}
	for i := range table {
		if v := table[i].get(&o); v != "" && v != "0" {
			words = append(words, table[i].Name+"="+v)
		}
	}
	return words
}

// Settle fills the zero fields of o with the board's defaults, but for UploadKiB of standalone firmware, which is 0. It
// checks ranges and that the arena fits the board's memory. Errors have class config or does-not-fit.
func (b *Board) Settle(o Options) (Options, error) {
	own := b.own()
	for i := range table {
		r := &table[i]
		if v := r.get(&o); v == "" || v == "0" {
			r.set(&o, r.get(&own))
			continue
		}
		if err := r.check(r.get(&o)); err != nil {
			return Options{}, wrongOption("option %s: %v", r.Name, err)
		}
	}

	if o.App == Standalone {
		o.UploadKiB = 0 // nothing is uploaded to it
		if err := standalonePlace(o); err != nil {
			return Options{}, err
		}
	}

	with := *b.Placed(o)
	with.ArenaKiB, with.StackBytes, with.UploadKiB = o.ArenaKiB, o.StackBytes, o.UploadKiB
	with.Files = nil // an error is the options', not a board file's
	err := with.checkPlace()
	// The board's own place was checked when it was loaded.
	if err == nil && o.Place != "" {
		err = with.checkModelAt()
	}

	var full *overfull
	switch {
	case err == nil:
		return o, nil
	case errors.As(err, &full):
		return Options{}, failure.New(failure.DoesNotFit, "choose a smaller arena_kib, stack_bytes or upload_kib",
			"board %s: %w", b.Name, err)
	case o.Place != "":
		err = fmt.Errorf("option place: %w", err)
	}
	return Options{}, failure.New(failure.Config, nextstep.Target("board:show")+" "+b.Name+" shows its memory map; "+
		"code is uploaded to a region with exec, which the board file names in place.upload", "board %s: %w", b.Name, err)
}

// Set lists the names of the options that are not zero, in the table's order.
func (o Options) Set() []string {
	var names []string
	for _, r := range table {
		if v := r.get(&o); v != "" && v != "0" {
			names = append(names, r.Name)
		}
	}
	return names
}
