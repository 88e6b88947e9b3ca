package project

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/operatormemory"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// remade is the project's firmware with another number in its configuration, of which only the given source takes note;
// an arena's or a stack's. It goes around Build, which refuses what does not fit.
func remade(t *testing.T, p *Project, image *image.Image, macro string, n int64, source string) *image.Image {
	t.Helper()
	files := []string{"crt_config/crt_config.h", "crt_config/memory.h"}
	if len(p.Board().Memory) == 0 {
		files = files[:1]
	}
	for _, name := range files {
		text := regexp.MustCompile(macro+` \d+`).ReplaceAllString(readFile(t, p.at(name)), fmt.Sprint(macro, " ", n))
		writeFile(t, p.at(name), text)
	}
	soon := time.Now().Add(time.Second)
	must(t, os.Chtimes(p.at(source), soon, soon))
	output(t, exec.Command("make", "-C", p.dir, "-o", "crt_config/crt_config.h", "-o", "crt_config/memory.h"))
	other := *image
	other.Digest = cachekey.Digest([]byte(readFile(t, image.Path)))
	var err error
	other.BuildID, _, err = firmware.BuildID(openELF(t, image), image.Path)
	must(t, err)
	return &other
}

// runOnce runs and times the project's model on a device of its board, and returns how much of the arena it took there.
func runOnce(t *testing.T, p *Project, image *image.Image) (arena int64, err error) {
	t.Helper()
	ctx := t.Context()
	s, end, err := openImage(t, p.Board(), image)
	if err != nil {
		return 0, err
	}
	defer end()
	e, err := executor.Open(ctx, s, modelOf(t, p))
	if err != nil {
		return 0, err
	}
	for _, in := range e.Inputs() {
		a, err := ndarray.New(in.DType, in.Shape...)
		must(t, err)
		if err := e.SetInput(ctx, in.Name, a); err != nil {
			return 0, err
		}
	}
	if err := e.Run(ctx); err != nil {
		return 0, err
	}
	_, err = e.Time(ctx, rpc.TimeOptions{Number: 1})
	if err != nil {
		return 0, err
	}
	platform, err := s.Platform(ctx)
	must(t, err)
	return int64(*platform.ArenaUsed), nil
}

// TestArenaNeed runs models with the computed arena, and with one byte less, which must be too little: the computed
// figure is what the device uses.
func TestArenaNeed(t *testing.T) {
	t.Parallel()
	for _, c := range drawn.Of(t, "arenas", []struct {
		board, model string
		packet       int
	}{
		{"host", "add.aot_packed", 0},
		{"host", "digits_i8.aot_c", 0},
		{"host", "digits_i8.graph", 512},
		{"host", "sine.graph_linked", 256},
		{"host", "conv_f32.graph", 0},
		{"host", "conv_pools.aot_c_pools", 0},
		{"host", "twoin.aot_packed", 256},
		{"host", "dscnn_i8.graph_linked", 512},
		{"host", "matmul_00", 256},
		{"host", "autoenc.graph", 0},
		{"mps2_an385", "digits_i8.aot_packed", 0},
		{"mps2_an385", "conv_f32.graph", 256},
		{"mps2_an385", "conv_pools.aot_c_pools", 0},
		{"qemu_riscv32", "digits_i8.graph", 384},
		{"qemu_riscv64", "matmul_00", 256},
	}, 1) {
		t.Run(c.board+" "+c.model, func(t *testing.T) {
			o := boards.Options{PacketBytes: c.packet}
			testArenaNeed(t, generated(t, Spec{Board: c.board, Model: mlftest.Path(t, c.model), Options: o}))
		})
	}
}

// TestArenaNeedOfArchives runs every archive of every version of TVM, on the computer and on the emulated boards that
// it is for: its device takes what is computed of the arena. Only an object that allocates is a doubt.
func TestArenaNeedOfArchives(t *testing.T) {
	drawn.OnlyInFull(t, "TestArenaNeed, TestWorkspaceUnsure and the tests of package operatormemory")
	t.Parallel()
	type pair struct {
		board *boards.Board
		path  string
	}
	var all []pair
	for _, path := range append(mlftest.Archives(t), mlftest.OtherVersions(t)...) {
		a, err := mlf.Open(path)
		must(t, err)
		fits := 0
		ofArm := slices.ContainsFunc(a.Models[0].Sources, func(f mlf.File) bool {
			return bytes.Contains(f.Data, []byte("<arm_acle.h>"))
		})
		for _, name := range []string{"host", "mps2_an385", "mps2_an386", "qemu_riscv32"} {
			b := findBoard(t, name)
			if fit.CheckModel(b, a, a.Models[0]) == nil && !(ofArm && name == "host") {
				all = append(all, pair{b, path})
				fits++
			}
		}
		if fits == 0 && mlftest.Check(a) == nil {
			t.Errorf("%s is tried on no board", path)
		}
	}
	for _, c := range drawn.Of(t, "arenas of archives", all, 1) {
		t.Run(c.board.Name+" "+filepath.Base(filepath.Dir(c.path))+" "+mlftest.Name(c.path), func(t *testing.T) {
			p := generated(t, Spec{Board: c.board.Name, Model: c.path})
			_, need := testArenaUsed(t, p)
			a, m, err := p.Model()
			must(t, err)
			objects := slices.ContainsFunc(m.Objects, func(f mlf.File) bool {
				o, err := f.Info()
				must(t, err)
				return slices.Contains(o.Undefined, "TVMBackendAllocWorkspace")
			})
			if w := operatormemory.Of(a, m); len(w.Unknown) > 0 || len(w.Leaks) > 0 {
				t.Errorf("its code was not understood: %v", w)
			}
			if objects != (len(need.Unsure()) > 0) {
				t.Errorf("objects allocate: %v; doubts %q", objects, need.Unsure())
			}
		})
	}
}

// handwritten is an archive of one operator with these lines, and this text before it.
func handwritten(t *testing.T, before, lines string) string {
	t.Helper()
	const loop = "  for (int32_t i = 0;"
	return mlftest.Edited(t, loop, lines+"\n"+loop, "TVM_DLL", before+"\nTVM_DLL")
}

// TestArenaNeedOfHandwritten does the same for C that a person wrote, also for a leak: the operator is called twice.
func TestArenaNeedOfHandwritten(t *testing.T) {
	drawn.OnlyInFull(t, "TestArenaNeed and the tests of package operatormemory")
	t.Parallel()
	const free = "  if (TVMBackendFreeWorkspace(1, 0, t) != 0) return -1;"
	for _, c := range drawn.Of(t, "handwritten", []struct{ name, before, lines string }{
		{"suffix", "", "  float* t = TVMBackendAllocWorkspace(1, 0, (uint64_t)48384ULL, 2, 32);\n" +
			"  if (t == NULL) return -1;\n" + free},
		{
			"helper", "static int32_t helper(void) {\n  void* t = TVMBackendAllocWorkspace(1, 0, " +
				"12288, 2, 32);\n  if (!t) { return -1; }\n" + free + "\n  return 0;\n}",
			"  for (int k = 0; k < 3; ++k) if (helper() != 0) return -1;",
		},
		{
			"leak", "", "  void* t = TVMBackendAllocWorkspace(1, 0, 2048, 2, 32);\n" +
				"  if (t == NULL) {\n    return -1;\n  }",
		},
	}, 1) {
		t.Run(c.name, func(t *testing.T) {
			p := generated(t, Spec{Model: handwritten(t, c.before, c.lines)})
			image, need := testArenaNeed(t, p)
			u, err := p.Usage(image)
			must(t, err)
			if u.Arena.Need != need.Bytes || (len(u.Arena.Unsure) > 0) != (c.name == "leak") {
				t.Errorf("usage %+v", u.Arena)
			}
		})
	}
}

// TestArenaNeedUnknown has what is not understood be reported: by Usage, and by the error of an arena that is too small
// in any case.
func TestArenaNeedUnknown(t *testing.T) {
	t.Parallel()
	const lines = "  uint64_t n = 4096;\n  void* t = TVMBackendAllocWorkspace(1, 0, n, 2, 32);\n" +
		"  if (t == NULL) return -1;\n  if (TVMBackendFreeWorkspace(1, 0, t) != 0) return -1;"
	const want = "function twice in codegen/host/src/lib1.c allocates or frees by other code than TVM's: " +
		"void* t = TVMBackendAllocWorkspace(1, 0, n, 2, 32);"
	spec := Spec{Board: "host", Model: handwritten(t, "", lines)}
	p := generated(t, spec)
	u := usageOf(t, p)
	if !slices.Equal(u.Arena.Unsure, []string{want}) {
		t.Errorf("usage %+v", u.Arena)
	}
	spec.Options.ArenaKiB = 1
	must(t, p.Generate(t.Context(), spec))
	wantError(t, buildError(t, p), failure.DoesNotFit, want)
	spec.Options = boards.Options{App: boards.Standalone}
	wantError(t, p.Generate(t.Context(), spec), failure.Config, want)
}

// TestWorkspaceUnsure has standalone firmware state that the workspace of an object is not certain.
func TestWorkspaceUnsure(t *testing.T) {
	t.Parallel()
	u := usageOf(t, generated(t, Spec{
		Board: "mps2_an385", Model: mlftest.Path(t, "digits_i8.graph_llvm_thumbv7m"), Options: alone,
	}))
	if len(u.Arena.Unsure) != 1 || !strings.Contains(u.Arena.Unsure[0], "digits_i8_lib1.o is not read") {
		t.Errorf("unsure: %q", u.Arena.Unsure)
	}
}

func testArenaNeed(t *testing.T, p *Project) (*image.Image, fit.ArenaNeed) {
	t.Helper()
	const arena = "BOARDSMITH_ARENA_BYTES"
	image, need := testArenaUsed(t, p)
	used, err := runOnce(t, p, remade(t, p, image, arena, need.Bytes, "src/platform.c"))
	if err != nil || used != need.Bytes {
		t.Errorf("with %d bytes it takes %d: %v", need.Bytes, used, err)
	}
	if _, err := runOnce(t, p, remade(t, p, image, arena, need.Bytes-1, "src/platform.c")); err == nil {
		t.Errorf("it runs with less than %d bytes, too", need.Bytes)
	}
	return image, need
}

// testArenaUsed runs the project's model, and compares what the device took of its arena with what is computed.
func testArenaUsed(t *testing.T, p *Project) (*image.Image, fit.ArenaNeed) {
	t.Helper()
	image := built(t, p)
	a, m, err := p.Model()
	must(t, err)
	need, err := fit.NeedOf(p.Board(), a, m, int(p.packetBytes()))
	must(t, err)
	used, err := runOnce(t, p, image)
	if err != nil || used != need.Of(p.arenaBytes()) {
		t.Errorf("%d bytes of the arena were used, computed %d: %v", used, need.Of(p.arenaBytes()), err)
	}
	return image, need
}

// TestDoesNotFit has Build refuse what does not fit, each kind, and name the option that helps: with it, it fits.
func TestDoesNotFit(t *testing.T) {
	t.Parallel()
	for _, c := range drawn.Of(t, "refusals", []struct {
		name, board, model string
		options            boards.Options
		want               FitError
	}{
		{"arena", "host", "digits_i8.graph", boards.Options{ArenaKiB: 1}, FitError{Part: "arena", Option: "arena_kib=7"}},
		{
			"arena of an operator", "host", "matmul_00",
			boards.Options{ArenaKiB: 2, PacketBytes: 512},
			FitError{Part: "arena", Option: "arena_kib=4"},
		},
		{
			"arena of a board", "mps2_an385", "conv_f32.graph",
			boards.Options{ArenaKiB: 4, PacketBytes: 1024},
			FitError{Part: "arena", Region: "ram", Option: "arena_kib=24"},
		},
		{
			"packet buffer", "host", "digits_i8.graph",
			boards.Options{PacketBytes: 256},
			FitError{Part: "packet buffer", Option: "packet_bytes=384"},
		},
		{
			"packet buffer and arena", "host", "digits_i8.graph",
			boards.Options{PacketBytes: 256, ArenaKiB: 1},
			FitError{Part: "arena", Option: "arena_kib="},
		},
		{
			"stack", "mps2_an385", "digits_i8.aot_packed",
			boards.Options{StackBytes: 512},
			FitError{Part: "stack", Region: "ram", Option: "stack_bytes="},
		},
		{
			"stack", "qemu_riscv32", "digits_i8.graph",
			boards.Options{StackBytes: 512},
			FitError{Part: "stack", Region: "ram", Option: "stack_bytes="},
		},
		{
			"memory", "mps2_an385", "digits_i8.aot_packed",
			boards.Options{ArenaKiB: 4090, StackBytes: 4096},
			FitError{Part: "memory", Region: "ram", Option: "arena_kib="},
		},
	}, 1) {
		t.Run(c.name+" "+c.board, func(t *testing.T) {
			spec := Spec{Board: c.board, Model: mlftest.Path(t, c.model), Options: c.options}
			p := generated(t, spec)
			err := buildError(t, p)
			e := misfitOf(t, err)
			if e.Part != c.want.Part || e.Region != c.want.Region || !strings.HasPrefix(e.Option, c.want.Option) ||
				e.Over <= 0 || e.Part != "memory" && e.Need-e.Have != e.Over {
				t.Errorf("%+v", e)
			}
			wantError(t, err, failure.DoesNotFit, e.Option, strconv.FormatInt(e.Over, 10))
			help(t, &spec.Options, e)
			must(t, p.Generate(t.Context(), spec))
			built(t, p)
		})
	}
}

// help sets the options that an error names.
func help(t *testing.T, o *boards.Options, e *FitError) {
	t.Helper()
	helped, err := boards.ParseOptions(strings.Fields(e.Option))
	must(t, err)
	o.ArenaKiB = cmp.Or(helped.ArenaKiB, o.ArenaKiB)
	o.PacketBytes = cmp.Or(helped.PacketBytes, o.PacketBytes)
	o.StackBytes = cmp.Or(helped.StackBytes, o.StackBytes)
	o.UploadKiB = cmp.Or(helped.UploadKiB, o.UploadKiB)
}

// TestNothingIsBuiltForNothing has what does not fit by the archive's own figures refused before a compiler runs.
func TestNothingIsBuiltForNothing(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{Model: mlftest.Path(t, "digits_i8.graph"), Options: boards.Options{ArenaKiB: 1}})
	wantError(t, buildError(t, p), failure.DoesNotFit)
	absent(t, p.at("build"))
}

// TestLinkFits parses the messages of linkers.
func TestLinkFits(t *testing.T) {
	t.Parallel()
	p := projectInFlash(t)
	for _, c := range []struct{ said, want string }{
		{
			"ld: build/firmware.elf.part section `.bss' will not fit in region `ram'\n" +
				"ld: region `ram' overflowed by 2400 bytes\n",
			"region ram of board b is 2400 bytes too small (.bss)",
		},
		{"ld: region ‘flash’ overflowed by 1 byte\n", "region flash of board b is 1 bytes too small"},
		{"ld: region `flash' overflowed by 10 bytes\nld: region `ram' overflowed by 20 bytes\n", "region ram of board b " +
			"is 20 bytes too small"},
		{"ld: region `ram' overflowed by 99999999999999999999 bytes\n", ""},
		{"ld: not enough room for program headers\n", ""},
	} {
		tool := ofLinker(c.said)
		err := p.linkFits(tool, p.dir, nil, &mlf.Model{})
		e, isFit := errors.AsType[*FitError](err)
		if isFit != (c.want != "") || isFit && e.Error() != c.want || !errors.Is(err, error(tool)) {
			t.Errorf("%q: %v, want %s", c.said, err, c.want)
		}
	}
}

// ofLinker returns the error of a link that prints a text.
func ofLinker(text string) *ToolError {
	return &ToolError{Class: diagnostics.Classify(text), Tail: []byte(text), Err: errors.New("exit status 2")}
}

// projectInFlash returns a project for a board with flash and RAM.
func projectInFlash(t *testing.T) *Project {
	p := &Project{dir: t.TempDir()}
	p.state.Board.Board = boards.Board{
		Name: "b", Place: boards.Place{Code: "flash", Data: "ram"}, OperatorOpt: "O2", RuntimeOpt: "Os", LogLevel: "info",
		Memory: []boards.Region{{Name: "flash", Size: 1 << 16, Exec: true, Nonvolatile: true}, {Name: "ram", Size: 1 << 16}},
	}
	p.state.Board.Name = "b"
	return p
}

// TestStackNeed runs models with the computed stack, and with a third less, which must be too little.
func TestStackNeed(t *testing.T) {
	t.Parallel()
	for _, c := range drawn.Of(t, "stacks", []struct {
		board, model string
		guarded      bool // the core notices an overflow at once
	}{
		{"mps2_an385", "digits_i8.aot_packed", true},
		{"mps2_an521", "dscnn_i8.aot_c", true},
		{"microbit", "add.graph", false},
		{"qemu_riscv32", "conv_f32.graph", true},
	}, 1) {
		t.Run(c.board, func(t *testing.T) {
			p := generated(t, Spec{Board: c.board, Model: mlftest.Path(t, c.model)})
			made := built(t, p)
			u, err := p.Usage(made)
			must(t, err)
			if len(u.Stack.Unsure) > 0 {
				t.Errorf("unsure: %q", u.Stack.Unsure)
			}
			if _, err := runOnce(t, p, remade(t, p, made, "BOARDSMITH_STACK_BYTES", u.Stack.Need, "link.ld.S")); err != nil {
				t.Errorf("with %d bytes: %v", u.Stack.Need, err)
			}
			if !c.guarded {
				return
			}
			less := u.Stack.Need * 2 / 3
			_, err = runOnce(t, p, remade(t, p, made, "BOARDSMITH_STACK_BYTES", less, "link.ld.S"))
			wantError(t, err, failure.Fault)
		})
	}
}

// TestUsageStandalone: the arrays of the model's own C are its parameters and workspace.
func TestUsageStandalone(t *testing.T) {
	t.Parallel()
	workspaces := map[string]int64{"digits_i8.graph": 640, "digits_i8.aot_c": 816}
	for _, archive := range drawn.Of(t, "standalone sizes", slices.Sorted(maps.Keys(workspaces)), 1) {
		u := usageOf(t, generated(t, Spec{Board: "mps2_an385", Model: mlftest.Path(t, archive), Options: alone}))
		size, w := partOf(u, "parameters").Size, partOf(u, "workspace")
		if n := size.Text + size.Data; n < 2000 || n > 2100 || w.Size != (image.Size{BSS: workspaces[archive]}) {
			t.Errorf("%s: parameters %+v, workspace %+v", archive, size, w)
		}
	}
}

// TestUsage compares the sizes by part with the image's own, for each kind of toolchain.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "sizes",
		[]string{"host", "mps2_an385", "mps2_an521", "microbit", "qemu_riscv32", "qemu_riscv64"}, 1) {
		t.Run(board, func(t *testing.T) {
			p := generated(t, Spec{Board: board, Model: mlftest.Path(t, "digits_i8.aot_packed")})
			made := built(t, p)
			u, err := p.Usage(made)
			must(t, err)
			if total := u.Total(); total != made.Size {
				t.Errorf("the parts have %+v, the image %+v", total, made.Size)
			}
			for _, part := range u.Parts {
				some := part.Size != (image.Size{})
				want := !slices.Contains([]string{"system", "libraries"}, part.Name) &&
					(part.Name != "stack" || len(u.Regions) > 0)
				if some != want {
					t.Errorf("there is a part %s: %v", part.Name, some)
				}
			}
			if u.Arena.Have != p.arenaBytes() || partOf(u, "workspace").BSS < 816 ||
				partOf(u, "parameters").Text+partOf(u, "parameters").Data < 2000 {
				t.Errorf("arena %d, workspace %+v, parameters %+v", u.Arena.Have, partOf(u, "workspace"), partOf(u, "parameters"))
			}
			if other := partOf(u, "other"); other.Text+other.Data+other.BSS > 1024 {
				t.Errorf("%+v belongs to no part", other)
			}
			var sum int64
			for i, r := range u.Regions {
				used := int64(0)
				for _, part := range u.Parts {
					used += part.In[i]
				}
				if used != r.Used || r.Used > r.Size {
					t.Errorf("region %s: %d of %d are used, the parts have %d", r.Name, r.Used, r.Size, used)
				}
				sum += r.Used
			}
			if s := u.Total(); len(u.Regions) > 0 && (sum < s.Text+s.Data+s.BSS || sum > s.Text+2*s.Data+s.BSS) {
				t.Errorf("the regions have %d bytes, the image %+v", sum, s)
			}
		})
	}
}

// partOf is what the part of a name takes.
func partOf(u *fit.Usage, name string) (part fit.PartUse) {
	for _, p := range u.Parts {
		if p.Name == name {
			part = p
		}
	}
	return part
}

// TestFitByHand: if the files that an option changes were edited, the next step is a change by hand that helps. Other
// edited files stay, so that the option helps.
func TestFitByHand(t *testing.T) {
	drawn.OnlyInFull(t, "where no file was edited, TestDoesNotFit and the story fit")
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
			p := generated(t, Spec{Board: c.board, Model: mlftest.Path(t, c.model), Options: c.options})
			appendTo(t, p.at("src/main.c"), "// mine\n")
			err := buildError(t, p)
			e := misfitOf(t, err)
			if wantError(t, err, "", e.Option); e.Part != c.name || len(e.Lines) > 0 {
				t.Errorf("%v: change by hand %q", err, e.Lines)
			}
			appendTo(t, p.at("crt_config/crt_config.h"), "// mine\n")
			err = buildError(t, p)
			if e = misfitOf(t, err); len(e.Lines) == 0 {
				t.Errorf("an option would replace the edited file: %v: %s", err, failure.Next(err))
			}
			for _, line := range e.Lines {
				wantError(t, err, "", line)
				name, text, _ := strings.Cut(line, ": ")
				define := strings.Join(strings.Fields(text)[:2], " ")
				re := regexp.MustCompile(regexp.QuoteMeta(define) + " .*")
				former := readFile(t, p.at(name))
				if !re.MatchString(former) {
					t.Errorf("%s has no %q", name, define)
				}
				writeFile(t, p.at(name), re.ReplaceAllString(former, text))
			}
			built(t, p)
		})
	}
}

// TestOptionTooLarge: options that exceed a memory are a *FitError about them, not about the board file, and with the
// option that it names they fit.
func TestOptionTooLarge(t *testing.T) {
	t.Parallel()
	for o, want := range map[boards.Options]string{
		{ArenaKiB: 1 << 19}:   "arena_kib=",
		{StackBytes: 1 << 24}: "stack_bytes=",
		{UploadKiB: 2048}:     "arena_kib=1984",
		{UploadKiB: 4096}:     "upload_kib=1024",
	} {
		_, err := generate(t, Spec{Board: "mps2_an385", Options: o})
		e := misfitOf(t, err)
		if wantError(t, err, failure.DoesNotFit); e.Region != "ram" || e.Over <= 0 || e.Need-e.Have != e.Over ||
			!strings.HasPrefix(e.Option, want) || strings.Contains(err.Error(), ".json") {
			t.Errorf("%+v: %v, %+v", o, err, e)
		}
		help(t, &o, e)
		generated(t, Spec{Board: "mps2_an385", Options: o})
	}
}

// TestSmallerOperatorsHelp: smaller operators are suggested only if their code is larger than what is missing.
func TestSmallerOperatorsHelp(t *testing.T) {
	t.Parallel()
	need(t, "cc")
	p := projectInFlash(t)
	p.state.Template.ELF, p.state.Template.Options = "build/a.elf", []string{"operator_opt"}
	writeIn(t, p.dir, "model/codegen/host/src/lib1.c",
		"const char weights[100000] = {1};\nint f(int a) { return a * 3 + 1; }\n")
	must(t, os.MkdirAll(p.at("build/model"), 0o755))
	output(t, exec.Command("cc", "-c", "-o", p.at("build/model/lib1.o"), p.at("model/codegen/host/src/lib1.c")))
	m := &mlf.Model{Sources: []mlf.File{{Name: "codegen/host/src/lib1.c"}}}
	for said, want := range map[string]string{
		"ld: region `flash' overflowed by 4 bytes\n":     "operator_opt=Os",
		"ld: region `flash' overflowed by 90000 bytes\n": "",
		"ld: region `ram' overflowed by 4 bytes\n":       "",
	} {
		e := misfitOf(t, p.linkFits(ofLinker(said), p.dir, &mlf.Archive{}, m))
		if e.Option != want {
			t.Errorf("%s: %+v, want %q", said, e, want)
		}
	}
	p.state.Template.Options = nil
	e := &FitError{Region: "flash", Over: 4}
	if p.makeRoom(e, p.dir, &mlf.Archive{}, m); e.Option != "" {
		t.Errorf("a template without that option: %q", e.Option)
	}
}

// TestParallelLoops follows LLVM's loops, whose address is computed from PC on Arm.
func TestParallelLoops(t *testing.T) {
	drawn.OnlyInFull(t, "TestStackDoubts and the tests of package stackdepth")
	t.Parallel()
	for board, model := range map[string]string{
		"mps2_an385":   "digits_i8.graph_llvm_thumbv7m",
		"qemu_riscv32": "digits_i8.graph_llvm_rv32",
	} {
		t.Run(board, func(t *testing.T) {
			u := usageOf(t, generated(t, Spec{Board: board, Model: mlftest.Path(t, model)}))
			if len(u.Stack.Unsure) > 0 {
				t.Errorf("%d bytes, unsure: %q", u.Stack.Need, u.Stack.Unsure)
			}
			t.Logf("%d bytes by %q", u.Stack.Need, u.Stack.Path)
		})
	}
}

// helpers is code that a user's operator calls. The depth of what cannot be followed must be marked as unsure.
const helpers = `
#include <stdlib.h>
typedef int (*helper_t)(int);
#define APART __attribute__((noinline)) static
APART int recursive(int n) { volatile char room[1024]; room[n & 1023] = 1; return (n > 0) ? recursive(n - 1) + room[3] : 0; }
APART int large(int n) { volatile char room[20000]; room[n] = 1; return room[3]; }
APART int larger(int n) { volatile char room[40000]; room[n] = 1; return room[3]; }
static helper_t const in_flash[4] = {larger, large, larger, large};
static helper_t volatile in_ram[2] = {large, large};
static struct { int n; helper_t f; } kept;
APART int by_table(int n) { return in_flash[n & 3](n) + 1; }
APART int by_volatile(int n) { return in_ram[n & 1](n) + 1; }
APART int by_struct(int n) { if (n > 3) { kept.f = large; } return kept.f(n) + 1; }
APART int by_jump(int n) { return in_flash[n & 3](n); }
static helper_t const always = large;
APART int by_constant(int n) { return always(n) + 1; }
volatile int switched;
APART void by_switch(int n) {
  switch (n) {
    case 0: switched = 3; break;
    case 1: switched += 5; break;
    case 2: switched *= 7; break;
    case 3: switched -= 9; break;
    case 4: switched ^= 11; break;
    case 5: switched /= 13; break;
    case 6: switched <<= 3; break;
    default: break;
  }
}
static int compared(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }
static int helped(int n) {
  int some[3] = {n, 2, 1};
  qsort(some, 3, sizeof(some[0]), compared);
  by_switch(some[0]);
  return recursive(n) + by_table(n) + by_volatile(n) + by_struct(n) + by_jump(n) + by_constant(n);
}
`

// TestStackDoubts has the walk name each function of a model that it cannot follow, and no other.
func TestStackDoubts(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "doubts", []string{"mps2_an385", "qemu_riscv32", "microbit", "qemu_riscv64"}, 1) {
		t.Run(board, func(t *testing.T) {
			p := generated(t, Spec{
				Board: board, Model: mlftest.Path(t, "add.graph"), Options: boards.Options{StackBytes: 4096},
			})
			image := built(t, p)
			operator := p.at("model/codegen/host/src/add_lib1.c")
			text := readFile(t, operator)
			begin := regexp.MustCompile(`TVM_DLL int32_t tvmgen_add_fused_add\([^{]*\{\n`).FindString(text)
			writeFile(t, operator, strings.Replace(text, begin, helpers+begin+"  switched += helped(num_args);\n", 1))
			output(t, exec.Command("make", "-C", p.dir)) // not Build, which refuses what needs so much stack
			u, err := p.Usage(image)
			must(t, err)
			of := map[string]bool{}
			for _, why := range u.Stack.Unsure {
				name, _, _ := strings.Cut(why, " ")
				of[name] = true
			}
			delete(of, "med3.constprop.0") // in newlib's qsort, or a part of it
			names := slices.Sorted(maps.Keys(of))
			if !slices.Equal(names, []string{"by_jump", "by_struct", "by_table", "by_volatile", "qsort", "recursive"}) {
				t.Errorf("in doubt are %q: %q", names, u.Stack.Unsure)
			}
			if u.Stack.Need < 40500 || u.Stack.Need > 43000 {
				t.Errorf("%d bytes are needed: %q", u.Stack.Need, u.Stack.Path)
			}
		})
	}
}

// TestChangedTemplateIsDoubted checks that the template's own pointers count as resolved only while their file is
// unmodified. The board is an STM32, whose chip_init calls through a table.
func TestChangedTemplateIsDoubted(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{Board: "netduinoplus2", Model: mlftest.Path(t, "add.graph")})
	image := built(t, p)
	sure, err := p.Usage(image)
	must(t, err)
	appendTo(t, p.at("src/platform.c"), "// mine\n")
	u, err := p.Usage(image)
	must(t, err)
	want := []string{"TVMPlatformMemoryAllocate calls through a pointer", "TVMPlatformMemoryFree calls through a pointer"}
	if len(sure.Stack.Unsure) > 0 || !slices.Equal(u.Stack.Unsure, want) || u.Stack.Need < sure.Stack.Need {
		t.Errorf("%d bytes, %q; changed %d bytes, %q", sure.Stack.Need, sure.Stack.Unsure, u.Stack.Need, u.Stack.Unsure)
	}
}
