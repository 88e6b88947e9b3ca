package project

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/toolwords"
	"github.com/boardsmith/boardsmith/mlf"
)

// TestFitByHand: in a project with edited files, which no option can change, the next step is a change by hand that
// helps.
func TestFitByHand(t *testing.T) {
	t.Parallel()
	for _, c := range drawn.Of(t, "what does not fit by hand", []struct {
		name, board, model string
		options            boards.Options
	}{
		{"arena", "host", "digits_i8.graph", boards.Options{ArenaKiB: 1}},
		{"packet buffer", "host", "digits_i8.graph", boards.Options{PacketBytes: 256}},
		{"stack", "mps2_an385", "digits_i8.aot_packed", boards.Options{StackBytes: 512}},
	}, 1) {
		t.Run(c.name, func(t *testing.T) {
			p := generated(t, filepath.Join(t.TempDir(), "p"),
				Spec{Board: c.board, Model: mlftest.Path(t, c.model), Options: c.options})
			needTools(t, p, "make", p.Board().Toolchain.CC)
			appendTo(t, filepath.Join(p.Dir(), "src", "main.c"), "// mine\n")
			_, err := p.Build(t.Context())
			var e *FitError
			if !errors.As(err, &e) || e.What != c.name {
				t.Fatalf("%v", err)
			}
			if next := failure.Next(err); strings.Contains(next, "OPTIONS") || len(e.Lines) == 0 {
				t.Fatalf("an option would replace the edited files: %s", next)
			}
			for _, line := range e.Lines {
				if !strings.Contains(failure.Next(err), line) {
					t.Errorf("the next step lacks %q: %s", line, failure.Next(err))
				}
				name, text, _ := strings.Cut(line, ": ")
				define := strings.Join(strings.Fields(text)[:2], " ")
				file := filepath.Join(p.Dir(), name)
				data, err := os.ReadFile(file)
				must(t, err)
				re := regexp.MustCompile(regexp.QuoteMeta(define) + " .*")
				if !re.Match(data) {
					t.Errorf("%s has no %q", name, define)
				}
				must(t, os.WriteFile(file, re.ReplaceAll(data, []byte(text)), 0o644))
			}
			built(t, p)
		})
	}
}

// TestOptionTooLarge: options that exceed a memory are a *FitError about them, not about the board file, and with the
// option that it names they fit.
func TestOptionTooLarge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options boards.Options
		want    string
	}{
		{boards.Options{ArenaKiB: 1 << 19}, "arena_kib="},
		{boards.Options{StackBytes: 1 << 24}, "stack_bytes="},
		{boards.Options{UploadKiB: 2048}, "arena_kib=1984"},
		{boards.Options{UploadKiB: 4096}, "upload_kib=1024"},
	} {
		spec := Spec{Board: "mps2_an385", Model: mlftest.Tiny(t, nil), Options: c.options}
		_, err := generate(t.Context(), filepath.Join(t.TempDir(), "p"), spec, testEnv())
		var e *FitError
		if !errors.As(err, &e) || failure.Of(err) != failure.DoesNotFit || e.Region != "ram" || e.Over <= 0 ||
			e.Need-e.Have != e.Over || !strings.HasPrefix(e.Option, c.want) || strings.Contains(err.Error(), ".json") {
			t.Errorf("%+v: %v, %+v", c.options, err, e)
			continue
		}
		helped, err := boards.ParseOptions([]string{e.Option})
		must(t, err)
		spec.Options.ArenaKiB = cmp.Or(helped.ArenaKiB, spec.Options.ArenaKiB)
		spec.Options.StackBytes = cmp.Or(helped.StackBytes, spec.Options.StackBytes)
		spec.Options.UploadKiB = cmp.Or(helped.UploadKiB, spec.Options.UploadKiB)
		generated(t, filepath.Join(t.TempDir(), "p"), spec)
	}
}

// TestSmallerOperatorsHelp: smaller operators are suggested only if their code is larger than what is missing.
func TestSmallerOperatorsHelp(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no cc")
	}
	p := &Project{dir: t.TempDir()}
	p.state.Board.Board = boards.Board{
		Name: "b", Place: boards.Place{Code: "flash", Data: "ram"}, OperatorOpt: "O2", RuntimeOpt: "Os", LogLevel: "info",
		Memory: []boards.Region{{Name: "flash", Size: 1 << 16, Exec: true, Nonvolatile: true}, {Name: "ram", Size: 1 << 16}},
	}
	p.state.Template.ELF, p.state.Template.Options = "build/a.elf", []string{"operator_opt"}
	writeIn(t, p.dir, "model/codegen/host/src/lib1.c",
		"const char weights[100000] = {1};\nint f(int a) { return a * 3 + 1; }\n")
	must(t, os.MkdirAll(filepath.Join(p.dir, "build", "model"), 0o755))
	cc := exec.Command("cc", "-c", "-o", filepath.Join("build", "model", "lib1.o"),
		"model/codegen/host/src/lib1.c")
	cc.Dir = p.dir
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := &mlf.Model{Sources: []mlf.File{{Name: "codegen/host/src/lib1.c"}}}
	for said, want := range map[string]string{
		"ld: region `flash' overflowed by 4 bytes\n":     "operator_opt=Os",
		"ld: region `flash' overflowed by 90000 bytes\n": "",
		"ld: region `ram' overflowed by 4 bytes\n":       "",
	} {
		err := p.linkFits(&ToolError{Class: toolwords.Classify(said), Tail: []byte(said), Err: errors.New("exit status 2")},
			p.dir, &mlf.Archive{}, m)
		var e *FitError
		if !errors.As(err, &e) || e.Option != want {
			t.Errorf("%s: %+v, want %q", said, e, want)
		}
	}
	p.state.Template.Options = nil
	e := &FitError{Region: "flash", Over: 4}
	if p.makeRoom(e, p.dir, &mlf.Archive{}, m); e.Option != "" {
		t.Errorf("a template without that option: %q", e.Option)
	}
}
