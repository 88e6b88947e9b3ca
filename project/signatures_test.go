package project

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// TestWrongArguments calls a model's functions with scalars where they take tensors, and with too few and too many
// tensors: the firmware refuses the calls, goes on without a reset, and still accepts right ones. Parts of the archive
// lie in flash or, as LOAD=ram has it, in RAM.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	type loaded struct{ board, archive, load string }
	var all []loaded
	for _, board := range []string{"host", "mps2_an385"} {
		for _, archive := range []string{"matmul_00", "add.graph", "add.aot_packed"} {
			all = append(all, loaded{board, archive, "flash"}, loaded{board, archive, "RAM"})
		}
	}
	for _, c := range drawn.Of(t, "wrong arguments", all, 3) { // in turn, in the build folders of those before
		t.Run(c.board+"/"+c.archive+"/"+c.load, func(t *testing.T) {
			needBoardTools(t, c.board, nil)
			p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: c.board, Model: archiveNamed(t, c.archive)})
			_, m, err := p.Model()
			must(t, err)
			s, lib := started(t, p, c.load)
			for _, signature := range m.Signatures() {
				refuses(t, s, lib, signature)
			}
		})
	}
}

func archiveNamed(t *testing.T, name string) string {
	t.Helper()
	for _, path := range mlftest.Archives(t) {
		if mlftest.Name(path) == name {
			return path
		}
	}
	t.Fatal("no archive ", name)
	return ""
}

// started runs the project's model, and returns the module of its functions.
func started(t *testing.T, p *Project, load string) (*rpc.Session, rpc.Module) {
	t.Helper()
	ctx := t.Context()
	if load == "flash" {
		s, err := p.Run(ctx, testEnv().desk(), "")
		must(t, err)
		t.Cleanup(func() { _ = s.Close(ctx) })
		lib, err := s.SystemLib(ctx)
		must(t, err)
		return s, lib
	}
	r, err := p.Resident(ctx, filepath.Join(t.TempDir(), "r"), Spec{})
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	s, err := r.Run(ctx, testEnv().desk(), "")
	must(t, err)
	t.Cleanup(func() { _ = s.Close(ctx) })
	o, err := p.ModelOperators()
	must(t, err)
	lib, err := r.LoadRAM(ctx, s, o)
	must(t, err)
	return s, lib
}

// refuses calls a function, and has it timed, with arguments that do not match its signature. A tensor of before keeps
// its elements: the device was not reset.
func refuses(t *testing.T, s *rpc.Session, lib rpc.Module, signature mlf.Signature) {
	t.Helper()
	f, err := lib.Function(t.Context(), signature.Function)
	must(t, err)
	dtype, err := ndarray.ParseDType("int32")
	must(t, err)
	x, err := s.Empty(t.Context(), dtype, []int64{4096})
	must(t, err)
	marks := bytes.Repeat([]byte{1, 2, 3, 0}, 4096)
	must(t, x.Write(t.Context(), marks))
	tensors := make([]any, signature.Most+1)
	for i := range tensors {
		tensors[i] = x
	}
	right := tensors[:signature.Least]
	cases := map[string][]any{"none": {}, "too few": tensors[1:signature.Least], "too many": tensors}
	for name, wrong := range map[string]any{
		"int": 1, "far int": 0x18000000, "string": "tensor", "null": nil, "float": 1.5,
	} {
		for i := range right {
			with := append([]any{}, right...)
			with[i] = wrong
			cases[name] = with
			check(t, s, lib, f, name, with)
		}
		check(t, s, lib, f, name+" first", append([]any{wrong}, right...))
	}
	for name, args := range cases {
		check(t, s, lib, f, name, args)
	}
	got := make([]byte, len(marks))
	if err := x.Read(t.Context(), got); err != nil || !bytes.Equal(got, marks) {
		t.Errorf("%s: the tensor has changed: %v", signature.Function, err)
	}
	if fault, err := s.PriorFault(t.Context()); err != nil || fault != nil {
		t.Errorf("%s: a fault: %v, %v", signature.Function, fault, err)
	}
	if _, err := f.Call(t.Context(), right...); err != nil {
		t.Errorf("%s: %v", signature.Function, err)
	}
	if _, err := f.Call(t.Context(), append(append([]any{}, right...), 7, "more")...); err != nil {
		t.Errorf("%s with scalars behind its tensors: %v", signature.Function, err)
	}
}

// check calls a function, directly and by a time evaluator: an error that names it.
func check(t *testing.T, s *rpc.Session, lib rpc.Module, f rpc.Function, name string, args []any) {
	t.Helper()
	_, err := f.Call(t.Context(), args...)
	var refused *rpc.DeviceError
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, f.Name()) ||
		!strings.Contains(refused.Message, "tensors") {
		t.Errorf("%s(%s): %v", f.Name(), name, err)
	}
	_, err = lib.Time(t.Context(), f.Name(), rpc.TimeOptions{Number: 2}, args...)
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, f.Name()) {
		t.Errorf("timing %s(%s): %v", f.Name(), name, err)
	}
}
