package project

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestWrappedCompiler: a script that calls the compiler with one more flag prints the compiler's version and target.
// Nothing that it compiled is taken from the cache for the compiler itself, and times of the two are not comparable.
func TestWrappedCompiler(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "host", nil)
	cc, err := exec.LookPath("cc")
	must(t, err)
	wrapper := filepath.Join(t.TempDir(), "cc")
	must(t, os.WriteFile(wrapper, fmt.Appendf(nil, "#!/bin/sh\nexec %s \"$@\" -DWRAPPED\n", command.Quote(cc)), 0o755))
	source := OperatorFile{"f.c", []byte("#ifndef WRAPPED\n#define WRAPPED 2\n#endif\nint f(void) { return WRAPPED; }")}
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil), Options: ramOptions("host")}
	var compiled [3][]byte
	var compilers [3]string
	for n, programs := range [3][]string{{filepath.Dir(wrapper)}, nil, {filepath.Dir(wrapper)}} {
		b := testEnv().builder()
		b.Programs = programs
		p, err := b.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), spec)
		must(t, err)
		defer p.Close()
		built(t, p)
		compilers[n], err = p.MadeWith()
		must(t, err)
		l, err := p.OperatorLinker(t.Context())
		must(t, err)
		objects, err := l.objects(t.Context(), t.TempDir(), Operators{Files: []OperatorFile{source}})
		must(t, err)
		compiled[n] = objects[0].Data
	}
	if bytes.Equal(compiled[0], compiled[1]) || !bytes.Equal(compiled[0], compiled[2]) {
		t.Error("the cache takes the wrapper's object for the compiler's, or the two wrappers' differ")
	}
	if compilers[0] == compilers[1] || compilers[0] != compilers[2] {
		t.Errorf("compilers %q", compilers)
	}
}

// TestVanishedFiles: a compiler that finds no source because the temporary folder was removed is not the operator's
// fault.
func TestVanishedFiles(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "host", nil)
	p := generated(t, t.TempDir()+"/p", Spec{Board: "host", Model: mlftest.Tiny(t, nil), Options: ramOptions("host")})
	l, err := p.OperatorLinker(t.Context())
	must(t, err)
	source := OperatorFile{"sub/f.c", []byte("#include \"missing.h\"\nint f(void) { return 0; }")}
	cc := l.compile[0]
	for _, class := range []failure.Class{failure.Compile, failure.Host} {
		dir := filepath.Join(t.TempDir(), "temporary")
		if class == failure.Host {
			l.compile[0] = filepath.Join(t.TempDir(), "cc")
			script := fmt.Appendf(nil, "#!/bin/sh\nrm -r %s\nexec %s \"$@\"\n", command.Quote(dir), command.Quote(cc))
			must(t, os.WriteFile(l.compile[0], script, 0o755))
		}
		_, err := l.objects(t.Context(), dir, Operators{Files: []OperatorFile{source}})
		if failure.Of(err) != class {
			t.Errorf("class %v, want %v: %v", failure.Of(err), class, err)
		}
	}
}
