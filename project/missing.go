// This file explains a linker's error about a symbol that the C library needs and firmware does not define.

package project

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/toolwords"
)

// lacking are what firmware does not have, with the functions of the C library that need it.
var lacking = []struct{ what, next, functions string }{
	{"no heap", "use TVMBackendAllocWorkspace, or a static array", "malloc calloc realloc free strdup aligned_alloc"},
	{
		"no standard streams", "use TVMLogf, whose lines the host prints, or remove the call",
		"printf fprintf vprintf vfprintf puts fputs putchar fputc putc fwrite fflush perror scanf getchar fopen fclose",
	},
	{"nothing to return to", "return an error from the operator, or call TVMPlatformAbort", "exit abort atexit"},
}

// missingSystem replaces a linker's error in a function of the C library: it names the source that causes the function
// to be linked, as the linkers' maps list it, and what the firmware lacks.
func (p *Project) missingSystem(err error) error {
	var tool *ToolError
	if !errors.As(err, &tool) {
		return err
	}
	function, symbol := toolwords.MissingInFunction(string(tool.Tail))
	if function == "" {
		return err
	}
	folder := os.DirFS(filepath.Join(p.dir, filepath.FromSlash(p.state.Template.BuildFolder())))
	maps, _ := fs.Glob(folder, "*.map") // the pattern is valid
	for _, name := range maps {
		object, called := caller(folder, name, function)
		if object == "" {
			continue
		}
		what, next := "no "+symbol, "remove the call"
		for _, l := range lacking {
			if slices.Contains(strings.Fields(l.functions), called) {
				what, next = l.what, l.next
			}
		}
		return failure.New(failure.Link, next, "%s calls %s, but firmware has %s: %w", p.sourceOf(object), called, what, err)
	}
	return err
}

// caller is fit.Caller for a map; "" if it cannot be read, because the linker's own error is what matters.
func caller(folder fs.FS, name, function string) (object, called string) {
	f, err := folder.Open(name)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	all, err := fit.Inclusions(f)
	if err != nil {
		return "", ""
	}
	return fit.Caller(all, function)
}

// sourceOf returns the only source of an object's name, else the object.
func (p *Project) sourceOf(object string) string {
	stem := strings.TrimSuffix(path.Base(filepath.ToSlash(object)), ".o")
	var sources []string
	for name := range p.state.Files {
		if isSource(name) && strings.TrimSuffix(path.Base(name), path.Ext(name)) == stem {
			sources = append(sources, name)
		}
	}
	if len(sources) != 1 {
		return object
	}
	return sources[0]
}
