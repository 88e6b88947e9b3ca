// This file lists the tools that only the checks of boardsmith itself need.

package develop

import (
	"os"

	"github.com/boardsmith/boardsmith/targets/internal/toolbox"
)

func init() { toolbox.Add(tools...) }

// tools lists what doctor and setup look for in this repository, in addition to the users' tools.
var tools = []toolbox.Tool{
	{
		Name: "C++ compiler", Use: "checking the runtime's headers as C++", Apt: "g++", Linux: true,
		Command: []string{"g++", "-fsyntax-only", "-x", "c++", "-"}, Source: "#include <stdint.h>\n",
	},
	{Name: "git", Use: "the commit in reports", Apt: "git", Command: []string{"git", "--version"}},
	cmocka,
	{
		Name: "cppcheck", Use: "lint of the C sources", Apt: "cppcheck", Linux: true,
		Command: []string{"cppcheck", "--version"},
	},
	{
		Name: "clang-format", Use: "lint of the C sources", Apt: "clang-format", Linux: true,
		Command: []string{"clang-format", "--version"},
	},
	{
		Name: "python3", Use: "cppcheck's MISRA add-on", Apt: "python3", Linux: true,
		Command: []string{"python3", "--version"},
	},
	{Name: "clang", Use: "fuzzing the C parsers", Apt: "clang", Linux: true, Command: []string{"clang", "--version"}},
	{
		Name: "libFuzzer", Use: "fuzzing the C parsers", Apt: "libclang-rt-dev", Linux: true,
		Command: []string{"clang", "-fsanitize=fuzzer,address", "-x", "c", "-", "-o", os.DevNull},
		Source: "#include <stddef.h>\n#include <stdint.h>\n" +
			"int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { return (int)((d != 0) && (n > 0)) * 0; }\n",
	},
	{
		Name: "strace", Use: "the test of what a candidate costs", Apt: "strace", Linux: true,
		Command: []string{"strace", "--version"},
	},
	{
		Name: "Chromium", Use: "the test of the report of tuning runs", Apt: "chromium-headless-shell", Linux: true,
		Command: []string{"chromium-headless-shell", "--version"},
	},
	{ // versions that work together: docs/tvm.md
		Name: "Apache TVM", Use: "tests of package serve with TVM's own client", Linux: true,
		Python:  "apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post1 tornado==6.6.1 cloudpickle==3.1.3 psutil==7.2.2",
		Command: []string{"tvm-ffi-config", "--libdir"},
	},
	{
		Name: "ONNX", Use: "the tests of the exporter, with Apache TVM", Linux: true,
		Python:  "onnx==1.23.2 tflite==2.18.0 ai-edge-litert==2.3.0 tflite-micro==0.dev20261023182759",
		Command: []string{"check-model", "--help"},
	},
	{
		Name: "generators of C", Use: "the test of models in plain C, with ONNX", Linux: true,
		Python:  "emx-onnx-cgen==1.4.0 emlearn==0.23.2 scikit-learn==1.9.1 bakenn==1.0.0",
		Command: []string{"emx-onnx-cgen", "--help"},
	},
	{
		Name: "debootstrap", Use: "a bare Debian to test in", Apt: "debootstrap", Linux: true,
		Command: []string{"debootstrap", "--version"},
	},
}

// cmocka is the library that the C unit tests need.
var cmocka = toolbox.Tool{
	Name: "cmocka", Use: "the C unit tests", Apt: "libcmocka-dev", Linux: true,
	Command: []string{"cc", "-fsyntax-only", "-x", "c", "-"},
	Source:  "#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <cmocka.h>\n",
}
