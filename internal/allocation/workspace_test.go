package allocation

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
	for _, s := range w.Steps[function] {
		switch s.Kind {
		case StepTake:
			words = append(words, fmt.Sprintf("+%s:%d", s.Name, s.Bytes))
		case StepGive:
			words = append(words, "-"+s.Name)
		case StepCall:
			words = append(words, s.Name+"()")
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

// TestWorkspaceSizes reads allocations as TVM's versions write them.
func TestWorkspaceSizes(t *testing.T) {
	for _, c := range []struct {
		source string
		want   int64
	}{
		{inOp(takeT("(uint64_t)48384")), 48384},
		{inOp(takeT("(uint64_t)48384ULL")), 48384},
		{inOp(takeT("((uint64_t)(0x10UL))")), 16},
		{inOp(takeT("16u")), 16},
		{inOp(takeT("0")), 0},
		{inOp(takeT("4 * 1024 + (1 << 4)")), 4112},
		{inOp(takeT("99999999999999")), mostBytes},
		{inOp("  const char* s = \"TVMBackendAllocWorkspace(1, 0, 9, 0, 8); {\";\n" + takeT("6")), 6},
		{inOp("  const char c = '{';\n" + takeT("6")), 6},
		{inOp("  void* t = TVMBackendAllocWork\\\nspace(1, 0, 7, 0, 8);" + giveT), 7},
		{"#ifdef __cplusplus\nextern \"C\" {\n#endif\n" + inOp(takeT("9")) + "#ifdef __cplusplus\n}\n#endif", 9},
		{"extern \"C\"\n" + inOp(takeT("9")), 9},
		{"static const float c[2] __attribute__((aligned(16))) = {\n  1.0f, 2.0f};\n" + inOp(takeT("11")), 11},
		{"__attribute__((section(\".text.op\"))) " + inOp(takeT("12")), 12},
		{"void* TVMBackendAllocWorkspace(int, int, uint64_t, int, int);\n" + inOp(takeT("13")), 13},
	} {
		source, want := c.source, c.want
		w := workspaceOf(source)
		if got, want := stepsOf(w, "op"), fmt.Sprintf("+t:%d -t", want); got != want || w.Doubts != nil {
			t.Errorf("%s\ngot  %s, %v\nwant %s", source, got, w.Doubts, want)
		}
	}
}

// TestWorkspaceDoubts has code that is not understood be a doubt, never a size.
func TestWorkspaceDoubts(t *testing.T) {
	const other = "static void* grab(int n) {\n  return TVMBackendAllocWorkspace(1, 0, %s, 0, 8);\n}\n"
	const helper = "static void helper(void) {\n" +
		"  void* t = TVMBackendAllocWorkspace(1, 0, 8, 0, 8);\n  TVMBackendFreeWorkspace(1, 0, t);\n}\n"
	for _, c := range []struct {
		source string
		want   string
	}{
		{inOp(takeT("n")), "op in codegen/host/src/lib0.c allocates n bytes: not a constant number: n"},
		{inOp(takeT("(uint64_t)n * sizeof(float)")), "allocates ( uint64_t ) n * sizeof ( float ) bytes"},
		{inOp("  uint64_t n = 5;\n" + takeT("n")), "allocates n bytes"},
		{"static const int n = 5;\n" + inOp("  int n = f();\n"+takeT("n")), "allocates n bytes"},
		{"#define N 4\n#undef N\n#define N 5\n" + inOp(takeT("N")), "allocates N bytes"},
		{"#if BIG\n#define N 5\n#endif\n" + inOp(takeT("N")), "allocates N bytes"},
		{inOp(takeT("sizeof(long)")), "allocates sizeof ( long ) bytes"},
		{inOp(takeT("99999999999999999999")), "allocates 99999999999999999999 bytes"},
		{inOp(takeT("f(3)")), "allocates f ( 3 ) bytes"},
		{inOp(takeT("1, 2")), "other than by a call"},
		{inOp("  use(@);"), "does not store the address"},
		{inOp("  a[0] = @;"), "does not store the address"},
		{inOp("  s->t = @;"), "does not store the address"},
		{inOp("  *t = @;"), "does not store the address"},
		{inOp("  void* t;\n  for (;;) { t = @; }"), "allocates or frees  in a loop"},
		{inOp("  void* t = @;\n  for (; a; TVMBackendFreeWorkspace(1, 0, t)) ;"), "allocates or frees t in a loop"},
		{inOp("  for (int i = 0; i < 9; ++i) {\n" + takeT("15") + "\n  }"), "allocates or frees t in a loop"},
		{inOp("  do\n {" + takeT("15") + "\n  } while (num_args > 99);"), "in an expression with braces"},
		{inOp("  switch (a) {\n  case 1: {" + takeT("15") + "\n  }\n  }"), "in an expression with braces"},
		{inOp("  if (num_args > 1) {\n" + takeT("14") + "\n  }"), "allocates or frees t under a condition"},
		{inOp("  if (a) return -1; else {\n" + takeT("14") + "\n  }"), "allocates or frees t under a condition"},
		{
			inOp("  float* t = ((float*)((float*)TVMBackendAllocWorkspace(1, 0, (uint64_t)48384ULL, 2, 32)));" + giveT),
			"does not store the address",
		},
		{inOp("  void *t;\n  t = @;" + giveT), "does not store the address"},
		{inOp("  void *t, *u;\n  if ((t = @) == NULL) return -1;" + giveT), "does not store the address"},
		{inOp("  void* const t = @;" + giveT), "does not store the address"},
		{inOp("  void* t = @;\n  WHEN(a) TVMBackendFreeWorkspace(1, 0, t);"), "frees t under a condition"},
		{inOp("  void* t = @;\n  (void)TVMBackendFreeWorkspace(1, 0, t);"), "frees t under a condition"},
		{inOp("  void* t = @;\n  TVMBackendFreeWorkspace(1, 0, (void*)(t));"), "frees what it has not"},
		{"#define N 8\n" + inOp(takeT("(uint64_t)N")), "not a constant number: N"},
		{"static const size_t n = 8;\n" + inOp(takeT("n * 2")), "not a constant number: n"},
		{"enum { ROWS = 3 };\n" + inOp(takeT("ROWS * 4")), "not a constant number: ROWS"},
		{inOp("  const int64_t n = 4 * 5;\n" + takeT("(uint64_t)n")), "not a constant number: n"},
		{inOp(takeT("10 * sizeof(float)")), "not a constant number: sizeof"},
		{"#ifndef LIB_H\n#define LIB_H\n" + inOp(takeT("9")) + "#endif\n", "under an #if"},
		{inOp("  while ((t = @) != NULL) ;"), "has a \"while\" that"},
		{inOp("  FOR_EACH(i) { void* t = @; }"), "in an expression with braces"},
		{inOp("  void* t = @;\n  { void* t = @; }" + giveT), "allocates t twice"},
		{inOp("  void* t = @;\n  if (a) {" + giveT + "\n  }"), "frees t under a condition"},
		{inOp("  void* t = @;\n  while (a) {" + giveT + "\n  }"), "in an expression with braces"},
		{inOp("  void* t = @, *u = t;\n  TVMBackendFreeWorkspace(1, 0, u);"), "frees what it has not"},
		{inOp("  void* t = @;\n  if (a) goto end;" + giveT + "\nend: ;"), "has a \"goto\" that"},
		{inOp("  void* (*take)(int, int, uint64_t, int, int) = TVMBackendAllocWorkspace;"), "other than by a call"},
		{inOp("  void* t = ({ @; });"), "in an expression with braces"},
		{inOp("  TVMPlatformMemoryAllocate(5, dev, &t);"), "calls TVMPlatformMemoryAllocate"},
		{
			"static void* (*take)(int, int, uint64_t, int, int) = &TVMBackendAllocWorkspace;\n" + inOp(""),
			"takes the address of TVMBackendAllocWorkspace",
		},
		{
			"static const api_t api = {TVMBackendAllocWorkspace};\n" + inOp(""),
			"takes the address of TVMBackendAllocWorkspace",
		},
		{
			"#define TAKE(n) TVMBackendAllocWorkspace(1, 0, n, 0, 8)\n" + inOp("  void* t = TAKE(5);"),
			"macro TAKE in codegen/host/src/lib0.c stands for TVMBackendAllocWorkspace",
		},
		{"#define TAKE \\\n  TVMBackendAllocWorkspace\n" + inOp("  void* t = TAKE(1, 0, 5, 0, 8);"), "macro TAKE in"},
		{
			"#define CAT(a, b) a##b\n" + inOp("  void* t = CAT(TVMBackendAlloc, Workspace)(1, 0, 5, 0, 8);"),
			"composes names, and Workspace",
		},
		{"#ifdef BIG\n" + inOp(takeT("5")) + "#endif\n", "under an #if"},
		{"#ifdef __cplusplus\n#else\n" + inOp(takeT("5")) + "#endif\n", "under an #if"},
		{fmt.Sprintf(other, "n") + inOp("  void* t = grab(5);"), "grab in codegen/host/src/lib0.c allocates n bytes"},
		{fmt.Sprintf(other, "9") + inOp("  void* t = grab(5);"), "grab in codegen/host/src/lib0.c does not store"},
		{
			helper + inOp("  void (*f)(void) = helper;\n  f();"),
			"helper in codegen/host/src/lib0.c allocates and is called through",
		},
		{helper + "static void (*const f)(void) = helper;\n" + inOp("  f();"), "is called through a pointer"},
		{
			helper + inOp("  TVMBackendGetFuncFromEnv(ctx, \"helper\", &f);"),
			"is called through a pointer or by its name",
		},
		{helper + "DEFINE_OP(op) { helper(); }\n" + inOp(""), "callers are unknown"},
		{inOp("  op(args);\n" + takeT("5")), "is recursive"},
		{inOp(takeT("5")) + "} int x = \"", "do not match"},
		{inOp("  int x = \"\n" + takeT("5")), "do not match"},
		{inOp("  {{{" + strings.Repeat("if (a) ", 1000) + takeT("5") + "}}}"), "too deeply nested"},
	} {
		source, want := c.source, c.want
		w := workspaceOf(source)
		wanted := func(d Doubt) bool { return d.Kind == DoubtCode && strings.Contains(d.Text, want) }
		if !slices.ContainsFunc(w.Doubts, wanted) {
			t.Errorf("%s\ngot %v %v\nwant %s", source, w.Doubts, w.Steps, want)
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
	if got := stepsOf(w, "op") + "; " + stepsOf(w, "tvm_main"); w.Doubts != nil ||
		got != "tvm_main(); +t:8 fused() fused() -t" {
		t.Errorf("got %s, %v", got, w.Doubts)
	}
	m := &mlf.Model{Entry: "op", Sources: []mlf.File{{Name: "codegen/host/src/lib0.c", Data: []byte(inOp("  helper();"))}}}
	const header = "#pragma once\nstatic inline void helper(void) {" +
		"void* t = TVMBackendAllocWorkspace(1, 0, 3, 0, 8); TVMBackendFreeWorkspace(1, 0, t); }\n"
	m.Headers = []mlf.File{{Name: "codegen/host/include/helper.h", Data: []byte(header)}}
	w = Of(new(mlf.Archive), m)
	if stepsOf(w, "op") != "helper()" || stepsOf(w, "helper") != "+t:3 -t" || w.Doubts != nil {
		t.Errorf("of a header: %v", w)
	}
}

// TestWorkspaceLeaks names what a function does not free.
func TestWorkspaceLeaks(t *testing.T) {
	const take = "  void* t = TVMBackendAllocWorkspace(1, 0, 2048, 0, 8);\n  "
	for body, want := range map[string]string{
		take + "if (t == NULL) {\n    return -1;\n  }":   "+t:2048",
		take + "if (a) {\n    return 0;\n  }" + giveT:    "+t:2048 -t",
		take + "if (a) return 0u;" + giveT:               "+t:2048 -t",
		take + "if (a) return;" + giveT:                  "+t:2048 -t",
		take + "if (a) return kTvmErrorNoError;" + giveT: "+t:2048 -t",
		take + "if (t == NULL || a) return;" + giveT:     "+t:2048 -t",
		take + "if (!t) return;" + giveT:                 "+t:2048 -t",
		take + "if (e != 0) return e;" + giveT:           "+t:2048 -t",
		take + "if (t != NULL) ; else return;" + giveT:   "+t:2048 -t",
	} {
		w := workspaceOf(inOp(body))
		wanted := Doubt{
			DoubtLeak,
			"function op in codegen/host/src/lib0.c does not free t of 2048 bytes: each call allocates more",
		}
		if got := stepsOf(w, "op"); got != want || !slices.Equal(w.Doubts, []Doubt{wanted}) {
			t.Errorf("%s\ngot %s, %v", body, got, w.Doubts)
		}
	}
}

// variedHelper allocates 8 bytes for the time of a call.
const variedHelper = "static int helper(void) {\n  void* t = TVMBackendAllocWorkspace(1, 0, 8, 0, 8);\n" +
	"  return TVMBackendFreeWorkspace(1, 0, t);\n}\n"

// holding is an operator that executes a statement while it has 1000 bytes.
func holding(statement string) string {
	return inOp("  void* t = TVMBackendAllocWorkspace(1, 0, 1000, 0, 8);\n" + statement + giveT)
}

// TestWorkspaceVaried reads sizes and calls in forms that TVM does not write: each is exact, or a doubt.
func TestWorkspaceVaried(t *testing.T) {
	const take, exact = "TVMBackendAllocWorkspace", ""
	for _, c := range []struct {
		name, source, steps string
		doubt               string // "" if the steps are exact
	}{
		{"macro of macros", "#define A 4\n#define B (A * 8)\n" + inOp(takeT("B + A")), "", "not a constant number: B"},
		{"macro of itself", "#define N N + 1\n" + inOp(takeT("N")), "", "not a constant number: N"},
		{"macro with parameters", "#define N(x) (4 * (x))\n" + inOp(takeT("N(3)")), "", "allocates N ( 3 ) bytes"},
		{"sizeof a variable", inOp("  float x[4];\n" + takeT("sizeof(x)")), "", "allocates sizeof ( x ) bytes"},
		{"sizeof an array", inOp(takeT("sizeof(float[4])")), "", "allocates sizeof"},
		{"sizeof a typedef", "typedef float T;\n" + inOp(takeT("sizeof(T)")), "", "allocates sizeof ( T ) bytes"},
		{"sizeof a renamed type", "#define float double\n" + inOp(takeT("sizeof(float)")), "", "allocates sizeof"},
		{"hexadecimal", inOp(takeT("0x1FfUL")), "+t:511 -t", exact},
		{"rounded up", inOp(takeT("(size_t)(100 + 31) & (size_t)~31U")), "+t:128 -t", exact},
		{"casts", inOp(takeT("(uint64_t)((int32_t)25 * (uint16_t)(0x4u))")), "+t:100 -t", exact},
		{"narrow cast", inOp(takeT("400 - (uint8_t)300")), "", "may not fit its type"},
		{"cast to an unknown type", inOp(takeT("400 - (small_t)300")), "", "may not fit its type"},
		{"narrow constant", "static const uint8_t n = 300;\n" + inOp(takeT("400 - n")), "", "not a constant number: n"},
		{"fraction", "static const double n = 1;\n" + inOp(takeT("100 * (n / 2)")), "", "allocates 100 * ( n / 2 )"},
		{"negative", inOp(takeT("-1 < 2 ? 100 : 10")), "", "depends on its type"},
		{"overflow", inOp(takeT("65536 * 65536")), "", "depends on its type"},
		{"nested calls", inOp("  void* t = check(most(3, @));" + giveT), "", "does not store the address"},
		{"size by a call", inOp(takeT("most(3, 5)")), "", "allocates most ( 3 , 5 ) bytes"},
		{
			"hidden constant", "static const int n = 5;\n" + inOp("  int a = 3, n = f();\n"+takeT("n")),
			"", "allocates n bytes",
		},
		{
			"constant hidden without value", "enum { N = 5 };\n" + inOp("  int a, N; get(&N);\n"+takeT("N")), "",
			"allocates N bytes",
		},
		{
			"constant hidden by an enumerator", "enum { N = 5 };\n" + inOp("  enum { M, N };\n"+takeT("N")), "",
			"allocates N bytes",
		},
		{
			"constant hidden by a parameter", "static const int n = 5;\nint op(int* n) {\n" + takeT("n") + "\n  return 0;\n}\n",
			"", "allocates n bytes",
		},
		{
			"constant of an inner scope", "static const int n = 50;\n" + inOp("  { const int n = 5; }\n"+takeT("n")), "",
			"allocates n bytes",
		},
		{"at once", holding("  void* u = @;\n  TVMBackendFreeWorkspace(1, 0, u);"), "+t:1000 +u:5 -u -t", exact},
		{"one after the other", inOp(takeT("3") + strings.ReplaceAll(takeT("4"), "void* ", "")), "", "allocated"},
		{
			"in one declaration", inOp("  void *t = @, *u = @;\n  TVMBackendFreeWorkspace(1, 0, u);" + giveT),
			"", "does not store the address",
		},
		{"helper while holding", variedHelper + holding("  helper();"), "+t:1000 helper() -t", exact},
		{"helper by a macro", variedHelper + "#define HELP() helper()\n" + inOp("  helper();") + strings.Replace(
			holding("  HELP();"), "op(", "second(", 1), "", "macro HELP in codegen/host/src/lib0.c stands for helper"},
		{"helper renamed", variedHelper + "#define run helper\n" + holding("  run();"), "", "macro run in"},
		{
			"helper by a pointer", variedHelper + "static int (*const f[])(void) = {helper};\n" + holding("  helper(); f[0]();"),
			"", "helper in codegen/host/src/lib0.c allocates and is called through a pointer",
		},
		{
			"helper by a member", variedHelper + holding("  struct s o = {.f = helper};\n  o.f();"),
			"", "is called through a pointer",
		},
		{
			"helper in assembly", variedHelper + holding("  __asm__ volatile(\"bl helper\");"),
			"", "is called through a pointer",
		},
		{
			"helper in assembly at file scope", variedHelper + "__asm__(\"run: b helper\");\n" + holding("  helper(); run();"),
			"",
			"is called through a pointer",
		},
		{
			"helper for an #include", variedHelper + "EACH(helper);\n" + holding("  helper();"),
			"", "is called through a pointer",
		},
		{"helper in the arguments of a call that frees", variedHelper + inOp(
			"  void* t = @;\n  TVMBackendFreeWorkspace(helper(), 0, t);"), "", "frees t and calls a function"},
		{"wrapped", "static void* grab(uint64_t n) {\n  return " + take + "(1, 0, n, 2, 32);\n}\n" +
			inOp("  void* t = grab(5);"+giveT), "", "grab in codegen/host/src/lib0.c allocates n bytes"},
		{"freed by a wrapper", "static int drop(void* t) {\n  return TVMBackendFreeWorkspace(1, 0, t);\n}\n" +
			inOp("  void* t = @;\n  drop(t);"), "", "drop in codegen/host/src/lib0.c frees what it has not allocated"},
		{
			"freed by a macro", "#define GIVE(t) TVMBackendFreeWorkspace(1, 0, t)\n" + inOp("  void* t = @;\n  GIVE(t);"), "",
			"macro GIVE in",
		},
		{
			"composed", "#define CAT(a, b) a##b\n" + inOp("  void* t = CAT(TVM, BackendAllocWorkspace)(1, 0, 5, 0, 8);"+giveT),
			"",
			"composes names, and BackendAllocWorkspace",
		},
		{"in assembly", inOp("  asm(\"bl TVMBackendAllocWorkspace\");"), "", "has TVMBackendAllocWorkspace in assembly"},
		{
			"in assembly at file scope", "asm(\"run: b TVMBackendAllocWorkspace\");\n" + inOp("  run();"),
			"", "takes the address of",
		},
		{
			"by the runtime", inOp("  TVMFuncRegisterGlobal(\"f\", f, 0);"),
			"", "calls TVMFuncRegisterGlobal, which allocates",
		},
		{"in a loop", inOp("  for (int i = 0; i < 3; ++i) t[i] = @;"), "", "does not store the address"},
		{
			"in a loop again", inOp("  void* t = @;\n  for (;;) {" + giveT + "\n  t = @;\n  }" + giveT),
			"", "frees t in a loop",
		},
		{
			"kept by a break", inOp("  for (;;) {\n  if (a) {\n  void* t = @;\n  break;\n  }\n  }"),
			"", "has a \"break\" that",
		},
		{
			"freed under an #if", inOp("  void* t = @;\n#ifdef A\n" + giveT + "\n#endif"), "",
			"calls TVMBackendFreeWorkspace under an #if",
		},
		{
			"freed after &&", inOp("  void* t = @;\n  if (a && TVMBackendFreeWorkspace(1, 0, t)) return -1;"), "",
			"frees t under a condition",
		},
		{
			"freed after ?", inOp("  void* t = @;\n  a ? TVMBackendFreeWorkspace(1, 0, t) : 0;"),
			"", "frees t under a condition",
		},
		{
			"freed if it is there", inOp("  void* t = @;\n  if (t && TVMBackendFreeWorkspace(1, 0, t)) return -1;"),
			"", "frees t under a condition",
		},
		{"freed if it is not there", inOp("  void* t = @;\n  if (t == NULL)" + giveT), "", "frees t under a condition"},
		{"freed if all is there", inOp("  void* t = @;\n  if (t && a)" + giveT), "", "frees t under a condition"},
		{"freed by else", inOp("  void* t = @;\n  if (t) a(); else" + giveT), "", "frees t under a condition"},
		{
			"freed after a macro", inOp("  void* t = @;\n  CHECK(a) if (b) TVMBackendFreeWorkspace(1, 0, t);"), "",
			"has a \"if\" that",
		},
		{
			"changed", holding("  void* u = @;\n  void* x = t;\n  t = u;\n  u = x;\n  TVMBackendFreeWorkspace(1, 0, u);"), "",
			"changes t, or takes its address",
		},
		{"counted up", holding("  t++;"), "", "changes t, or takes its address"},
		{"address taken", holding("  change(&t);"), "", "changes t, or takes its address"},
		{"used", holding("  t[3] = a & t[0];\n  s.t = 3;\n  use(&t[3], t == a, t);"), "+t:1000 -t", exact},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := workspaceOf(c.source)
			got := stepsOf(w, "op")
			switch {
			case c.doubt == exact && (got != c.steps || w.Doubts != nil):
				t.Errorf("%s\ngot %s, %v; want %s", c.source, got, w.Doubts, c.steps)
			case !slices.ContainsFunc(w.Doubts, func(d Doubt) bool {
				return d.Kind == DoubtCode && strings.Contains(d.Text, c.doubt)
			}) && c.doubt != exact:
				t.Errorf("%s\ngot %s, %v; want %s", c.source, got, w.Doubts, c.doubt)
			}
		})
	}
}
