package targets

import (
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
	"github.com/boardsmith/boardsmith/measure"
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
		dir, err := os.MkdirTemp("", "boardsmith-shop-")
		testkit.Must(t, err)
		theShop.dir, theShop.home = dir, filepath.Join(dir, "home")
		testkit.Must(t, os.Mkdir(theShop.home, 0o755))
		testkit.Must(t, os.Symlink(testcache.Dir(), filepath.Join(theShop.home, "cache")))

		repo, bin := filepath.Join(dir, "repo"), filepath.Join(dir, "bin")
		ownRepo(t, repo)
		testkit.Must(t, os.Mkdir(bin, 0o755))
		cmd := exec.Command("go", "tool", "mage", "-compile", filepath.Join(bin, "mage"))
		cmd.Dir = repo
		testkit.Output(t, cmd)
		testkit.Must(t, keepertest.Build(filepath.Join(bin, "boardsmith-keeper")))
		theShop.bin = bin
	})
	if theShop.bin == "" {
		t.Fatal("the first test did not open the shop")
	}
	return theShop.shop
}

// ownRepo writes the module of examples/own-repo, which requires this one, into a folder.
func ownRepo(t testing.TB, dir string) {
	t.Helper()
	for _, name := range []string{"magefile.go", "go.mod", "go.sum"} {
		text := string(testkit.ReadFile(t, "../examples/own-repo/"+name))
		text = strings.ReplaceAll(text, "=> ../..", "=> "+strconv.Quote(absolute(t, "..")))
		testkit.WriteFile(t, filepath.Join(dir, name), text)
	}
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
	root := absolute(t, "..")
	testscript.Run(t, testscript.Params{
		Files: stories(t),
		Setup: func(e *testscript.Env) error {
			for name, value := range map[string]string{
				"PATH": s.bin + string(os.PathListSeparator) + os.Getenv("PATH"), "BOARDSMITH_HOME": s.home,
				"CACHE": testcache.Dir(), "HOME": e.WorkDir, "MAGE": s.bin + "/mage", "BUNDLED": root + "/examples/samples",
				"EXAMPLES": root + "/examples", "OWN": root + "/examples/own-repo", "CRT_INCLUDE": root + "/crt/include",
				"CANDIDATES_OF_TVM": root + "/internal/testdata/archives/candidates",
			} {
				e.Setenv(name, value)
			}
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
			"exits": exits, "same": same, "append": appendText, "npz": writeArray,
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
		rule := measure.Rule{Abs: 1e-5, Rel: 1e-5}
		if tolerance.IsInteger(w[i].DType) {
			rule = measure.Rule{}
		}
		if err := rule.Compare(g[i].Array, w[i].Array); err != nil {
			return fmt.Errorf("%s: %w", w[i].Name, err)
		}
	}
	return nil
}
