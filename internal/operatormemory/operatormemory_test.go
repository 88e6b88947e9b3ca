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

// other is the reason of code that allocates or frees in another form.
const other = "by other code than TVM's"

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
		{inOp(takeT("16u")), 16},
		{inOp(takeT("9999999999")), 9999999999},
		{"#ifdef __cplusplus\nextern \"C\" {\n#endif\n" + inOp(takeT("9")) + "#ifdef __cplusplus\n}\n#endif", 9},
		{"extern \"C\"\n" + inOp(takeT("9")), 9},
		{"static const float c[2] __attribute__((aligned(16))) = {\n  1.0f, 2.0f};\n" + inOp(takeT("11")), 11},
		{"void* TVMBackendAllocWorkspace(int, int, uint64_t, int, int);\n" + inOp(takeT("13")), 13},
	} {
		source, want := c.source, c.want
		w := workspaceOf(source)
		if got, want := stepsOf(w, "op"), fmt.Sprintf("+%d -", want); got != want || w.Unsure() != nil {
			t.Errorf("%s\ngot  %s, %v\nwant %s", source, got, w.Unsure(), want)
		}
	}
}

// TestWorkspaceDoubts has code that is not understood be a doubt, never a size.
func TestWorkspaceDoubts(t *testing.T) {
	const grab = "static void* grab(int n) {\n  return TVMBackendAllocWorkspace(1, 0, %s, 0, 8);\n}\n"
	const helper = "static void helper(void) {\n" +
		"  void* t = TVMBackendAllocWorkspace(1, 0, 8, 0, 8);\n  TVMBackendFreeWorkspace(1, 0, t);\n}\n"
	for _, c := range []struct {
		source string
		want   string
	}{
		{inOp(takeT("n")), other},
		{inOp(takeT("0")), other},
		{inOp(takeT("((uint64_t)(0x10UL))")), other},
		{inOp(takeT("4 * 1024 + (1 << 4)")), other},
		{inOp("  const char* s = \"TVMBackendAllocWorkspace(1, 0, 9, 0, 8); {\";\n" + takeT("6")), other},
		{inOp("  const char c = '{';\n" + takeT("6")), other},
		{inOp("  void* t = TVMBackendAllocWork\\\nspace(1, 0, 7, 0, 8);" + giveT), other},
		{"__attribute__((section(\".text.op\"))) " + inOp(takeT("12")), "its callers are unknown"},
		{inOp(takeT("(uint64_t)n * sizeof(float)")), other},
		{inOp("  uint64_t n = 5;\n" + takeT("n")), other},
		{"static const int n = 5;\n" + inOp("  int n = f();\n"+takeT("n")), other},
		{"#define N 4\n#undef N\n#define N 5\n" + inOp(takeT("N")), other},
		{"#if BIG\n#define N 5\n#endif\n" + inOp(takeT("N")), other},
		{inOp(takeT("sizeof(long)")), other},
		{inOp(takeT("99999999999999999999")), other},
		{inOp(takeT("f(3)")), other},
		{inOp(takeT("1, 2")), other},
		{inOp("  use(@);"), other},
		{inOp("  a[0] = @;"), other},
		{inOp("  s->t = @;"), other},
		{inOp("  *t = @;"), other},
		{inOp("  void* t;\n  for (;;) { t = @; }"), other},
		{inOp("  void* t = @;\n  for (; a; TVMBackendFreeWorkspace(1, 0, t)) ;"), other},
		{inOp("  for (int i = 0; i < 9; ++i) {\n" + takeT("15") + "\n  }"), other},
		{inOp("  do\n {" + takeT("15") + "\n  } while (num_args > 99);"), other},
		{inOp("  switch (a) {\n  case 1: {" + takeT("15") + "\n  }\n  }"), other},
		{inOp("  if (num_args > 1) {\n" + takeT("14") + "\n  }"), other},
		{inOp("  if (a) return -1; else {\n" + takeT("14") + "\n  }"), other},
		{
			inOp("  float* t = ((float*)((float*)TVMBackendAllocWorkspace(1, 0, (uint64_t)48384ULL, 2, 32)));" + giveT),
			other,
		},
		{inOp("  void *t;\n  t = @;" + giveT), other},
		{inOp("  void *t, *u;\n  if ((t = @) == NULL) return -1;" + giveT), other},
		{inOp("  void* const t = @;" + giveT), other},
		{inOp("  void* t = @;\n  WHEN(a) TVMBackendFreeWorkspace(1, 0, t);"), other},
		{inOp("  void* t = @;\n  (void)TVMBackendFreeWorkspace(1, 0, t);"), other},
		{inOp("  void* t = @;\n  TVMBackendFreeWorkspace(1, 0, (void*)(t));"), other},
		{"#define N 8\n" + inOp(takeT("(uint64_t)N")), other},
		{"static const size_t n = 8;\n" + inOp(takeT("n * 2")), other},
		{"enum { ROWS = 3 };\n" + inOp(takeT("ROWS * 4")), other},
		{inOp("  const int64_t n = 4 * 5;\n" + takeT("(uint64_t)n")), other},
		{inOp(takeT("10 * sizeof(float)")), other},
		{inOp("  while ((t = @) != NULL) ;"), other},
		{inOp("  FOR_EACH(i) { void* t = @; }"), other},
		{inOp("  void* t = @;\n  { void* t = @; }" + giveT), other},
		{inOp("  void* t = @;\n  if (a) {" + giveT + "\n  }"), other},
		{inOp("  void* t = @;\n  while (a) {" + giveT + "\n  }"), other},
		{inOp("  void* t = @, *u = t;\n  TVMBackendFreeWorkspace(1, 0, u);"), other},
		{inOp("  void* t = @;\n  if (a) goto end;" + giveT + "\nend: ;"), "has a line that is not understood"},
		{inOp("  void* (*take)(int, int, uint64_t, int, int) = TVMBackendAllocWorkspace;"), other},
		{inOp("  void* t = ({ @; });"), other},
		{inOp("  TVMPlatformMemoryAllocate(5, dev, &t);"), other},
		{
			"static void* (*take)(int, int, uint64_t, int, int) = &TVMBackendAllocWorkspace;\n" + inOp(""),
			other,
		},
		{
			"static const api_t api = {TVMBackendAllocWorkspace};\n" + inOp(""),
			other,
		},
		{
			"#define TAKE(n) TVMBackendAllocWorkspace(1, 0, n, 0, 8)\n" + inOp("  void* t = TAKE(5);"),
			other,
		},
		{"#define TAKE \\\n  TVMBackendAllocWorkspace\n" + inOp("  void* t = TAKE(1, 0, 5, 0, 8);"), other},
		{
			"#define CAT(a, b) a##b\n" + inOp("  void* t = CAT(TVMBackendAlloc, Workspace)(1, 0, 5, 0, 8);"),
			other,
		},
		{fmt.Sprintf(grab, "n") + inOp("  void* t = grab(5);"), other},
		{fmt.Sprintf(grab, "9") + inOp("  void* t = grab(5);"), other},
		{
			helper + inOp("  void (*f)(void) = helper;\n  f();"),
			"helper in codegen/host/src/lib0.c allocates and is called through",
		},
		{helper + "static void (*const f)(void) = helper;\n" + inOp("  f();"), "its callers are unknown"},
		{
			helper + inOp("  TVMBackendGetFuncFromEnv(ctx, \"helper\", &f);"),
			"is called through a pointer or by its name",
		},
		{helper + "DEFINE_OP(op) { helper(); }\n" + inOp(""), "callers are unknown"},
		{inOp("  op(args);\n" + takeT("5")), "is recursive"},
		{inOp("  int x = \"\n" + takeT("5")), other},
		{inOp("  {{{" + strings.Repeat("if (a) ", 1000) + takeT("5") + "}}}"), other},
	} {
		source, want := c.source, c.want
		w := workspaceOf(source)
		if !slices.ContainsFunc(w.Unknown, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%s\ngot %v %v\nwant %s", source, w.Unsure(), w.Steps, want)
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
	const header = "#pragma once\nstatic inline void helper(void) {\n" +
		"void* t = TVMBackendAllocWorkspace(1, 0, 3, 0, 8);\n TVMBackendFreeWorkspace(1, 0, t); }\n"
	m.Headers = []mlf.File{{Name: "codegen/host/include/helper.h", Data: []byte(header)}}
	w = Of(new(mlf.Archive), m)
	if stepsOf(w, "op") != "+3 -" || stepsOf(w, "helper") != "+3 -" || w.Unsure() != nil {
		t.Errorf("of a header: %v", w)
	}
}

// TestWorkspaceLeaks names what a function does not free.
func TestWorkspaceLeaks(t *testing.T) {
	const take = "  void* t = TVMBackendAllocWorkspace(1, 0, 2048, 0, 8);\n  "
	for body, want := range map[string]string{
		take + "if (t == NULL) {\n    return -1;\n  }":   "+2048",
		take + "if (a) {\n    return 0;\n  }" + giveT:    "+2048 -",
		take + "if (a) return 0u;" + giveT:               "+2048 -",
		take + "if (a) return;" + giveT:                  "+2048 -",
		take + "if (a) return kTvmErrorNoError;" + giveT: "+2048 -",
		take + "if (t == NULL || a) return;" + giveT:     "+2048 -",
		take + "if (!t) return;" + giveT:                 "+2048 -",
		take + "if (e != 0) return e;" + giveT:           "+2048 -",
		take + "if (t != NULL) ; else return;" + giveT:   "+2048 -",
	} {
		w := workspaceOf(inOp(body))
		const wanted = "function op in codegen/host/src/lib0.c does not free t: each call allocates more"
		if got := stepsOf(w, "op"); got != want || !slices.Equal(w.Unsure(), []string{wanted}) {
			t.Errorf("%s\ngot %s, %v", body, got, w.Unsure())
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
		{"macro of macros", "#define A 4\n#define B (A * 8)\n" + inOp(takeT("B + A")), "", other},
		{"macro of itself", "#define N N + 1\n" + inOp(takeT("N")), "", other},
		{"macro with parameters", "#define N(x) (4 * (x))\n" + inOp(takeT("N(3)")), "", other},
		{"sizeof a variable", inOp("  float x[4];\n" + takeT("sizeof(x)")), "", other},
		{"sizeof an array", inOp(takeT("sizeof(float[4])")), "", other},
		{"sizeof a typedef", "typedef float T;\n" + inOp(takeT("sizeof(T)")), "", other},
		{"sizeof a renamed type", "#define float double\n" + inOp(takeT("sizeof(float)")), "", other},
		{"hexadecimal", inOp(takeT("0x1FfUL")), "", other},
		{"rounded up", inOp(takeT("(size_t)(100 + 31) & (size_t)~31U")), "", other},
		{"casts", inOp(takeT("(uint64_t)((int32_t)25 * (uint16_t)(0x4u))")), "", other},
		{"narrow cast", inOp(takeT("400 - (uint8_t)300")), "", other},
		{"cast to an unknown type", inOp(takeT("400 - (small_t)300")), "", other},
		{"narrow constant", "static const uint8_t n = 300;\n" + inOp(takeT("400 - n")), "", other},
		{"fraction", "static const double n = 1;\n" + inOp(takeT("100 * (n / 2)")), "", other},
		{"negative", inOp(takeT("-1 < 2 ? 100 : 10")), "", other},
		{"overflow", inOp(takeT("65536 * 65536")), "", other},
		{"nested calls", inOp("  void* t = check(most(3, @));" + giveT), "", other},
		{"size by a call", inOp(takeT("most(3, 5)")), "", other},
		{
			"hidden constant", "static const int n = 5;\n" + inOp("  int a = 3, n = f();\n"+takeT("n")),
			"", other,
		},
		{
			"constant hidden without value", "enum { N = 5 };\n" + inOp("  int a, N; get(&N);\n"+takeT("N")), "",
			other,
		},
		{
			"constant hidden by an enumerator", "enum { N = 5 };\n" + inOp("  enum { M, N };\n"+takeT("N")), "",
			other,
		},
		{
			"constant hidden by a parameter", "static const int n = 5;\nint op(int* n) {\n" + takeT("n") + "\n  return 0;\n}\n",
			"", other,
		},
		{
			"constant of an inner scope", "static const int n = 50;\n" + inOp("  { const int n = 5; }\n"+takeT("n")), "",
			other,
		},
		{"at once", holding("  void* u = @;\n  TVMBackendFreeWorkspace(1, 0, u);"), "+1000 +5 - -", exact},
		{"one after the other", inOp(takeT("3") + strings.ReplaceAll(takeT("4"), "void* ", "")), "", other},
		{
			"in one declaration", inOp("  void *t = @, *u = @;\n  TVMBackendFreeWorkspace(1, 0, u);" + giveT),
			"", other,
		},
		{"helper while holding", variedHelper + holding("  helper();"), "+1000 +8 - -", exact},
		{"helper by a macro", variedHelper + "#define HELP() helper()\n" + inOp("  helper();") + strings.Replace(
			holding("  HELP();"), "op(", "second(", 1), "", "its callers are unknown"},
		{"helper renamed", variedHelper + "#define run helper\n" + holding("  run();"), "", "its callers are unknown"},
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
			"  void* t = @;\n  TVMBackendFreeWorkspace(helper(), 0, t);"), "", other},
		{"wrapped", "static void* grab(uint64_t n) {\n  return " + take + "(1, 0, n, 2, 32);\n}\n" +
			inOp("  void* t = grab(5);"+giveT), "", other},
		{"freed by a wrapper", "static int drop(void* t) {\n  return TVMBackendFreeWorkspace(1, 0, t);\n}\n" +
			inOp("  void* t = @;\n  drop(t);"), "", "not what it has taken last"},
		{
			"freed by a macro", "#define GIVE(t) TVMBackendFreeWorkspace(1, 0, t)\n" + inOp("  void* t = @;\n  GIVE(t);"), "",
			other,
		},
		{
			"composed", "#define CAT(a, b) a##b\n" + inOp("  void* t = CAT(TVM, BackendAllocWorkspace)(1, 0, 5, 0, 8);"+giveT),
			"",
			other,
		},
		{"in assembly", inOp("  asm(\"bl TVMBackendAllocWorkspace\");"), "", other},
		{
			"in assembly at file scope", "asm(\"run: b TVMBackendAllocWorkspace\");\n" + inOp("  run();"),
			"", other,
		},
		{
			"by the runtime", inOp("  TVMFuncRegisterGlobal(\"f\", f, 0);"),
			"", other,
		},
		{"in a loop", inOp("  for (int i = 0; i < 3; ++i) t[i] = @;"), "", other},
		{
			"in a loop again", inOp("  void* t = @;\n  for (;;) {" + giveT + "\n  t = @;\n  }" + giveT),
			"", other,
		},
		{
			"kept by a break", inOp("  for (;;) {\n  if (a) {\n  void* t = @;\n  break;\n  }\n  }"),
			"", other,
		},
		{
			"freed under an #if", inOp("  void* t = @;\n#ifdef A\n" + giveT + "\n#endif"), "",
			other,
		},
		{
			"freed after &&", inOp("  void* t = @;\n  if (a && TVMBackendFreeWorkspace(1, 0, t)) return -1;"), "",
			other,
		},
		{
			"freed after ?", inOp("  void* t = @;\n  a ? TVMBackendFreeWorkspace(1, 0, t) : 0;"),
			"", other,
		},
		{
			"freed if it is there", inOp("  void* t = @;\n  if (t && TVMBackendFreeWorkspace(1, 0, t)) return -1;"),
			"", other,
		},
		{"freed if it is not there", inOp("  void* t = @;\n  if (t == NULL)" + giveT), "", other},
		{"freed if all is there", inOp("  void* t = @;\n  if (t && a)" + giveT), "", other},
		{"freed by else", inOp("  void* t = @;\n  if (t) a(); else" + giveT), "", other},
		{
			"freed after a macro", inOp("  void* t = @;\n  CHECK(a) if (b) TVMBackendFreeWorkspace(1, 0, t);"), "",
			other,
		},
		{
			"changed", holding("  void* u = @;\n  void* x = t;\n  t = u;\n  u = x;\n  TVMBackendFreeWorkspace(1, 0, u);"), "",
			"has a line that is not understood",
		},
		{"counted up", holding("  t++;"), "", "has a line that is not understood"},
		{"address taken", holding("  change(&t);"), "", "has a line that is not understood"},
		{"used", holding("  t[3] = a & t[0];\n  use(&a[3], t == a, t);"), "+1000 -", exact},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := workspaceOf(c.source)
			got := stepsOf(w, "op")
			switch {
			case c.doubt == exact && (got != c.steps || w.Unsure() != nil):
				t.Errorf("%s\ngot %s, %v; want %s", c.source, got, w.Unsure(), c.steps)
			case c.doubt != exact &&
				!slices.ContainsFunc(w.Unknown, func(s string) bool { return strings.Contains(s, c.doubt) }):
				t.Errorf("%s\ngot %s, %v; want %s", c.source, got, w.Unsure(), c.doubt)
			}
		})
	}
}
