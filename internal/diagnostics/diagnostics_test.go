package diagnostics

import (
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]failure.Class{
		"ld: region `FLASH' overflowed by 1234 bytes\ncollect2: error: ld returned 1 exit status": failure.DoesNotFit,
		"a.o: in function `f': undefined reference to `g'":                                        failure.Link,
		"a.c:1:2: error: expected ';'":                                                            failure.Compile,
		"":                                                                                        failure.Compile,
		"make: ./gen: No such file or directory\nmake: *** [Makefile:2: a.c] Error 127": failure.ToolMissing,
		"FAILED: a.c\n./gen a.c\n/bin/sh: 1: ./gen: not found\n":                        failure.ToolMissing,
		"a.c:1:2: error: \"x: not found\"":                                              failure.Compile,
	} {
		if got := Classify(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	const west = "FATAL ERROR: command exited with status 1: cmake --build /p/build\n"
	const maker = "make: *** [Makefile:1: b.c] Error 1\n"
	const warned = "a.c: In function ‘f’:\na.c:1:2: warning: unused ‘x’\n    1 | int x;\n      |     ^\n"
	for name, c := range map[string]struct {
		stderr, both string
		class        failure.Class
		message      string
	}{
		"west's outside of a workspace": {
			"usage: west [-h]\nwest: unknown command \"build\"; do you need to run this inside a workspace?\n", "",
			failure.Config, "usage: west [-h]\nwest: unknown command \"build\"; do you need to run this inside a workspace?",
		},
		"a compiler's error that ninja copies": {
			west, "[1/2] cc a.c\nFAILED: a.o\ncc -c a.c\na.c:1:2: error: expected ';'\n    1 | x\nninja: build stopped\n" + west,
			failure.Compile, "a.c:1:2: error: expected ';'\n    1 | x",
		},
		"a linker's": {
			west, "[1/2] ld\nld: region `SRAM' overflowed by 12 bytes\ncollect2: error: ld returned 1 exit status\n" + west,
			failure.DoesNotFit, "ld: region `SRAM' overflowed by 12 bytes",
		},
		"a linker's after west's": {
			west, "[1/2] ld\n" + west + "ld: region `SRAM' overflowed by 12 bytes\ncollect2: error: ld returned 1 exit status\n",
			failure.DoesNotFit, "ld: region `SRAM' overflowed by 12 bytes",
		},
		"a script's that ninja runs": {
			west, "[1/3] cc a.c\n[2/3] Generating b.c\nFAILED: b.c\ncd /p && python3 gen.py\n\nTraceback\nKeyError: 'b'\n" +
				"[3/3] cc c.c\nninja: build stopped\n" + west,
			failure.Compile, "Traceback\nKeyError: 'b'",
		},
		"a script's with an error in its command": {
			west, "FAILED: b.c\nsh -c \"echo gen: error: bad; exit 3\"\nbad table\nninja: build stopped\n" + west,
			failure.Compile, "bad table",
		},
		"a script's that make runs": {
			"1\n2\n3\n4\n5\n6\nno\n" + maker, "python3 gen.py\n1\n2\n3\n4\n5\n6\nno\n" + maker,
			failure.Compile, "2\n3\n4\n5\n6\nno\n" + strings.TrimSpace(maker),
		},
		"a script's beside a compiler's warnings": {
			warned + "no\n" + warned + maker, "python3 gen.py\n" + warned + "no\n" + warned + maker,
			failure.Compile, "no\n" + strings.TrimSpace(maker),
		},
		"a silent script's": {warned + maker, "gen\n" + warned + maker, failure.Compile, strings.TrimSpace(maker)},
		"a make's that make runs": {
			"no\nmake[1]: *** [Makefile:2: t] Error 1\n" + maker, "no\nmake[1]: *** [Makefile:2: t] Error 1\n" + maker,
			failure.Compile, "no\n" + strings.TrimSpace(maker),
		},
		"a script's that counts": {
			west, "[0/1] Re-running CMake\n[1/3] cc a.c\nFAILED: b.c\npython3 gen.py\n[1/2] reading\nno\n" +
				"[3/3] cc c.c\nninja: build stopped\n" + west,
			failure.Compile, "[1/2] reading\nno",
		},
		"a script's after a step that failed to find": {
			west, "[1/2] get\nnote: cannot find it, makes it\n[2/2] gen\nFAILED: b.c\ngen\nno\nninja: build stopped\n" + west,
			failure.Compile, "no",
		},
		"a script's after a step that counts failures": {
			west, "[1/2] try\nFAILED: 0\nPASSED: 9\ngood\n[2/2] gen\nFAILED: b.c\ngen\nno\nninja: build stopped\n" + west,
			failure.Compile, "no",
		},
		"a compiler's that says nothing": {maker, "gcc -c b.c\n" + maker, failure.Compile, strings.TrimSpace(maker)},
		"a script that says nothing": {
			west, "FAILED: b.c\nfalse\nninja: build stopped\n" + west, failure.Compile, "FAILED: b.c",
		},
		"nothing else": {west, west, failure.Compile, strings.TrimSpace(west)},
		"make": {
			"a.c:1:2: error: x\nmake: *** [a] Error 1\n", "make: error: not this\na.c:1:2: error: x\nmake: *** [a] Error 1\n",
			failure.Compile, "a.c:1:2: error: x",
		},
		"CMake": {
			"Loading Zephyr default modules (Zephyr base).\n\n/p/prj.conf:26: warning: undefined symbol NONE\n\n" +
				"error: Aborting\n\n" +
				"CMake Error at /z/kconfig.cmake:326 (message):\n  command failed\nCall Stack:\n  x:1 (y)\n" +
				west, "arm:\n  board\n",
			failure.Config, "/p/prj.conf:26: warning: undefined symbol NONE\nerror: Aborting\n" +
				"CMake Error at /z/kconfig.cmake:326 (message):\n  command failed",
		},
		"CMake after a long list": {
			"No shield named 'x' found\nChoose one of:\n1\n2\n3\n4\n5\n6\n7\n8\n9\n" +
				"CMake Error at s.cmake:1 (message):\n  See above.\n",
			"", failure.Config,
			"No shield named 'x' found\nChoose one of:\n1\n2\n3\n4\n5\n6\n…\n" +
				"CMake Error at s.cmake:1 (message):\n  See above.",
		},
		"CMake's alone": {
			"-- Found it\nCMake Error at l.cmake:1 (message):\n  1\n\n  2\n\n  3\n\n  4\n\n  5\n\n  6\n\n  7\n" +
				"Call Stack:\n  x:1 (y)\n", "",
			failure.Config, "CMake Error at l.cmake:1 (message):\n  1\n  2\n  3\n  4\n  5\n  6\n  7",
		},
	} {
		class, message, text := Explain(c.stderr, c.both)
		if workspace := strings.HasPrefix(name, "west's"); strings.Contains(Advice(message), "west init") != workspace {
			t.Errorf("%s: advice %q", name, Advice(message))
		}
		if class != c.class || message != c.message || !strings.Contains(text, strings.SplitAfter(message, "\n")[0]) {
			t.Errorf("%s: %s, %q in %q", name, class, message, text)
		}
	}
}

// TestAdvice checks the advice for messages of a linker.
func TestAdvice(t *testing.T) {
	t.Parallel()
	enums := func(uses, output string) string {
		return "ld: warning: net.o uses " + uses + " enums yet the output is to use " + output +
			" enums; use of enum values across objects may fail"
	}
	const (
		onlyPrograms = "only programs of this computer have"
	)
	for says, want := range map[string]string{
		enums("32-bit", "variable-size"):                                  "compile it with -fshort-enums,",
		enums("variable-size", "32-bit"):                                  "compile it with -fno-short-enums,",
		"/bin/arm-ld: cannot find -lasan: No such file or directory":      onlyPrograms,
		"/bin/arm-ld: net.o: undefined reference to `__ubsan_handle_x'":   onlyPrograms,
		"/bin/arm-ld: net.o: undefined reference to `ubsan_of_the_model'": "",
	} {
		text := says + "\ncollect2: error: ld returned 1 exit status"
		class, message, _ := Explain(text, text)
		if got := Advice(message); class != failure.Link || !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %s, advice %q", message, class, got)
		}
	}
}

// TestWarnings: those of configure steps come whole, without a hint that is the same for each, and nothing else does.
func TestWarnings(t *testing.T) {
	t.Parallel()
	const output = `-- Found it
CMake Warning at CMakeLists.txt:5 (message):
  odd thing

   second line


Loading Zephyr default modules (Zephyr base).

warning: FPU_SHARING (defined at arch/Kconfig:796) was assigned the value 'y' but got the value 'n'.
Check these unsatisfied dependencies: FPU (=n). See
http://docs.zephyrproject.org/latest/kconfig.html#CONFIG_FPU_SHARING and/or look up FPU_SHARING in
the menuconfig/guiconfig interface.

/p/prj.conf:3: warning: attempt to assign the value '300' to the undefined symbol NONE

/p/zephyr.dts:12.20-15.5: Warning (simple_bus_reg): /soc/x: missing or empty reg/ranges property
a.c:1:2: warning: unused
CMake Deprecation Warning at x.cmake:1 (cmake_minimum_required):
  Compatibility with CMake < 3.5 will be removed

ld: warning: x
CMake Warning:
  Manually-specified variables were not used by the project:

    CONF_X
`
	var w Warnings
	var got []string
	for _, line := range append(strings.Split(output, "\n"), ".") {
		if text := w.Ended(line); text != "" {
			got = append(got, text)
		}
	}
	want := []string{
		"CMake Warning at CMakeLists.txt:5 (message): odd thing second line",
		"warning: FPU_SHARING (defined at arch/Kconfig:796) was assigned the value 'y' but got the value 'n'. " +
			"Check these unsatisfied dependencies: FPU (=n).",
		"/p/prj.conf:3: warning: attempt to assign the value '300' to the undefined symbol NONE",
		"/p/zephyr.dts:12.20-15.5: Warning (simple_bus_reg): /soc/x: missing or empty reg/ranges property",
		"CMake Warning: Manually-specified variables were not used by the project: CONF_X",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestFirstError(t *testing.T) {
	t.Parallel()
	const warned = "/usr/bin/../bin/ld: warning: a.o: missing .note.GNU-stack section"
	for text, want := range map[string]string{
		"a.c:1:2: error: expected ';'\n    1 | x\nmake: *** [Makefile:1: a.o] Error 1": "a.c:1:2: error: expected ';'\n" +
			"    1 | x",
		warned + "\ncollect2: error: ld returned 1 exit status\nmake: *** [a] Error 1": warned,
		warned + "\nld: a.o: undefined reference to `g'\ncollect2: error: ld returned": "ld: a.o: undefined reference to `g'",
		warned + "\n/bin/arm-ld: cannot open linker script file a.ld\ncollect2: error: ld returned": "/bin/arm-ld: " +
			"cannot open linker script file a.ld",
		"a.c:4:10: warning: format ‘%d’\n    4 |   printf(\"I/O error: %d\\n\", k);\n      |   ^~~\n" +
			"b.c:1:2: warning: #warning cannot find it: error: 1\nb.c:2: note: error: before\n" +
			"a.c:5:10: error: ‘x’ undeclared": "a.c:5:10: error: ‘x’ undeclared",
		"In file included from a.c:1,\n                 from b.c:2:\na.h: In function ‘f’:\n" +
			"c.h:1:1: error: two or more data types\n": "In file included from a.c:1,\n                 from b.c:2:\n" +
			"c.h:1:1: error: two or more data types",
		"nothing of note": "",
	} {
		if got := FirstError(text); got != want {
			t.Errorf("of %q got %q", text, got)
		}
	}
}

func TestAssertion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`error: static assertion failed: "core_hz: 0"` + "\n   73 |   _Static_assert(": "core_hz: 0",

		`a.c:1:1: error: static_assert failed "core_hz: 0"`:                 "core_hz: 0",
		`error: static assertion failed due to requirement '0': core_hz: 0`: "core_hz: 0",
		`a.c:3:2: error: #error "link.baud: no setting"`:                    "link.baud: no setting",
		"/bin/arm-ld: error: startup: x\ncollect2: error: ld returned 1":    "startup: x",
		"ld.bfd: error: startup: y":                                         "startup: y",
		`a.c:3:2: warning: #warning "x"`:                                    "",
		`a.c:3:2: error: 'USART_9' undeclared`:                              "",
	} {
		if got := Assertion(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
