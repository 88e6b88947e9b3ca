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
	"github.com/boardsmith/boardsmith/rpc"
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
	const c = "#ifndef WRAPPED\n#define WRAPPED 2\n#endif\nint f(void) { return WRAPPED; }"
	source := OperatorFile{Name: "f.c", Data: []byte(c)}
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil), Options: ramOptions("host")}
	window := rpc.Window{Base: 1 << 30, Bytes: 1 << 20}
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
		program, err := l.Link(t.Context(), Operators{Files: []OperatorFile{source}, Entries: []string{"f"}}, window)
		must(t, err)
		compiled[n] = program.Bytes
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
	cc, err := exec.LookPath("cc")
	must(t, err)
	removing := t.TempDir()
	const script = "#!/bin/sh\ncase \"$*\" in *sub/f.c*) rm -r \"$PWD\";; esac\nexec %s \"$@\"\n"
	must(t, os.WriteFile(filepath.Join(removing, "cc"), fmt.Appendf(nil, script, command.Quote(cc)), 0o755))
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil), Options: ramOptions("host")}
	o := Operators{
		Files:   []OperatorFile{{Name: "sub/f.c", Data: []byte("#include \"missing.h\"\nint f(void) { return 0; }")}},
		Entries: []string{"f"},
	}
	for _, class := range []failure.Class{failure.Compile, failure.Host} {
		e := testEnv()
		if class == failure.Host {
			e.Programs = []string{removing}
		}
		l, err := generated(t, t.TempDir()+"/p", spec, e).OperatorLinker(t.Context())
		must(t, err)
		_, err = l.Link(t.Context(), o, rpc.Window{Base: 1 << 30, Bytes: 1 << 20})
		if failure.Of(err) != class {
			t.Errorf("class %v, want %v: %v", failure.Of(err), class, err)
		}
	}
}
