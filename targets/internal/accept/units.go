// This file runs the runtime's own unit tests on a board. The firmware that runs them has its runtime, which must stay
// as it is, so each file of tests is linked with a second one whose functions have other names.

package accept

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
)

// unitTests are the files of crt/test that need neither a link nor a computer's memory.
var unitTests = []string{
	"format", "registry", "module", "ndarray", "time_evaluator", "aot", "double",
}

const shortUnitTests = 1

func (r *run) units(ctx context.Context, found *Result) error {
	if err := r.close(ctx); err != nil {
		return err
	}

	for _, name := range unitTests[:r.times(len(unitTests), shortUnitTests)] {
		text, err := crt.Sources.Tests.ReadFile("test/test_" + name + ".c")
		if err == nil {
			err = r.unit(ctx, name, text, found)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}

	_, err := r.device.Flash(ctx, r.images[0]) // which the next steps open
	return err
}

// unit runs one file of tests.
func (r *run) unit(ctx context.Context, name string, text []byte, found *Result) error {
	a, err := unitArchive(name, text)
	if err != nil {
		return err
	}

	i, err := r.buildModel(ctx, a)
	if failure.Of(err) == failure.DoesNotFit {
		found.note("%s: not run, the image does not fit the board", name)
		return nil
	}

	if err != nil {
		return err
	}

	if _, err := r.device.Flash(ctx, i); err != nil {
		return err
	}
	if r.session, err = r.device.Open(ctx, i); err != nil {
		return err
	}

	line, err := r.call(ctx, "accept_unit")
	if err != nil {
		return err
	}

	if line < 0 {
		found.note("%s: not run, the arena is too small", name)
		return r.close(ctx)
	}

	if line > 0 {
		return failure.Errorf(failure.WrongAnswer, "crt/test/test_%s.c:%d is wrong on this board", name, line)
	}

	found.note("%s: right", name)
	return r.close(ctx)
}

var (
	// the names of the runtime at file scope, and of its macros
	names = regexp.MustCompile(`\b(?:TVM[A-Z]|MicroTVM|boardsmith_|PageMemory|StackMemory|crc16_|request_|server_|` +
		`transmit_)\w+\b|\bmain\b`)
	macro     = regexp.MustCompile(`(?m)^ *# *define (\w+)`)
	alias     = regexp.MustCompile(`alias\("(\w+)"\)`)
	ownHeader = regexp.MustCompile(`(?m)^#include "(?:\w+/)?(\w+\.h)"`)
)

// unitArchive returns the archive of a file of tests.
func unitArchive(name string, text []byte) (*mlf.Archive, error) {
	sources := map[string][]byte{"test_" + name + ".c": text}
	read := func(files fs.FS, file string) error {
		data, err := fs.ReadFile(files, file)
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		sources[path.Base(file)] = data
		return nil
	}

	err := fs.WalkDir(crt.Sources.Runtime, "src", func(file string, d fs.DirEntry, err error) error {
		// None of the tests runs a graph.
		if err != nil || d.IsDir() || strings.Contains(file, "graph_executor") {
			return err
		}
		return read(crt.Sources.Runtime, file)
	})

	for _, file := range []string{"platform.h", "timer.h"} {
		err = errors.Join(err, read(crt.Sources.Tests, "test/"+file))
	}

	if err != nil {
		return nil, err
	}

	renamed := renamedIn(sources)
	files := []mlf.File{
		{Name: "cmocka.h", Data: cmocka},
		{Name: "unit.c", Data: unitRunner},
		{Name: "unit_names.h", Data: unitNames(renamed)},
	}

	for file, text := range sources {
		text = unitText(text, sources, renamed)
		// #line keeps the numbers of __LINE__, by which a wrong assertion is reported.
		if strings.HasSuffix(file, ".c") {
			text = fmt.Appendf(nil, "#include \"unit_names.h\"\n#line 1 \"%s\"\n%s", file, text)
		}
		files = append(files, mlf.File{Name: "unit_" + file, Data: text})
	}

	// The map has no order, but equal inputs must make an equal archive.
	slices.SortFunc(files, func(a, b mlf.File) int { return strings.Compare(a.Name, b.Name) })
	return archive([]string{"accept_unit"}, files...)
}

// renamedIn returns the names in the sources, except macros, that the firmware may have as well.
func renamedIn(sources map[string][]byte) map[string]bool {
	renamed := map[string]bool{}
	for _, text := range sources {
		for _, word := range names.FindAll(text, -1) {
			renamed[string(word)] = true
		}
	}

	// Macros do not collide in the linker, and a #define of their name would replace them.
	for _, text := range sources {
		for _, m := range macro.FindAllSubmatch(text, -1) {
			delete(renamed, string(m[1]))
		}
	}

	return renamed
}

// unitText returns a source whose headers and aliases are those of the archive.
func unitText(text []byte, sources map[string][]byte, renamed map[string]bool) []byte {
	text = bytes.ReplaceAll(text, []byte("#include <cmocka.h>"), []byte("#include \"cmocka.h\""))
	text = bytes.ReplaceAll(text, []byte("#include <setjmp.h>\n"), nil)
	text = ownHeader.ReplaceAllFunc(text, func(line []byte) []byte {
		header := string(ownHeader.FindSubmatch(line)[1])
		switch {
		case header == "crt_config.h":
			return nil // of the board: unit_names.h has it
		case sources[header] != nil:
			return fmt.Appendf(nil, "#include \"unit_%s\"", header)
		}
		return line
	})

	return alias.ReplaceAllFunc(text, func(match []byte) []byte {
		if of := alias.FindSubmatch(match)[1]; renamed[string(of)] {
			return fmt.Appendf(nil, `alias("unit_%s")`, of)
		}
		return match
	})
}

// unitNames returns the header that gives the second runtime other names, and the settings of crt/test/config.
func unitNames(renamed map[string]bool) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(renamed)) {
		fmt.Fprintf(&b, "#define %s unit_%s\n", name, name)
	}
	b.WriteString(`#include <boardsmith/boardsmith.h>
#undef TVM_CRT_MAX_PACKET_SIZE_BYTES
#undef TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES
#define TVM_CRT_MAX_PACKET_SIZE_BYTES 512
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 512
`)
	return b.Bytes()
}
