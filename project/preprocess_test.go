package project

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestPreprocess asks for a source with its macros, and for text that follows it; neither builds anything.
func TestPreprocess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	p := generated(t, dir, Spec{Board: "host", Model: mlftest.Tiny(t, nil)})
	text, err := p.Preprocess(t.Context(), "port/process.c", "", "-dD")
	must(t, err)
	for _, want := range []string{"# 1 \"src/process.c\"", "#define BOARDSMITH_CORE_HZ ", "process_ticks"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %d bytes", want, len(text))
		}
	}
	text, err = p.Preprocess(t.Context(), "port/process.c", "here _GNU_SOURCE there\n")
	must(t, err)
	if text = strings.TrimSpace(text); text != "here 1 there" && text != "here there" {
		t.Errorf("the text that follows became %q", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "build")); err == nil {
		t.Error("it was built")
	}
}

func TestPreprocessErrors(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	p := generated(t, dir, Spec{Board: "host", Model: mlftest.Tiny(t, nil)})
	_, err := p.Preprocess(t.Context(), "port/absent.c", "")
	if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "port/absent.c is not in the project") {
		t.Errorf("%v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "src", "process.c"), []byte("#include \"absent.h\"\n"), 0o644))
	_, err = p.Preprocess(t.Context(), "port/process.c", "")
	if tool := (*ToolError)(nil); !errors.As(err, &tool) || failure.Of(err) != failure.Compile ||
		!strings.Contains(err.Error(), "absent.h") || !strings.Contains(failure.Next(err), dir) {
		t.Errorf("%v", err)
	}
	bomb := "#define A0 xxxxxxxxxxxxxxxx xxxxxxxxxxxxxxxx\n"
	for i := range 20 {
		bomb += fmt.Sprintf("#define A%d A%d A%d\n", i+1, i, i)
	}
	must(t, os.WriteFile(filepath.Join(dir, "src", "process.c"), []byte(bomb+"A20\n"), 0o644))
	if _, err = p.Preprocess(t.Context(), "port/process.c", ""); !errors.Is(err, errOutput) {
		t.Errorf("35 MB of output: %v", err)
	}
	must(t, p.Close())
	if _, err := p.Preprocess(t.Context(), "port/process.c", ""); err == nil {
		t.Error("a closed project preprocesses")
	}
}
