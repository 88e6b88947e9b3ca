package targets

import (
	"encoding/json"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/boardsmith/boardsmith"

// mayImport lists the packages of ours that each package may import. Every package must be listed.
var mayImport = map[string][]string{
	magefile: {"targets", "internal/develop"},
	"cmd":    {"projectapi", "emulated", "project", "device", "internal/virtualprobe"},
	"targets": {
		"accept", "registers", "scaffold", "schemas", "projectapi", "project", "executor", "device", "emulated", "image",
		"cmodel", "progress", "validate", "release", "modellib",
		"cache", "rpc", "standalone", "transport",
		"boards", "mlf", "ndarray", "samples", "failure", "internal/boardsmithjson",
		"internal/command",
		"internal/console", "internal/gitfolder", "internal/inputs", "internal/jsonlines", "internal/sourcetree",
		"internal/toolbox", "internal/tuning",
		"internal/valuetext", "internal/virtualprobe", "internal/wholefolder",
	},

	// A project is a folder, and the way from it to a device. What stands in one line imports nothing of it but to its
	// right.
	"project": {
		"internal/abspath",
		"device", "internal/generator", "internal/gitfolder", "internal/library", "internal/blueprint", "internal/fit",
		"image",
		"internal/firmware", "progress",
		"cache", "rpc", "standalone", "cmodel", "boards", "mlf", "ndarray", "crt", "templates", "failure",
		"internal/cmacro", "internal/command", "internal/filelock",
		"internal/jsonfile",
		"internal/plainfile", "internal/scratch", "internal/sourcetree",
		"internal/spdx", "internal/toolwords",
	},
	"device": {
		"internal/abspath",
		"internal/attached", "internal/flashplan", "internal/fault", "image", "internal/firmware", "internal/ledger",
		"flasher", "progress", "cache", "rpc", "standalone", "transport", "boards", "failure", "internal/command",
		"internal/jsonfile",
		"internal/plainfile", "internal/scratch",
	},
	"emulated": {"device", "flasher", "failure", "internal/virtualprobe"},
	"internal/generator": {
		"internal/blueprint", "internal/library", "boards", "mlf", "failure", "internal/command",
	},
	"internal/blueprint": {
		"internal/fit", "internal/stackdepth", "internal/firmware", "boards", "templates", "failure", "internal/jsonfile",
		"internal/plainfile",
	},
	"internal/fit":       {"image", "internal/stackdepth", "internal/firmware", "boards", "mlf", "ndarray", "failure"},
	"internal/flashplan": {"flasher", "image", "internal/firmware", "internal/ledger", "boards", "failure"},
	"internal/fault":     {"internal/firmware", "rpc"},
	"image":              {"internal/abspath", "internal/firmware", "cache", "failure", "internal/plainfile"},
	"internal/firmware":  {"failure"},
	"internal/ledger":    {"internal/abspath", "failure", "internal/filelock"},
	"progress":           {},
	"tune/space":         {"internal/abspath", "ndarray", "failure", "internal/jsonfile", "internal/plainfile"},
	"executor":           {"rpc", "standalone", "mlf", "ndarray", "failure"},
	"standalone":         {"rpc", "transport", "failure"},
	"cmodel":             {"crt", "mlf", "ndarray", "failure"},

	"scaffold": {"boards", "templates", "failure"},
	"schemas":  {}, // of files that people write

	// The folder of a finished firmware.
	"release": {
		"project", "modellib", "cmodel", "image", "boards", "mlf", "failure", "internal/gitfolder", "internal/plainfile",
		"internal/spdx", "internal/wholefolder",
	},
	"modellib": {
		"cmodel", "image", "boards", "mlf", "failure", "internal/abspath", "internal/command", "internal/fit",
		"internal/toolwords",
	},

	// Compares a model's outputs on a device with expected ones.
	"validate": {"project", "executor", "cmodel", "image", "rpc", "boards", "mlf", "ndarray", "failure"},

	// Tests a board on the board itself.
	"accept": {
		"project", "device", "crt", "image", "rpc", "transport", "boards", "mlf", "ndarray", "failure",
		"internal/gitfolder",
	},

	// Compares a board's C with a description of its chip.
	"registers": {
		"project", "boards", "mlf", "samples", "failure", "internal/blueprint", "internal/cmacro", "internal/jsonfile",
		"internal/svd",
	},

	// TVM's Project API: a project and its device, for somebody else's program.
	"projectapi": {
		"internal/abspath", "project", "device", "transport",
		"boards", "mlf", "templates", "failure", "internal/command",
	},

	"examples/tune-matmul": {"tune", "project", "device", "ndarray"}, // programs as users write them

	// Chooses what is measured next.
	"tune/search": {
		"internal/abspath",
		"tune", "tune/space", "project", "executor", "device", "image", "rpc", "mlf", "ndarray", "failure",
		"internal/filelock", "internal/timegate",
	},

	// Measures on devices what a project's linker made.
	"tune": {
		"internal/abspath",
		"project", "device", "image", "rpc", "transport", "boards", "mlf", "ndarray", "failure", "internal/command",
		"internal/filelock", "internal/scratch", "internal/timegate",
	},

	"cache":     {"internal/abspath", "internal/filelock", "failure"},
	"flasher":   {"internal/abspath", "boards", "failure", "internal/command"},
	"rpc":       {"transport", "ndarray", "failure"},
	"transport": {"internal/abspath", "failure"},

	"boards":    {"internal/abspath", "internal/jsonfile", "failure"},
	"mlf":       {"internal/cmacro", "internal/plainfile", "ndarray", "failure"},
	"ndarray":   {"internal/plainfile", "failure"},
	"samples":   {"ndarray"},
	"crt":       {},
	"templates": {},
	"failure":   {},

	"internal/abspath":        {},
	"internal/attached":       {"failure"},
	"internal/boardstest":     {},
	"internal/boardsmithjson": {"internal/gitfolder", "internal/jsonfile", "internal/plainfile", "failure"},
	"internal/command":        {"internal/abspath", "failure"},
	"internal/console":        {"internal/jsonlines", "rpc", "failure"},
	"internal/jsonlines":      {},
	"internal/develop": {
		"internal/console", "internal/jsonlines", "internal/toolbox", "internal/command", "internal/drawn",
		"internal/testcache", "internal/svd", "failure",
	},
	"internal/cmacro":      {},
	"internal/svd":         {"internal/plainfile", "failure"},
	"internal/drawn":       {},
	"internal/failuretest": {"failure"},
	"internal/filelock":    {},
	"internal/gitfolder": {
		"internal/abspath", "internal/command", "internal/filelock", "internal/jsonfile", "internal/plainfile", "failure",
	},
	"internal/inputs": {
		"device", "boards", "mlf", "ndarray", "samples", "failure", "internal/boardsmithjson", "internal/console",
		"internal/gitfolder", "internal/jsonfile",
	},
	"internal/jsonfile":   {"failure"},
	"internal/library":    {"internal/jsonfile", "failure"},
	"internal/mlftest":    {"mlf", "ndarray"},
	"internal/plainfile":  {"failure"},
	"internal/rpctest":    {"internal/transporttest", "rpc", "transport", "ndarray"},
	"internal/scratch":    {"internal/abspath", "internal/filelock", "failure"},
	"internal/sourcetree": {"internal/command", "failure"},
	"internal/stackdepth": {"internal/firmware"},
	"internal/testcache":  {},
	"internal/timegate":   {},
	"internal/toolbox": {
		"internal/abspath", "internal/attached", "internal/console", "internal/jsonlines", "internal/ledger", "failure",
	},
	"internal/toolwords":     {"failure"},
	"internal/transporttest": {"transport", "failure"},
	"internal/tuning": {
		"internal/abspath",
		"tune", "tune/search", "tune/space", "tune/report", "project", "device", "boards", "mlf", "ndarray", "failure",
		"internal/console", "internal/inputs", "internal/jsonfile", "internal/jsonlines", "internal/valuetext",
	},
	"internal/valuetext":    {"ndarray"},
	"internal/spdx":         {},
	"internal/wholefolder":  {"internal/plainfile", "internal/scratch", "failure"},
	"internal/virtualprobe": {"internal/abspath", "transport", "failure", "internal/command", "internal/filelock"},
	"internal/zephyrtest":   {},
}

// magefile is the place of boardsmith's own magefile, the package in the root.
const magefile = "magefile"

// place is the part of a package's path that has a place in the import direction: the first word, or two if the table
// lists them.
func place(name string) (top string, nested bool) {
	words := strings.Split(name, "/")
	n := 1
	if _, own := mayImport[strings.Join(words[:min(2, len(words))], "/")]; own || words[0] == "internal" {
		n = min(2, len(words))
	}
	return strings.Join(words[:n], "/"), len(words) > n
}

// TestImportDirection keeps imports pointing one way, for packages and for their tests' packages that ship.
func TestImportDirection(t *testing.T) {
	cmd := exec.Command("go", "list", "-tags=mage", "-deps", "-json=ImportPath,Imports", module+"/...")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, said.String())
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	seen := 0
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name, ours := strings.CutPrefix(p.ImportPath, module+"/")
		if p.ImportPath == module {
			name, ours = magefile, true
		}
		if !ours {
			continue
		}
		seen++
		checkImports(t, name, p.Imports)
	}
	if seen < 8 {
		t.Errorf("go list named %d packages of ours: the test looks at the wrong place", seen)
	}
}

// TestLibrariesLinkNoEmulatedChips: only a program that imports package emulated links the software for emulated chips.
func TestLibrariesLinkNoEmulatedChips(t *testing.T) {
	const chips = module + "/internal/virtualprobe"
	for _, name := range slices.Sorted(maps.Keys(mayImport)) {
		if name == magefile || name == "cmd" || strings.HasPrefix(name, "internal/") {
			continue
		}
		out, err := exec.Command("go", "list", "-deps", module+"/"+name).Output()
		if err != nil {
			t.Fatalf("go list -deps of %s: %v", name, err)
		}
		links, wanted := slices.Contains(strings.Fields(string(out)), chips), name == "emulated" || name == "targets"
		if links != wanted {
			t.Errorf("package %s depends on %s: %v, want %v", name, chips, links, wanted)
		}
	}
}

func checkImports(t *testing.T, name string, imports []string) {
	t.Helper()
	top, nested := place(name)
	allowed, known := mayImport[top]
	if !known {
		t.Errorf("package %s has no place in the import direction: give it one here and in DESIGN.md", name)
		return
	}
	for _, i := range imports {
		to, ours := strings.CutPrefix(i, module+"/")
		if !ours {
			continue
		}
		toTop, _ := place(to)
		if nested && toTop == top { // internal/virtualprobe/keepertest may use internal/virtualprobe
			continue
		}
		if !slices.Contains(allowed, toTop) {
			t.Errorf("%s imports %s, which points the wrong way", name, to)
		}
	}
}
