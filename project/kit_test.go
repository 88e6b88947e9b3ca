package project

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// This file has what most tests of this package do: make a project, build it and run it.

var update = flag.Bool("update", false, "rewrite the golden files")

// leaseDir takes the place of the folder for leases of real probes, which all users share.
var leaseDir string

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		os.Exit(child())
	}
	dir, err := os.MkdirTemp("", "project-test-leases")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leaseDir = filepath.Join(dir, "leases")
	code := m.Run()
	_ = os.RemoveAll(dir)
	testcache.Clean()
	os.Exit(code)
}

var (
	must      = testkit.Must
	need      = testkit.Need
	output    = testkit.Output
	absent    = testkit.Absent
	writeFile = testkit.WriteFile
	putFiles  = testkit.WriteFiles
	editFile  = testkit.EditFile
	wantError = testkit.WantError
	faultOf   = testkit.As[*fault.Error]
	misfitOf  = testkit.As[*FitError]
	lockedOf  = testkit.As[*LockedError]
	toolOf    = testkit.As[*ToolError]
	refusalOf = testkit.As[*rpc.DeviceError]
)

func readFile(t testing.TB, path string) string {
	t.Helper()
	return string(testkit.ReadFile(t, path))
}

// newBuilder returns a Builder with a search path. Its cache holds the compiled runtime for all tests that need no
// cache of their own.
func newBuilder(path ...string) *Builder {
	return &Builder{Host: device.Host{Path: path, Cache: cache.New(testcache.Dir(), cache.Options{})}, Forms: true}
}

// freshBuilder returns a Builder in whose cache nothing is.
func freshBuilder(t testing.TB, path ...string) *Builder {
	b := newBuilder(path...)
	b.Cache = newCache(t)
	return b
}

func newCache(t testing.TB) *cache.Cache { return cache.New(t.TempDir(), cache.Options{}) }

// newDesk returns a Desk that loads images directly: package device has the tests of boards behind a probe.
func newDesk() *device.Desk {
	return &device.Desk{Host: newBuilder().Host, Programmer: "none", LeaseDir: leaseDir}
}

// newDir returns the path of a folder that is not there yet.
func newDir(t testing.TB) string { return filepath.Join(t.TempDir(), "p") }

// complete has a specification without a board be for the host, and one without a model have the smallest one.
func complete(t testing.TB, s Spec) Spec {
	t.Helper()
	s.Board = cmp.Or(s.Board, "host")
	if s.Model == "" && s.Archive == nil {
		s.Model = mlftest.Tiny(t, nil)
	}
	return s
}

// generateIn makes a project by the Builder, or one of newBuilder, and closes it when the test ends.
func generateIn(t testing.TB, dir string, s Spec, by ...*Builder) (*Project, error) {
	t.Helper()
	p, err := append(by, newBuilder())[0].Generate(testkit.Context(t), dir, complete(t, s))
	if err == nil {
		t.Cleanup(func() { must(t, p.Close()) })
	}
	return p, err
}

func generatedIn(t testing.TB, dir string, s Spec, by ...*Builder) *Project {
	t.Helper()
	p, err := generateIn(t, dir, s, by...)
	if err != nil {
		t.Fatalf("generate: %v\n%s", err, failure.Next(err))
	}
	return p
}

func generate(t testing.TB, s Spec, by ...*Builder) (*Project, error) {
	t.Helper()
	return generateIn(t, newDir(t), s, by...)
}

func generated(t testing.TB, s Spec, by ...*Builder) *Project {
	t.Helper()
	return generatedIn(t, newDir(t), s, by...)
}

// at returns the path of a file of the project.
func (p *Project) at(name string) string { return filepath.Join(p.Dir(), filepath.FromSlash(name)) }

// needCompiler skips where the board's compiler is not installed.
func needCompiler(t testing.TB, b *boards.Board) {
	t.Helper()
	compiler, _, err := device.MissingTools(t.Context(), b)
	must(t, err)
	for _, e := range compiler {
		t.Skipf("board %s: %v: %s", b.Name, e, failure.Next(e))
	}
}

// needBoard also skips where the board's emulator is not installed or too old, and on Windows: the host board and links
// to an emulator need POSIX.
func needBoard(t testing.TB, b *boards.Board) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no emulator or process")
	}
	needCompiler(t, b)
	_, emulator, err := device.MissingTools(t.Context(), b)
	must(t, err)
	for _, e := range emulator {
		t.Skipf("board %s: %v: %s", b.Name, e, failure.Next(e))
	}
}

// built builds a project, or skips the test without the compiler.
func built(t testing.TB, p *Project) *image.Image {
	t.Helper()
	needCompiler(t, p.Board())
	i, err := p.Build(testkit.Context(t))
	if err != nil {
		t.Fatalf("build: %v\n%s", err, failure.Next(err))
	}
	return i
}

// buildError returns the error of a build, nil if there is none.
func buildError(t testing.TB, p *Project) error {
	t.Helper()
	needCompiler(t, p.Board())
	_, err := p.Build(testkit.Context(t))
	return err
}

// running starts the project's firmware, which ends with the test.
func running(t testing.TB, p *Project) *rpc.Session {
	t.Helper()
	needBoard(t, p.Board())
	s, err := p.Run(testkit.Context(t), newDesk(), "")
	must(t, err)
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	return s
}

func modelOf(t testing.TB, p *Project) *mlf.Model {
	t.Helper()
	_, m, err := p.Model()
	must(t, err)
	return m
}

// opened returns the project's model in a session.
func opened(t testing.TB, p *Project, s *rpc.Session) executor.Executor {
	t.Helper()
	e, err := executor.Open(t.Context(), s, modelOf(t, p))
	must(t, err)
	return e
}

// usageOf builds a project and returns the memory that its image uses.
func usageOf(t testing.TB, p *Project) *Usage {
	t.Helper()
	u, err := p.Usage(built(t, p))
	must(t, err)
	return u
}

// startedInRAM loads the project's model into RAM beside firmware without one, which it also returns.
func startedInRAM(t testing.TB, p *Project) (*Project, *rpc.Session, rpc.Module, error) {
	t.Helper()
	needBoard(t, p.Board())
	ctx := testkit.Context(t)
	r, err := p.Resident(ctx, newDir(t), Spec{})
	if err != nil {
		return nil, nil, rpc.Module{}, err
	}
	t.Cleanup(func() { must(t, r.Close()) })
	s := running(t, r)
	o, err := p.ModelOperators()
	must(t, err)
	lib, err := r.LoadRAM(ctx, s, o)
	must(t, err)
	return r, s, lib, nil
}

func linkerOf(t testing.TB, p *Project) *OperatorLinker {
	t.Helper()
	needCompiler(t, p.Board())
	l, err := p.OperatorLinker(t.Context())
	must(t, err)
	return l
}

// openELF opens an image's file until the test ends.
func openELF(t testing.TB, i *image.Image) *elf.File {
	t.Helper()
	f, err := elf.Open(i.Path)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func symbolsOf(t testing.TB, i *image.Image) map[string]uint64 {
	t.Helper()
	at, err := firmware.Symbols(openELF(t, i), i.Path)
	must(t, err)
	return at
}

// tensor returns one of the device with four integers, which are not set.
func tensor(t testing.TB, s *rpc.Session) *rpc.Tensor {
	t.Helper()
	x, err := s.Empty(t.Context(), int32Type, []int64{4})
	must(t, err)
	return x
}

func findBoard(t testing.TB, name string, path ...string) *boards.Board {
	t.Helper()
	b, err := boards.Find(name, path)
	must(t, err)
	return b
}

// contents reads all files of a folder but the lock.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		locks := []string{workdir.LockFile, workdir.TurnFile, workdir.HolderFile}
		if err != nil || d.IsDir() || slices.Contains(locks, d.Name()) {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(rel)] = string(data)
		return err
	}))
	return all
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		writeFile(t, path, got)
	} else if got != readFile(t, path) {
		t.Errorf("%s differs (go test ./project -update rewrites it); got:\n%s", path, got)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	writeFile(t, path, readFile(t, path)+text)
}

func writeIn(t *testing.T, dir, name, text string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, filepath.FromSlash(name)), text)
}

// keptDirs returns the kept folders of a cache.
func keptDirs(t *testing.T, c *cache.Cache) (all []string) {
	t.Helper()
	f, err := c.Borrow(cachekey.Key{})
	must(t, err)
	f.Discard()
	dirs, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(f.Dir)), "*", "*", "build"))
	must(t, err)
	for _, dir := range dirs {
		all = append(all, filepath.Dir(dir))
	}
	return all
}

// reopened closes a project and opens it again.
func reopened(t testing.TB, p *Project) *Project {
	t.Helper()
	must(t, p.Close())
	q, err := p.builder.Open(p.Dir())
	must(t, err)
	t.Cleanup(func() { must(t, q.Close()) })
	return q
}

// wantAdvice is wantError of an error that has a next step.
func wantAdvice(t testing.TB, err error, class failure.Class, texts ...string) {
	t.Helper()
	if wantError(t, err, class, texts...); failure.Next(err) == "" {
		t.Errorf("no next step: %v", err)
	}
}

// operators returns functions of one C file.
func operators(source string, entries ...string) Operators {
	return Operators{Files: []mlf.File{{Name: "f.c", Data: []byte(source)}}, Entries: entries}
}

// farWindow is one for programs that are linked but not uploaded.
var farWindow = rpc.Window{Base: hypothetical, Bytes: 1 << 20}

// linkedFar links operators for farWindow.
func linkedFar(t testing.TB, l *OperatorLinker, o Operators) rpc.Program {
	t.Helper()
	p, err := l.Link(t.Context(), o, farWindow)
	must(t, err)
	return p
}

// openImage opens a session with an image on a device of its board. The caller ends both.
func openImage(t testing.TB, b *boards.Board, i *image.Image) (_ *rpc.Session, end func() error, _ error) {
	t.Helper()
	ctx := testkit.Context(t)
	needBoard(t, b)
	d, err := newDesk().Attach(ctx, b, "")
	if err != nil {
		return nil, nil, err
	}
	var s *rpc.Session
	if _, err = d.Flash(ctx, i); err == nil {
		s, err = d.Open(ctx, i)
	}
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return s, func() error { return errors.Join(s.Close(ctx), d.Close()) }, nil
}

// alone are the options of standalone firmware.
var alone = boards.Options{App: boards.Standalone}

// isNewEnough reports whether the installed emulator, if there is one, supports the board's machine.
func isNewEnough(t testing.TB, b *boards.Board) bool {
	t.Helper()
	_, emulator, err := device.MissingTools(t.Context(), b)
	must(t, err)
	return len(emulator) == 0 || emulator[0].Needs == ""
}

// callIn calls a function of a session or a module, and returns its number.
func callIn(t testing.TB, m interface {
	Function(ctx context.Context, name string) (rpc.Function, error)
}, name string, args ...any,
) (int64, error) {
	t.Helper()
	ctx := testkit.Context(t)
	f, err := m.Function(ctx, name)
	must(t, err)
	n, err := f.Call(ctx, args...)
	number, _ := n.(int64)
	return number, err
}

// wantCall reports a function that does not return a number.
func wantCall(t testing.TB, want int64, m interface {
	Function(ctx context.Context, name string) (rpc.Function, error)
}, name string, args ...any,
) {
	t.Helper()
	if got, err := callIn(t, m, name, args...); err != nil || got != want {
		t.Errorf("%s(%v): %d, %v, want %d", name, args, got, err, want)
	}
}
