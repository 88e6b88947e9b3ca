package operatormemory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/mlf"
)

// workspaceOf reads an operator's archive with the entry op and these sources.
func workspaceOf(sources ...string) *Workspace {
	m := &mlf.Model{Entry: "op"}
	for i, s := range sources {
		m.Sources = append(m.Sources, mlf.File{Name: fmt.Sprintf("codegen/host/src/lib%d.c", i), Data: []byte(s)})
	}
	return Of(&mlf.Archive{Models: []*mlf.Model{m}}, m)
}

// stepsOf prints the steps of a function: + for what it allocates, - for what it frees.
func stepsOf(w *Workspace, function string) string {
	var words []string
	for _, bytes := range w.Steps[function] {
		if bytes == Free {
			words = append(words, "-")
		} else {
			words = append(words, fmt.Sprintf("+%d", bytes))
		}
	}
	return strings.Join(words, " ")
}

// inOp is a source whose function op has this body, in which @ allocates.
func inOp(body string) string {
	body = strings.ReplaceAll(body, "@", "TVMBackendAllocWorkspace(1, 0, 5, 0, 8)")
	return "TVM_DLL int32_t op(void* args, int32_t* arg_type_ids, int32_t num_args) {\n" + body + "\n  return 0;\n}\n"
}

const giveT = "\n  if (TVMBackendFreeWorkspace(1, dev_id, t) != 0) {\n    return -1;\n  }"

// takeT allocates t of this size, and frees it.
func takeT(size string) string {
	return "  void* t = TVMBackendAllocWorkspace(1, dev_id, " + size + ", 2, 32);\n" +
		"  if (t == NULL) {\n    return -1;\n  }" + giveT
}

// holding is an operator that executes a statement while it has 1000 bytes.
func holding(statement string) string {
	return inOp("  void* t = TVMBackendAllocWorkspace(1, 0, 1000, 0, 8);\n" + statement + giveT)
}

// helper allocates 8 bytes for the time of a call.
const helper = "static int helper(void) {\n  void* t = TVMBackendAllocWorkspace(1, 0, 8, 0, 8);\n" +
	"  return TVMBackendFreeWorkspace(1, 0, t);\n}\n"

// TestWorkspaceSizes reads allocations as TVM's versions write them.
func TestWorkspaceSizes(t *testing.T) {
	const braces = "#ifdef __cplusplus\nextern \"C\" {\n#endif\n%s#ifdef __cplusplus\n}\n#endif"
	for source, want := range map[string]string{
		inOp(takeT("(uint64_t)48384ULL")):                                                     "+48384 -",
		inOp(takeT("9999999999")):                                                             "+9999999999 -",
		fmt.Sprintf(braces, inOp(takeT("9"))):                                                 "+9 -",
		"static const float c[2] = {\n  1.0f, 2.0f};\n" + inOp(takeT("11")):                   "+11 -",
		"void* TVMBackendAllocWorkspace(int, int, uint64_t, int, int);\n" + inOp(takeT("13")): "+13 -",

		holding("  void* u = @;\n  TVMBackendFreeWorkspace(1, 0, u);"): "+1000 +5 - -",
		holding("  t[3] = a & t[0];\n  use(&a[3], t == a, t);"):        "+1000 -",
		helper + holding("  helper();"):                                "+1000 +8 - -",
	} {
		w := workspaceOf(source)
		if got := stepsOf(w, "op"); got != want || w.Unsure() != nil {
			t.Errorf("%s\ngot  %s, %v\nwant %s", source, got, w.Unsure(), want)
		}
	}
}

// TestWorkspaceDoubts has code that is not understood be a doubt, never a size.
func TestWorkspaceDoubts(t *testing.T) {
	deep := inOp("  f0();")
	for i := range 60 { // each function calls the next one twice: 2^60 paths
		deep += fmt.Sprintf("int f%d(void) {\n  f%d();\n  f%[2]d();\n}\n", i, i+1)
	}
	deep += strings.Replace(helper, "helper", "f60", 1)

	for want, sources := range map[string][]string{
		"by other code than TVM's": {
			// Sizes that are no plain number.
			inOp(takeT("0")), inOp(takeT("0x10UL")), inOp(takeT("99999999999999999999")), inOp(takeT("1, 2")),
			inOp(takeT("4 * 1024 + (1 << 4)")), inOp(takeT("sizeof(long)")), "#define N 5\n" + inOp(takeT("N")),

			// Other statements than those of TVM.
			inOp("  use(@);"), inOp("  void *t;\n  t = @;" + giveT), inOp("  void* t = @, *u = t;" + giveT),
			inOp("  void* t = @;\n  if (a && TVMBackendFreeWorkspace(1, 0, t)) return -1;"),
			inOp("  TVMPlatformMemoryAllocate(5, dev, &t);"), inOp("  void* (*take)(int) = TVMBackendAllocWorkspace;"),
			"#define CAT(a, b) a##b\n" + inOp("  void* t = CAT(TVMBackendAlloc, Workspace)(1, 0, 5, 0, 8);"),
			"#define TAKE(n) TVMBackendAllocWorkspace(1, 0, n, 0, 8)\n" + inOp("  void* t = TAKE(5);"),

			// Statements that may not execute, or more than once.
			inOp("  for (int i = 0; i < 9; ++i) {\n" + takeT("15") + "\n  }"), inOp("  const char c = '{';\n" + takeT("6")),
			inOp("  void* t = @;\n  if (t == NULL)" + giveT), inOp("  void* t = @;\n#ifdef A\n" + giveT + "\n#endif"),
			inOp("  {{{" + strings.Repeat("if (a) ", 1000) + takeT("5") + "}}}"),
		},
		"its callers are unknown": {
			"__attribute__((section(\".text.op\"))) " + inOp(takeT("12")),
			helper + "static void (*const f)(void) = helper;\n" + inOp("  f();"),
		},
		"helper in codegen/host/src/lib0.c allocates and is called through a pointer": {
			helper + inOp("  void (*f)(void) = helper;\n  f();"),
			helper + "static int (*const f[])(void) = {helper};\n" + holding("  helper(); f[0]();"),
		},
		"has a line that is not understood": {
			inOp("  void* t = @;\n  if (a) goto end;" + giveT + "\nend: ;"), holding("  t = u;"), holding("  t++;"),
			holding("  change(&t);"),
		},
		"which is not what it has taken last": {
			holding("  void* u = @;" + giveT),
			"static int drop(void* t) {\n  return TVMBackendFreeWorkspace(1, 0, t);\n}\n" + inOp("  void* t = @;\n  drop(t);"),
		},
		"has an #endif":                    {inOp("  void* t = @;\n#if A\n  x();\n#endif\n  x();" + giveT)},
		"is defined more than once":        {helper + strings.Replace(helper, "8", "9", 1) + inOp("  helper();")},
		"is recursive":                     {inOp("  op(args);\n" + takeT("5"))},
		"calls too many functions that do": {deep},
	} {
		for _, source := range sources {
			w := workspaceOf(source)
			if !slices.ContainsFunc(w.Unknown, func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("%s\ngot %v %v\nwant %s", source, w.Unsure(), w.Steps, want)
			}
		}
	}
}

// TestWorkspaceCalls follows calls through functions, files and headers.
func TestWorkspaceCalls(t *testing.T) {
	main := "int32_t fused(void* a) {\n" + takeT("100") + "\n  return 0;\n}\n" +
		"int32_t tvm_main(void* a) {\n  void* t = TVMBackendAllocWorkspace(1, 0, 8, 0, 8);\n" +
		"  if (fused(a) != 0) return -1;\n  fused(a);\n  memset(t, 0, 8);" + giveT + "\n  return 0;\n}\n"
	wrapper := "int32_t tvm_main(void* a);\nint32_t op(struct in* inputs) {return tvm_main(inputs->x\n);\n}\n" +
		"static TVMBackendPackedCFunc f[] = {(TVMBackendPackedCFunc)op, (TVMBackendPackedCFunc)fused};\n" +
		"static const TVMFuncRegistry r = {\"\\001\\000op\\000\", f};\n"
	w := workspaceOf(wrapper, main)
	if got := stepsOf(w, "op") + "; " + stepsOf(w, "tvm_main"); w.Unsure() != nil ||
		got != "+8 +100 - +100 - -; +8 +100 - +100 - -" {
		t.Errorf("got %s, %v", got, w.Unsure())
	}
	m := &mlf.Model{Entry: "op", Sources: []mlf.File{{Name: "codegen/host/src/lib0.c", Data: []byte(inOp("  helper();"))}}}
	m.Headers = []mlf.File{{Name: "codegen/host/include/helper.h", Data: []byte("#pragma once\n" + helper)}}
	w = Of(new(mlf.Archive), m)
	if stepsOf(w, "op") != "+8 -" || w.Unsure() != nil {
		t.Errorf("of a header: %v", w)
	}
}

// TestWorkspaceLeaks names what a function does not free.
func TestWorkspaceLeaks(t *testing.T) {
	const take = "  void* t = TVMBackendAllocWorkspace(1, 0, 2048, 0, 8);\n  "
	for body, want := range map[string]string{
		take + "if (t == NULL) {\n    return -1;\n  }": "+2048",
		take + "if (a) return 0u;" + giveT:             "+2048 -",
		take + "if (e != 0) return e;" + giveT:         "+2048 -",
	} {
		w := workspaceOf(inOp(body))
		const wanted = "function op in codegen/host/src/lib0.c does not free t: each call allocates more"
		if got := stepsOf(w, "op"); got != want || !slices.Equal(w.Unsure(), []string{wanted}) {
			t.Errorf("%s\ngot %s, %v", body, got, w.Unsure())
		}
	}
}
