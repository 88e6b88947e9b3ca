// This file makes the functions through which operators call the firmware.

package ramlink

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
)

// stubs returns an object with what the operators lack of the C library where they run in a process: its functions lie
// in the system's libraries, whose addresses only the process has. Nothing for a chip.
func (l *Linker) stubs(ctx context.Context, dir string, objects []mlf.File) ([]mlf.File, error) {
	if !l.process {
		return nil, nil
	}

	var undefined []string
	defined := map[string]bool{}
	for _, o := range objects {
		info, err := o.Info() // a weak symbol that nothing defines is 0
		if err != nil {
			return nil, failure.Errorf(failure.Link, "%s: %w", o.Name, err)
		}
		undefined = append(undefined, info.Undefined...)
		for _, name := range info.Defined {
			defined[name] = true
		}
	}

	slices.Sort(undefined)
	names := slices.DeleteFunc(slices.Compact(undefined), func(name string) bool {
		return defined[name] || strings.HasPrefix(name, "boardsmith_") || name == "_GLOBAL_OFFSET_TABLE_"
	})

	// The names become C, but those in an object can be any.
	for _, name := range names {
		if !identifier.MatchString(name) {
			return nil, failure.Errorf(failure.Link, "the operators use %.200q, which is no name of a C function", name)
		}
	}

	if len(names) == 0 {
		return nil, nil
	}
	compiled, err := l.objects(ctx, dir, Operators{Files: []mlf.File{{Name: "stubs.c", Data: stubsSource(names)}}})
	return compiled, err
}

// stubsSource is the C of functions that jump to where the pointers lead.
func stubsSource(names []string) []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "extern const char %s[];\nextern void* %s[];\nconst char %s[] =", importNames, importPointers,
		importNames)
	for _, name := range names {
		fmt.Fprintf(&w, "\n  %q \"\\0\"", name)
	}

	fmt.Fprintf(&w, ";\nvoid* %s[%d];\n", importPointers, len(names))
	w.WriteString(`#if defined(__x86_64__)
#define STUB(name, offset) __asm__(".text\n.globl " #name "\n" #name ": jmp *` + importPointers + `+" #offset "(%rip)\n")
#elif defined(__aarch64__)
#define STUB(name, offset) \
  __asm__(".text\n.globl " #name "\n" #name ": adrp x16, ` + importPointers + `+" #offset "\n" \
          " ldr x16, [x16, #:lo12:` + importPointers + `+" #offset "]\n br x16\n")
#else
#error "stubs for this processor are not known"
#endif
`)

	for i, name := range names {
		fmt.Fprintf(&w, "STUB(%s, %d);\n", name, 8*i)
	}
	return w.Bytes()
}
