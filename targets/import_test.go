package targets

import (
	"encoding/json"
	"io"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/boardsmith/boardsmith"

// mayImport is the list of packages, each with those of ours that it may import. A folder stands for all packages in it
// that have no line of their own, which may import each other.
var mayImport = map[string][]string{
	magefile: {"targets", "internal/develop"},
	"cmd":    {"projectapi", "device/emulated", "project", "device", "internal/virtualprobe"},

	// What people type, and what serves it: environment, output, files that people write.
	"targets": {
		"internal/cli", "internal/boardlab", "internal/boardsmithjson", "projectapi", "measure",
		"tune/report", "validate", "release",
		"internal/templatecheck", "project", "executor", "device", "internal/plainc", "device/emulated", "image", "cmodel",
		"cache", "rpc", "rpc/fault", "internal/standalone", "transport", "boards", "mlf", "ndarray", "examples/samples",
		"failure", "internal/command", "internal/gitfolder", "internal/sourcetree", "internal/virtualprobe", "internal/files",
		"internal/fit", "internal/library", "internal/spelling", "internal/valuetext",
	},
	"internal/cli": {
		"tune", "tune/search", "tune/space", "tune/report", "serve", "project", "device", "rpc/fault",
		"boards", "mlf", "ndarray", "templates", "internal/boardsmithjson", "examples/samples", "examples/own-firmware",
		"failure", "internal/desk", "internal/command", "internal/gitfolder", "internal/ledger", "internal/files",
		"internal/boardfile", "internal/tensorlist", "internal/spelling", "internal/valuetext",
	},

	// Uses of a project.
	"internal/templatecheck": {
		"project", "device", "internal/builddir", "internal/imagecheck", "internal/projectfile", "internal/buildenv",
		"internal/workdir", "internal/generator", "internal/blueprint", "image", "internal/firmware", "cache", "rpc",
		"boards", "mlf", "failure", "internal/files", "internal/boardfile",
	},
	"release": {
		"project", "cmodel", "image", "boards", "mlf", "failure", "internal/builddir", "internal/projectfile",
		"internal/buildenv", "internal/workdir", "internal/generator", "internal/blueprint", "internal/library",
		"internal/gitfolder", "internal/spdx", "internal/files",
	},
	"measure": {
		"validate", "project", "executor", "device", "image", "rpc", "boards", "mlf", "failure", "internal/deadline",
		"internal/files", "internal/tensorlist", "internal/valuetext",
	},
	"validate": {
		"project", "executor", "cmodel", "image", "rpc", "boards", "mlf", "ndarray", "failure", "internal/deadline",
		"internal/tensorlist", "internal/spelling", "internal/tolerance",
	},
	"internal/boardlab": {
		"project", "device", "crt", "image", "rpc", "rpc/fault", "transport", "boards", "mlf", "ndarray",
		"examples/samples", "failure", "internal/blueprint", "internal/cmacro", "internal/gitfolder", "internal/files",
		"internal/boardfile", "internal/ramlink",
	},
	"projectapi": {
		"project", "device", "transport", "boards", "mlf", "templates", "failure", "internal/command",
		"internal/files", "internal/framing",
	},
	"examples/tune-matmul": {"tune", "project", "device"}, // a program as users write them
	"tune/search": {
		"tune", "tune/space", "project", "executor", "device", "image", "rpc", "mlf", "ndarray", "failure",
		"internal/timegate", "internal/files", "internal/tensorlist", "internal/tolerance",
	},
	"tune": {
		"serve", "project", "device", "image", "rpc", "rpc/fault", "transport", "boards", "mlf", "ndarray", "failure",
		"internal/buildenv", "internal/toolwords", "internal/command", "internal/timegate", "internal/files",
		"internal/boardfile", "internal/tensorlist", "internal/ramlink", "internal/tolerance", "internal/cachekey",
	},
	"serve":       {"rpc", "rpc/fault", "internal/tvmrpc", "transport", "internal/files", "failure"}, // TVM's RPC server
	"tune/space":  {"ndarray", "failure", "internal/plainc", "internal/tensorlist", "internal/files"},
	"tune/report": {"tune", "measure", "device", "failure", "internal/valuetext"},

	// A project is a folder, and the way from it to a device.
	"project": {
		"device", "internal/ramlink", "internal/builddir", "internal/imagecheck", "internal/projectfile",
		"internal/buildenv", "internal/workdir", "internal/generator", "internal/gitfolder", "internal/library",
		"internal/blueprint", "internal/boardsmithjson", "internal/fit", "image", "internal/firmware", "cache",
		"rpc", "cmodel", "boards", "mlf", "ndarray", "crt", "templates", "failure", "internal/cmacro",
		"internal/command", "internal/sourcetree", "internal/toolwords", "internal/files", "internal/boardfile",
		"internal/cachekey", "internal/allocation",
	},
	"executor": {
		"rpc", "rpc/fault", "internal/standalone", "mlf", "ndarray", "failure", "internal/paramblob",
		"internal/spelling", "internal/tensorlist",
	},
	"device/emulated": {"device", "flasher", "failure", "internal/virtualprobe"},
	"device": {
		"internal/desk", "internal/flashplan", "image", "internal/firmware", "internal/ledger", "flasher", "cache",
		"rpc", "rpc/fault", "internal/standalone", "transport", "boards", "failure", "internal/command",
		"internal/files", "internal/boardfile", "internal/faultimage", "internal/framing",
	},
	"internal/builddir": {
		"internal/postlink", "internal/projectfile", "internal/buildenv", "internal/workdir", "internal/blueprint",
		"image", "cache", "boards", "failure", "internal/command", "internal/toolwords", "internal/boardfile",
		"internal/cachekey", "internal/files",
	},
	"internal/ramlink": {
		"internal/buildenv", "internal/blueprint", "internal/library", "internal/fit", "internal/firmware", "cache",
		"rpc", "boards", "mlf", "crt", "failure", "internal/command", "internal/toolwords", "internal/files",
		"internal/boardfile", "internal/cachekey",
	},
	"internal/postlink": {
		"internal/buildenv", "internal/imagecheck", "internal/workdir", "internal/blueprint", "internal/generator",
		"internal/firmware", "boards", "failure", "internal/command", "internal/files", "internal/boardfile",
		"internal/cachekey",
	},
	"internal/imagecheck": {
		"internal/blueprint", "internal/fit", "internal/firmware", "image", "boards", "mlf", "failure",
	},
	"internal/buildenv": {
		"internal/blueprint", "internal/fit", "internal/sourcetree", "boards", "failure", "internal/command",
		"internal/toolwords", "internal/files", "internal/cachekey",
	},
	"internal/projectfile": {"internal/buildenv", "internal/blueprint", "boards", "failure", "internal/files"},
	"internal/workdir":     {"internal/blueprint", "failure", "internal/files"},
	"internal/generator":   {"internal/blueprint", "internal/library", "boards", "mlf", "failure", "internal/command"},
	"internal/blueprint": {
		"internal/fit", "internal/stackdepth", "internal/firmware", "internal/library", "boards", "crt", "templates",
		"failure", "internal/files", "internal/cachekey",
	},
	"cmodel": {
		"crt", "image", "boards", "mlf", "ndarray", "failure", "internal/fit", "internal/command", "internal/toolwords",
		"internal/plainc", "internal/files", "internal/allocation", "internal/paramblob", "internal/spelling",
		"internal/tensorlist",
	},
	"internal/fit": {
		"image", "internal/stackdepth", "internal/firmware", "boards", "mlf", "ndarray", "failure",
		"internal/allocation", "internal/paramblob",
	},
	"internal/desk": {"flasher", "internal/ledger", "boards", "failure", "internal/files"},
	"internal/flashplan": {
		"flasher", "image", "internal/firmware", "internal/ledger", "boards", "failure", "internal/cachekey",
	},
	"image":               {"internal/firmware", "cache", "failure", "internal/files", "internal/cachekey"},
	"internal/faultimage": {"rpc/fault", "internal/firmware"},
	"internal/tensorlist": {"mlf", "internal/spelling", "ndarray", "failure"},
	"internal/allocation": {"mlf"},
	"internal/standalone": {"rpc", "rpc/fault", "transport", "failure"},

	// These import nothing of each other.
	"cache":   {"internal/files", "internal/cachekey"},
	"flasher": {"boards", "failure", "internal/command", "internal/files"},
	"rpc":     {"internal/tvmrpc", "rpc/fault", "transport", "ndarray", "failure"},

	// Values and files.
	"boards":                {"failure", "internal/files", "internal/boardfile"},
	"crt":                   {},
	"examples/own-firmware": {},
	"examples/samples":      {"ndarray"},
	"failure":               {},
	"mlf": {
		"internal/plainc", "internal/cmacro", "ndarray", "failure", "internal/files", "internal/spelling",
		"internal/paramblob",
	},
	"ndarray":            {"failure", "internal/files"},
	"rpc/fault":          {"failure"},
	"templates":          {},
	"transport":          {"failure", "internal/files", "internal/framing"},
	"internal/boardfile": {},
	"internal/cachekey":  {},
	"internal/framing":   {},
	"internal/paramblob": {"ndarray"},
	"internal/spelling":  {},
	"internal/cmacro":    {},
	"internal/plainc": {
		"ndarray", "failure", "internal/library", "internal/command", "internal/toolwords", "internal/files",
		"internal/spelling",
	},
	"internal/command":        {"failure", "internal/files"},
	"internal/files":          {"failure", "internal/spelling"},
	"internal/firmware":       {"failure"},
	"internal/boardsmithjson": {"internal/gitfolder", "failure", "internal/files"},
	"internal/gitfolder":      {"internal/command", "failure", "internal/files"},
	"internal/ledger":         {"internal/command", "failure", "internal/files"},
	"internal/library":        {"failure", "internal/files"},
	"internal/sourcetree":     {"internal/command", "failure"},
	"internal/spdx":           {},
	"internal/stackdepth":     {"internal/firmware"},
	"internal/timegate":       {},
	"internal/deadline":       {"failure"},
	"internal/tolerance":      {"ndarray"},
	"internal/toolwords":      {"failure"},
	"internal/tvmrpc":         {"ndarray", "failure"},
	"internal/valuetext":      {"ndarray"},
	"internal/virtualprobe":   {"transport", "failure", "internal/files"},

	// boardsmith's own checks.
	"internal/develop": {"internal/cli", "internal/boardlab", "internal/testkit", "internal/command", "failure"},
	"internal/testkit": {
		"rpc", "rpc/fault", "internal/tvmrpc", "transport", "mlf", "ndarray", "failure", "internal/framing",
	},
}

// exportedNames is how many names each package that a program can import exports at most: types, functions, constants
// and variables, without methods and fields. A name that only this module uses belongs to a package in internal.
var exportedNames = map[string]int{
	"boards":          33,
	"cache":           11,
	"cmodel":          10,
	"crt":             1,
	"device":          26,
	"device/emulated": 1,
	"executor":        9,
	"failure":         28,
	"flasher":         10,
	"image":           5,
	"measure":         27,
	"mlf":             25,
	"ndarray":         20,
	"project":         17,
	"projectapi":      4,
	"release":         6,
	"rpc":             25,
	"rpc/fault":       16,
	"serve":           9,
	"templates":       2,
	"transport":       20,
	"tune":            32,
	"tune/report":     5,
	"tune/search":     7,
	"tune/space":      9,
	"validate":        16,
}

// magefile is the place of boardsmith's own magefile, the package in the root.
const magefile = "magefile"

// row returns the line of the table that a package belongs to: its own, or that of the nearest folder.
func row(name string) string {
	for up := name; up != "."; up = path.Dir(up) {
		if _, listed := mayImport[up]; listed {
			return up
		}
	}
	return ""
}

// TestImportDirection keeps imports pointing one way, for packages and for their tests' packages that ship.
func TestImportDirection(t *testing.T) {
	cmd := exec.Command("go", "list", "-tags=mage", "-deps", "-json=ImportPath,Imports", module+"/...")
	var output strings.Builder
	cmd.Stderr = &output
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, output.String())
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	seen, used := 0, map[arrow]bool{}
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
		checkImports(t, name, p.Imports, used)
	}
	if seen < 8 {
		t.Errorf("go list named %d packages of ours: the test looks at the wrong place", seen)
	}
	for from, list := range mayImport {
		for i, to := range list {
			if !used[arrow{from, to}] || slices.Contains(list[:i], to) {
				t.Errorf("mayImport lists %s for %s, which does not import it, or lists it twice: remove it", to, from)
			}
		}
	}
}

// An arrow is an import, by the lines of the table that the packages belong to.
type arrow struct{ from, to string }

// TestLibrariesLinkNoEmulatedChips: only a program that imports package emulated links the software for emulated chips.
func TestLibrariesLinkNoEmulatedChips(t *testing.T) {
	const chips = module + "/internal/virtualprobe"
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		linked[words[0]] = words[1:]
	}
	for _, name := range slices.Sorted(maps.Keys(mayImport)) {
		if name == magefile || name == "cmd" || strings.HasPrefix(name, "internal/") {
			continue
		}
		of, there := linked[module+"/"+name]
		links := slices.Contains(of, chips)
		wanted := name == "device/emulated" || name == "targets"
		if !there || links != wanted {
			t.Errorf("package %s (%v) depends on %s: %v, want %v", name, there, chips, links, wanted)
		}
	}
}

// checkImports adds the imports of a package to used.
func checkImports(t *testing.T, name string, imports []string, used map[arrow]bool) {
	t.Helper()
	from := row(name)
	if from == "" {
		t.Errorf("package %s has no place in the import direction: give it one here", name)
	}
	for _, i := range imports {
		imported, ours := strings.CutPrefix(i, module+"/")
		to := row(imported)
		if !ours || to == from {
			continue
		}
		used[arrow{from, to}] = true
		if !slices.Contains(mayImport[from], to) {
			t.Errorf("%s imports %s, which points the wrong way", name, imported)
		}
	}
}
