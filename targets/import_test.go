package targets

import (
	"encoding/json"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/boardsmith/boardsmith"

// mayImport is the list of rooms, each with those that it may import. A room is a folder with all packages below it
// that have no line of their own. Those in its folder internal are among them: Go keeps them to it. All may import what
// stands in the top's internal.
var mayImport = map[string][]string{
	magefile: {"targets", "targets/develop"},
	"cmd":    {"internal/projectapi", "device/emulated", "project", "device"},

	// What people type, and what serves it: environment, output, files that people write.
	"targets": {
		"internal/projectapi", "measure", "tune/report", "tune/search", "tune/space", "tune", "serve", "project/release",
		"project/templatecheck", "project", "executor", "device", "device/emulated", "image", "cmodel", "crt", "cache",
		"rpc", "rpc/fault", "transport", "boards", "templates", "mlf", "ndarray", "examples/samples",
		"examples/own-firmware", "failure",
	},

	// Uses of a project.
	"project/templatecheck": {"project", "device", "image", "cache", "rpc", "boards", "mlf", "failure"},
	"project/release":       {"project", "cmodel", "image", "boards", "mlf", "failure"},
	"measure":               {"project", "executor", "device", "image", "rpc", "boards", "mlf", "ndarray", "failure"},
	"internal/projectapi":   {"project", "device", "transport", "boards", "mlf", "templates", "failure"},
	"examples/tune-matmul":  {"tune", "mlf", "device"}, // a program as users write them
	"tune/search": {
		"tune", "tune/space", "project", "executor", "device", "image", "rpc", "mlf", "ndarray", "failure",
	},
	"tune": {
		"serve", "project", "device", "image", "rpc", "rpc/fault", "transport", "boards", "mlf", "ndarray", "failure",
	},
	"serve":       {"rpc", "rpc/fault", "transport", "failure"}, // TVM's RPC server
	"tune/space":  {"mlf", "ndarray", "failure"},
	"tune/report": {"tune", "measure", "device", "failure"},

	// A project is a folder, and the way from it to a device.
	"project": {
		"device", "image", "cache", "rpc", "cmodel", "boards", "mlf", "ndarray", "crt", "templates", "failure",
	},
	"executor":        {"rpc", "rpc/fault", "mlf", "ndarray", "failure"},
	"device/emulated": {"device", "flasher", "transport", "failure"},
	"device":          {"image", "flasher", "cache", "rpc", "rpc/fault", "transport", "boards", "failure"},
	"cmodel":          {"crt", "image", "boards", "mlf", "ndarray", "failure"},
	"image":           {"cache", "failure"},

	// These import nothing of each other.
	"cache":   {},
	"flasher": {"boards", "failure"},
	"rpc":     {"rpc/fault", "transport", "ndarray", "failure"},

	// Values and files.
	"boards":                {"failure"},
	"crt":                   {},
	"examples/own-firmware": {},
	"examples/samples":      {"ndarray"},
	"failure":               {},
	"mlf":                   {"ndarray", "failure"},
	"ndarray":               {"failure"},
	"rpc/fault":             {"failure"},
	"templates":             {},
	"transport":             {"failure"},

	// What several rooms stand on.
	"internal": {"image", "rpc", "rpc/fault", "transport", "boards", "mlf", "ndarray", "failure"},

	// boardsmith's own checks.
	"targets/develop":  {"targets", "internal/testkit", "failure"},
	"internal/testkit": {"rpc", "rpc/fault", "transport", "mlf", "ndarray", "failure"},
}

// exportedNames is how many names each package that a program can import exports at most: types, functions, constants
// and variables, without methods and fields. A name that only this module uses belongs to a package in internal.
var exportedNames = map[string]int{
	"boards":                24,
	"cache":                 8,
	"cmodel":                7,
	"crt":                   1,
	"device":                22,
	"device/emulated":       2,
	"executor":              7,
	"failure":               26,
	"flasher":               9,
	"image":                 3,
	"measure":               27,
	"mlf":                   19,
	"ndarray":               18,
	"project":               14,
	"project/release":       5,
	"project/templatecheck": 4,
	"rpc":                   23,
	"rpc/fault":             15,
	"serve":                 5,
	"templates":             2,
	"transport":             19,
	"tune":                  26,
	"tune/report":           3,
	"tune/search":           7,
	"tune/space":            4,
}

// magefile is the place of boardsmith's own magefile, the package in the root.
const magefile = "magefile"

// row returns the line of the table that a package belongs to: its own, or that of the nearest folder that has one.
func row(name string) string {
	for up := name; up != "."; up = path.Dir(up) {
		if _, listed := mayImport[up]; listed {
			return up
		}
	}
	return ""
}

// A listedPackage is what "go list" says of one.
type listedPackage struct {
	ImportPath    string
	Imports, Deps []string
}

// packages lists this module's packages and those that they import.
func packages(t *testing.T, flag string) (list []listedPackage) {
	t.Helper()
	cmd := exec.Command("go", "list", flag, "-deps", "-json=ImportPath,Imports,Deps", module+"/...")
	var output strings.Builder
	cmd.Stderr = &output
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, output.String())
	}

	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listedPackage
		switch err := dec.Decode(&p); {
		case err == io.EOF:
			return list
		case err != nil:
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// TestImportDirection keeps imports pointing one way, for packages and for their tests' packages that ship.
func TestImportDirection(t *testing.T) {
	seen, used := 0, map[arrow]bool{}
	for _, p := range packages(t, "-tags=mage") {
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

// onlyLinked are packages, and the lines of the table whose packages link them: who imports others, does not.
var onlyLinked = map[string][]string{
	module + "/device/emulated/internal/virtualprobe": {"device/emulated", "targets"},
	"gonum.org/v1/plot":                {"tune/report", "targets"},
	module + "/internal/testkit/drawn": {"targets/develop"},
	module + "/targets/develop":        {},
	"testing":                          {},
}

// TestLibrariesLinkOnlyTheirs: only a program that imports package emulated links the software for emulated chips, only
// one that imports package report the charts, and none, as the magefile of a user, links boardsmith's own checks.
func TestLibrariesLinkOnlyTheirs(t *testing.T) {
	linked := map[string][]string{}
	for _, p := range packages(t, "-tags=mage") {
		linked[p.ImportPath] = p.Deps
	}
	for name := range mayImport {
		if name == magefile || name == "cmd" || strings.HasPrefix(name, "internal") {
			continue
		}
		of, there := linked[module+"/"+name]
		for large, users := range onlyLinked {
			links, wanted := slices.Contains(of, large), slices.Contains(users, name)
			if !there || links != wanted {
				t.Errorf("package %s (%v) depends on %s: %v, want %v", name, there, large, links, wanted)
			}
		}
	}
}

// TestInternalPackages: a package in a folder internal lies as low as its importers allow: below the lowest folder that
// these share. Tests count, too, by Go's own rule.
func TestInternalPackages(t *testing.T) {
	imported := map[string][]string{} // a package: the folders of its importers
	for _, p := range packages(t, "-test") {
		folder, _, _ := strings.Cut(p.ImportPath, " ") // a package as a test compiles it
		folder = strings.TrimSuffix(strings.TrimSuffix(folder, ".test"), "_test")
		for _, i := range p.Imports {
			i, _, _ = strings.Cut(i, " ")
			if i != folder {
				imported[i] = append(imported[i], folder)
			}
		}
	}

	checked := 0
	for path, importers := range imported {
		name, ours := strings.CutPrefix(path, module+"/")
		at := strings.LastIndex(name, "internal/")
		if !ours || at < 0 || strings.HasSuffix(name, "_test") || strings.HasPrefix(name, "internal/testkit") {
			continue
		}
		checked++
		above := name[:at]

		shared := importers[0]
		for _, i := range importers[1:] {
			for i != shared && !strings.HasPrefix(i, shared+"/") {
				shared = shared[:strings.LastIndexByte(shared, '/')]
			}
		}
		if want := strings.TrimPrefix(shared+"/", module+"/"); strings.HasPrefix(want, above) && want != above {
			t.Errorf("%s is imported by packages of %s alone: move it to %sinternal", name, want, want)
		}
	}
	if checked < 20 {
		t.Errorf("only %d packages were checked", checked)
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
		if !ours || to == from || to == "internal" {
			continue
		}
		used[arrow{from, to}] = true
		if !slices.Contains(mayImport[from], to) {
			t.Errorf("%s imports %s, which points the wrong way", name, imported)
		}
	}
}
