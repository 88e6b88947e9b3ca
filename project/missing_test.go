package project

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// TestMissingSystem: an operator that calls what firmware does not have is an error that names the source, the function
// and what to use instead, in RPC and standalone firmware and in code for RAM, in a folder whose name has a pattern's
// characters.
func TestMissingSystem(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "mps2_an385", nil)
	for _, app := range []string{boards.RPC, boards.Standalone} { // a build folder of which all use the runtime
		built(t, projectOf(t, "mps2_an385", mlftest.Tiny(t, nil), app))
	}
	for name, c := range map[string]struct{ app, include, statement, want, next string }{
		"heap": {
			boards.RPC, "<stdlib.h>", "out[0] = (int32_t)(intptr_t)malloc(8);",
			"calls malloc, but firmware has no heap", "Workspace",
		},
		"streams": {
			boards.Standalone, "<stdio.h>", `printf("%d\n", in[0]);`, "calls printf, but firmware has no standard", "TVMLogf",
		},
		"exit": {
			boards.RPC, "<stdlib.h>", "exit((int)in[0]);", "calls exit, but firmware has nothing to return", "TVMPlatformAbort",
		},
		"other": {
			boards.RPC, "<math.h>", "extern long time(long*); out[0] = (int32_t)time(0);",
			"calls time, but firmware has no _gettimeofday", "remove the call",
		},
		"text": {
			boards.Standalone, "<stdio.h>", `char s[9]; out[0] = snprintf(s, 9, "%f", (double)in[0]);`,
			"calls snprintf, but firmware has no heap", "TVMLogf",
		},
		"random": {
			boards.Standalone, "<stdlib.h>", "out[0] = rand();", "calls rand, but firmware has no heap", "a state of your own",
		},
		"thread": {
			boards.Standalone, "<math.h>", "static _Thread_local int32_t v; out[0] = v++;", "firmware has no threads",
			"_Thread_local",
		},
		"undefined": {boards.RPC, "<math.h>", "extern int nowhere(void); out[0] = nowhere();", "nowhere", ""},
	} {
		t.Run(name, func(t *testing.T) {
			source := strings.NewReplacer("<math.h>", c.include, "return 0;", c.statement+" return 0;").
				Replace(mlftest.TinyOperator)
			p := generated(t, filepath.Join(t.TempDir(), "p [a-]*"), Spec{
				Board: "mps2_an385", Model: mlftest.Tiny(t, map[string]string{"codegen/host/src/lib1.c": source}),
				Options: boards.Options{App: c.app},
			})
			calls := strings.HasPrefix(c.want, "calls ")
			check := func(where string, err error) {
				if failure.Of(err) != failure.Link || !strings.Contains(err.Error(), c.want) ||
					!strings.Contains(err.Error(), "lib1.c") || strings.Contains(err.Error(), "lib1.c calls") != calls ||
					!strings.Contains(failure.Next(err), c.next) || strings.Contains(failure.Next(err), "boardsmith-operators") {
					t.Errorf("%s: %v\nnext: %s", where, err, failure.Next(err))
				}
			}
			_, err := p.Build(t.Context())
			check("image", err)
			l, err := p.OperatorLinker(t.Context())
			must(t, err)
			o, err := p.ModelOperators()
			must(t, err)
			_, err = l.Link(t.Context(), o, rpc.Window{Base: hypothetical, Bytes: 1 << 20})
			check("RAM", err)
		})
	}
}

// TestAssert: a failed assert of an operator, abort, and a division by zero with the flags of docs/faults.md are faults
// with their place, in the image of a chip, as standalone firmware, in a process, and in RAM. An assert has its
// condition in each.
func TestAssert(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "mps2_an385", nil)
	statements := map[string]string{
		"assert": "assert(in[0] > 1000);", "abort": "abort();",
		"division": "static volatile int32_t zero; out[0] = in[0] / zero;",
	}
	for _, name := range drawn.Of(t, "checks of operators", []string{"assert", "abort", "division"}, 1) {
		options := boards.Options{}
		reason := fault.ReasonCheck
		if name == "division" {
			options.OperatorFlags = "-fsanitize=integer-divide-by-zero,-fsanitize-undefined-trap-on-error"
			reason = fault.ReasonHardware
		}
		source := strings.NewReplacer(
			"<math.h>", "<assert.h>\n#include <stdlib.h>", "return 0;", statements[name]+" return 0;",
		).Replace(mlftest.TinyOperator)
		model := mlftest.Tiny(t, map[string]string{"codegen/host/src/lib1.c": source})
		for where, call := range map[string]func(*testing.T) error{
			"image":   func(t *testing.T) error { return callTwice(t, projectWith(t, "mps2_an385", model, options)) },
			"process": func(t *testing.T) error { return callTwice(t, projectWith(t, "host", model, options)) },
			"RAM":     func(t *testing.T) error { return callTwiceInRAM(t, projectWith(t, "mps2_an385", model, options)) },
			"RAM of a process": func(t *testing.T) error {
				return callTwiceInRAM(t, projectWith(t, "host", model, options))
			},
			"standalone": func(t *testing.T) error {
				o := options
				o.App = boards.Standalone
				s, err := projectWith(t, "mps2_an385", model, o).RunStandalone(t.Context(), testEnv().desk(), "")
				must(t, err)
				defer s.Close()
				_, err = s.Run(t.Context(), 1)
				return err
			},
		} {
			t.Run(name+" "+where, func(t *testing.T) { // in turn, in the build folders of those before
				err := call(t)
				var faultErr *fault.Error
				if !errors.As(err, &faultErr) {
					t.Fatalf("%v", err)
				}
				if logs := strings.Contains(err.Error(), "lib1.c:14: Check failed: in[0] > 1000"); logs != (name == "assert") {
					t.Errorf("the condition in the error: %v, %v", logs, err)
				}
				if where == "image" && (faultErr.Record.Reason != reason || faultErr.Operator != "twice" ||
					!slices.ContainsFunc(faultErr.Frames, func(f fault.Frame) bool { return strings.HasSuffix(f.File, "lib1.c") })) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// projectOf generates a project in a new folder.
func projectOf(t *testing.T, board, model, app string) *Project {
	t.Helper()
	return projectWith(t, board, model, boards.Options{App: app})
}

func projectWith(t *testing.T, board, model string, o boards.Options) *Project {
	t.Helper()
	return generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: board, Model: model, Options: o})
}

// callTwice runs a project of mlftest.Tiny and returns the error of its operator.
func callTwice(t *testing.T, p *Project) error {
	t.Helper()
	s, err := p.Run(t.Context(), testEnv().desk(), "")
	must(t, err)
	defer s.Close(context.Background())
	lib, err := s.SystemLib(t.Context())
	must(t, err)
	return callTwiceOf(t, s, lib)
}

// callTwiceInRAM does the same with the model in RAM.
func callTwiceInRAM(t *testing.T, p *Project) error {
	t.Helper()
	r, err := p.Resident(t.Context(), filepath.Join(t.TempDir(), "r"), Spec{})
	must(t, err)
	defer r.Close()
	s, err := r.Run(t.Context(), testEnv().desk(), "")
	must(t, err)
	defer s.Close(context.Background())
	o, err := p.ModelOperators()
	must(t, err)
	lib, err := r.LoadRAM(t.Context(), s, o)
	must(t, err)
	return callTwiceOf(t, s, lib)
}

func callTwiceOf(t *testing.T, s *rpc.Session, lib rpc.Module) error {
	t.Helper()
	twice, err := lib.Function(t.Context(), "twice")
	must(t, err)
	dtype, err := ndarray.ParseDType("int32")
	must(t, err)
	x, err := s.Empty(t.Context(), dtype, []int64{4})
	must(t, err)
	_, err = twice.Call(t.Context(), x, x)
	return err
}
