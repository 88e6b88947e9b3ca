package device_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// leaseDir takes the place of the folder for leases of real probes, which all users share.
var leaseDir string

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		os.Exit(child())
	}
	dir, err := os.MkdirTemp("", "device-test-leases")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leaseDir = filepath.Join(dir, "leases")
	code := m.Run()
	_ = os.RemoveAll(dir)
	keepertest.Clean()
	testcache.Clean()
	os.Exit(code)
}

// testEnv loads images directly: emulated boards behind a probe are flash_test.go's. Its cache holds the compiled
// runtime for all tests that need no cache of their own.
func testEnv() env {
	return env{
		Host:       device.Host{Cache: cache.New(testcache.Dir(), cache.Options{})},
		Programmer: "none", LeaseDir: leaseDir,
	}
}

var (
	must       = testkit.Must
	wantEqual  = testkit.WantEqual
	wantResult = testkit.WantResult
	wantLen    = testkit.WantLen
	writeFile  = testkit.WriteFile
	readFile   = testkit.ReadFile
	wantError  = testkit.WantError
	last       = testkit.Last
)

// generated makes a project in a folder of its own and closes it when the test ends. Without a board it is for the
// host, and without a model it has the smallest one.
func generated(t *testing.T, s project.Spec, in ...env) *project.Project {
	t.Helper()
	return generatedIn(t, filepath.Join(t.TempDir(), "p"), s, in...)
}

func generatedIn(t *testing.T, dir string, s project.Spec, in ...env) *project.Project {
	t.Helper()
	s.Board = cmp.Or(s.Board, "host")
	if s.Model == "" {
		s.Model = mlftest.Tiny(t, nil)
	}
	p, err := generateIn(t.Context(), dir, s, append(in, testEnv())[0])
	if err != nil {
		t.Fatalf("generate: %v\n%s", err, failure.Next(err))
	}
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

func built(t *testing.T, p *project.Project) *image.Image {
	t.Helper()
	i, err := p.Build(t.Context())
	if err != nil {
		t.Fatalf("build: %v\n%s", err, failure.Next(err))
	}
	return i
}

// An env is what a test's builder and desk have.
type env struct {
	device.Host

	Programmer string
	Wait       time.Duration
	File       *device.DeskFile
	StateDir   string
	LeaseDir   string
	Tool       func(name string) (path string, err error)
}

func (e env) builder() *project.Builder { return &project.Builder{Host: e.Host, Forms: true} }

func (e env) desk() *device.Desk {
	return &device.Desk{
		Host: e.Host, Programmer: e.Programmer, Wait: e.Wait, File: e.File, StateDir: e.StateDir, LeaseDir: e.LeaseDir,
		Tool: e.Tool, Probes: emulated.Probes(),
	}
}

func generateIn(ctx context.Context, dir string, s project.Spec, e env) (*project.Project, error) {
	return e.builder().Generate(ctx, dir, s)
}

func attach(ctx context.Context, b *boards.Board, which string, e env) (*device.Device, error) {
	return e.desk().Attach(ctx, b, which)
}

// needBoardTools skips where the board's compiler or emulator is not installed or too old.
func needBoardTools(t *testing.T, name string, path []string) {
	t.Helper()
	b, err := boards.Find(name, path)
	must(t, err)
	compiler, emulator, err := device.MissingTools(t.Context(), b)
	must(t, err)
	for _, e := range slices.Concat(compiler, emulator) {
		t.Skipf("board %s: %v", name, e)
	}
}

// writeAndRead opens the device, writes to its memory and reads that back.
func writeAndRead(ctx context.Context, t *testing.T, d *device.Device, i *image.Image) error {
	t.Helper()
	s, err := d.Open(ctx, i)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.Background()) }()
	bytes, err := ndarray.ParseDType("uint8")
	must(t, err)
	want, got := make([]byte, 2000), make([]byte, 2000)
	for k := range want {
		want[k] = byte(k * k)
	}
	x, err := s.Empty(ctx, bytes, []int64{int64(len(want))})
	if err == nil {
		err = x.Write(ctx, want)
	}
	if err == nil {
		err = x.Read(ctx, got)
	}
	if err == nil && !slices.Equal(got, want) {
		t.Error("the data read back differ from the written data, without an error")
	}
	return err
}

// mustAnswer opens the device, calls the smallest model's operator, and closes the session.
func mustAnswer(t *testing.T, d *device.Device, i *image.Image) {
	t.Helper()
	s, err := d.Open(t.Context(), i)
	must(t, err)
	rpctest.CallTwice(t, s)
	must(t, s.Close(t.Context()))
}

func findBoard(t *testing.T, name string) *boards.Board {
	t.Helper()
	b, err := boards.Find(name, nil)
	must(t, err)
	return b
}
