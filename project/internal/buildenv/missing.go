// This file explains a linker's error about a symbol that the C library needs and firmware does not define.

package buildenv

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/internal/fit"
)

// lacking are what firmware does not have, with the functions of the C library that need it.
var lacking = []struct{ reason, next, functions string }{
	{
		"no heap",
		"use an arena, which the description of a model in C has, in an operator of TVM TVMBackendAllocWorkspace, or a " +
			"static array", "malloc calloc realloc free strdup aligned_alloc",
	},
	{
		"no standard streams", "use TVMLogf, whose lines the host prints, or remove the call",
		"printf fprintf vprintf vfprintf puts fputs putchar fputc putc fwrite fflush perror scanf getchar fopen fclose",
	},
	{
		"no heap, which the C library's formatted text needs",
		"use TVMLogf, whose lines the host prints, or format the number by code of your own",
		"snprintf sprintf vsnprintf vsprintf asprintf sscanf",
	},
	{
		"no heap, in which the C library keeps the generator's state",
		"keep a state of your own, such as state = state * 1664525U + 1013904223U", "rand srand random srandom",
	},
	{"nothing to return to", "return an error from the operator, or call TVMPlatformAbort", "exit atexit"},
}

// noThreads matches what a compiler's code calls to find a variable of a thread.
var noThreads = regexp.MustCompile(`^(__aeabi_read_tp|__tls_get_addr|__emutls_get_address|__emutls_v\..*)$`)

// ExplainSymbol replaces a linker's error about what firmware lacks. If a function of the C library needs it, the
// error names the source that causes the function to be linked, as the linkers' maps in a folder list it. source
// returns the source of an object.
func ExplainSymbol(err error, folder fs.FS, source func(object string) string) error {
	var tool *ToolError
	if !errors.As(err, &tool) {
		return err
	}

	symbol, function := diagnostics.MissingSymbol(string(tool.Tail))
	if noThreads.MatchString(symbol) {
		return failure.New(failure.Link, "make it a static variable without _Thread_local",
			"a variable is of a thread, but firmware has no threads: %w", err)
	}

	if function == "" {
		return err
	}

	// Only a map names the object for which the library's function was linked.
	maps, _ := fs.Glob(folder, "*.map") // the pattern is valid
	for _, name := range maps {
		object, called := caller(folder, name, function)
		if object == "" {
			continue
		}

		reason, next := "no "+symbol, "remove the call"
		for _, l := range lacking {
			if slices.Contains(strings.Fields(l.functions), called) {
				reason, next = l.reason, l.next
			}
		}

		return failure.New(failure.Link, next, "%s calls %s, but firmware has %s: %w", source(object), called, reason, err)
	}
	return err
}

// caller is fit.Caller for a map; "" if it cannot be opened, because the linker's own error is what matters.
func caller(folder fs.FS, name, function string) (object, called string) {
	f, err := folder.Open(name)
	if err != nil {
		return "", ""
	}
	defer f.Close()

	all, _ := fit.Inclusions(f) // of a damaged map, those before the damage
	return fit.Caller(all, function)
}
