package targets

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/internal/tolerance"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/toolbox"
)

// shop is what the command-line tests share: the compiled magefile, and the cache of the tests of all packages, so that
// not every story compiles the runtime.
type shop struct {
	dir  string
	bin  string // folder with the program "mage"
	home string // BOARDSMITH_HOME
}

var theShop struct {
	sync.Once
	shop
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	testcache.Clean()
	if theShop.dir != "" {
		os.RemoveAll(theShop.dir)
	}
	os.Exit(code)
}

// openShop compiles examples/own-repo's magefile, which has a user's one line. It uses a copy, because mage writes its
// main file next to the magefile, and two processes would write the same file.
func openShop(t testing.TB) shop {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the host board is a Linux process")
	}
	theShop.Do(func() {
		theShop.dir, theShop.err = os.MkdirTemp("", "boardsmith-shop-")
		if theShop.err == nil {
			theShop.bin, theShop.home = filepath.Join(theShop.dir, "bin"), filepath.Join(theShop.dir, "home")
			theShop.err = errors.Join(os.Mkdir(theShop.home, 0o755),
				os.Symlink(testcache.Dir(), filepath.Join(theShop.home, "cache")),
				compileMagefile(filepath.Join(theShop.dir, "repo"), theShop.bin))
		}
		if theShop.err == nil {
			theShop.err = keepertest.Build(filepath.Join(theShop.bin, "boardsmith-keeper"))
		}
	})
	if theShop.err != nil {
		t.Fatal(theShop.err)
	}
	return theShop.shop
}

// homeWithCache returns a folder for BOARDSMITH_HOME with a state of its own and the cache of all tests.
func homeWithCache(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	if err := os.Symlink(testcache.Dir(), filepath.Join(home, "cache")); err != nil {
		t.Logf("the cache is empty: %v", err)
	}
	return home
}

// compileMagefile compiles a copy of the magefile, in folder repo, to a program in bin.
func compileMagefile(repo, bin string) error {
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	for _, dir := range []string{repo, bin} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"magefile.go", "go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(root, "examples", "own-repo", name))
		if err != nil {
			return err
		}
		data = bytes.ReplaceAll(data, []byte("=> ../.."), []byte("=> "+strconv.Quote(root)))
		if err := os.WriteFile(filepath.Join(repo, name), data, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("go", "tool", "mage", "-compile", filepath.Join(bin, "mage"))
	cmd.Dir = repo
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, output)
	}
	return nil
}

// environment is a user's: nothing that this run of the tests was given.
func (s shop) environment() []string {
	return append(console.ToolEnv(), "BOARDSMITH_HOME="+s.home,
		"PATH="+s.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// mage is a run of targets in a folder, with these variables.
func (s shop) mage(dir string, variables []string, targets ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, "mage"), targets...)
	cmd.Dir, cmd.Env = dir, append(s.environment(), variables...)
	return cmd
}

// long are the stories that build several projects or write flash. A plain run draws some of them: the others, among
// them build-run, up-to-date and release, take the same targets from inputs to outputs in each run.
var long = []string{
	"board-accept", "board-check", "call", "debug", "devices", "embed", "examples", "fault", "fit", "flash", "libraries",
	"library", "measure", "paths", "template-check", "tune", "tune-space", "validate",
}

// longDrawn is how many of the long stories a plain run draws. A full run has all.
const longDrawn = 4

// stories returns the files of the stories that this run has.
func stories(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(files) < len(long) {
		t.Fatal(files, err)
	}

	chosen := drawn.Of(t, "long stories", long, longDrawn)
	return slices.DeleteFunc(files, func(file string) bool {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		return slices.Contains(long, name) && !slices.Contains(chosen, name)
	})
}

// TestScript runs the stories in testdata/script on the compiled magefile.
func TestScript(t *testing.T) {
	s := openShop(t)
	root, err := filepath.Abs("..")
	testkit.Must(t, err)
	testscript.Run(t, testscript.Params{
		Files: stories(t),
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", s.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			e.Setenv("BOARDSMITH_HOME", s.home)
			e.Setenv("CACHE", testcache.Dir())
			e.Setenv("BUNDLED", filepath.Join(root, "examples", "samples"))
			e.Setenv("EXAMPLES", filepath.Join(root, "examples"))
			e.Setenv("CANDIDATES_OF_TVM", filepath.Join(root, "internal", "testdata", "archives", "candidates"))
			e.Setenv("CRT_INCLUDE", filepath.Join(root, "crt", "include"))
			e.Setenv("OWN", filepath.Join(root, "examples", "own-repo"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("MAGE", filepath.Join(s.bin, "mage"))
			if pyocd, err := findProgram("pyocd"); err == nil { // it may lie in the user's state folder
				e.Setenv("PYOCD", pyocd)
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "full": // steps like others of their script, whose guard is in another package's plain run, too
				return drawn.InFull(), nil
			case "debian":
				return toolbox.OnDebian(), nil
			case "pyocd":
				_, err := findProgram("pyocd")
				return err == nil, nil
			case "mount": // in a namespace of its own
				return exec.Command("unshare", "-rm", "mount", "-t", "tmpfs", "none", t.TempDir()).Run() == nil, nil
			}
			return false, fmt.Errorf("no such condition: %s", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "same": same, "badtar": badTar, "append": appendText, "npz": writeArray,
		},
	})
}

// exits CODE program args... runs the program, which must exit with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// append FILE TEXT adds a line to a file.
func appendText(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: append FILE TEXT")
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteString(args[1] + "\n")
	ts.Check(errors.Join(err, f.Close()))
}

// npz FILE NAME TYPE DIM... writes one array of zeroes.
func writeArray(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: npz FILE NAME TYPE DIM...")
	}
	d, err := ndarray.ParseDType(args[2])
	ts.Check(err)
	var shape []int64
	for _, word := range args[3:] {
		n, err := strconv.ParseInt(word, 10, 64)
		ts.Check(err)
		shape = append(shape, n)
	}
	a, err := ndarray.New(d, shape...)
	ts.Check(err)
	ts.Check(ndarray.WriteNPZ(ts.MkAbs(args[0]), []ndarray.Named{{Name: args[1], Array: a}}))
}

// same GOT WANT compares two .npz by the rules of sameArrays.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: same GOT WANT")
	}
	ts.Check(sameArrays(ts.MkAbs(args[0]), ts.MkAbs(args[1])))
}

// sameArrays checks that output0, output1, … have the same types and shapes, equal integers, and floats within
// 1e-5·(1 + |expected|).
func sameArrays(got, want string) error {
	g, err := ndarray.ReadNPZ(got)
	if err != nil {
		return err
	}
	w, err := ndarray.ReadNPZ(want)
	if err != nil {
		return err
	}
	if len(g) != len(w) {
		return fmt.Errorf("%d arrays, want %d", len(g), len(w))
	}
	for i := range w {
		if want := fmt.Sprintf("output%d", i); g[i].Name != want {
			return fmt.Errorf("array %d is called %q, want %q", i, g[i].Name, want)
		}
		if err := near(g[i].Array, w[i].Array); err != nil {
			return fmt.Errorf("%s: %w", w[i].Name, err)
		}
	}
	return nil
}

func near(g, w *ndarray.Array) error {
	if g.DType != w.DType || ndarray.ShapeString(g.Shape) != ndarray.ShapeString(w.Shape) {
		return fmt.Errorf("%v %s, want %v %s", g.DType, ndarray.ShapeString(g.Shape), w.DType, ndarray.ShapeString(w.Shape))
	}
	most := map[bool]float64{false: 1e-5}[tolerance.IsInteger(w.DType)]
	for i := range w.Len() {
		if _, ok := tolerance.Compare(g, w, i, most, most); !ok {
			return fmt.Errorf("element %d is %v, want %v", i, g.Float(i), w.Float(i))
		}
	}
	return nil
}
