package device_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
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
	return env{Cache: cache.New(testcache.Dir(), cache.Options{}), Programmer: "none", LeaseDir: leaseDir}
}

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	readFile  = testkit.ReadFile
	wantError = testkit.WantError
)

// generated makes a project in a folder of its own and closes it when the test ends. Without a board it is for the
// host, and without a model it has the smallest one.
func generated(t *testing.T, s project.Spec, in ...env) *project.Project {
	t.Helper()
	return generatedIn(t, filepath.Join(t.TempDir(), "p"), s, in...)
}

func generatedIn(t *testing.T, dir string, s project.Spec, in ...env) *project.Project {
	t.Helper()
	p, err := generateIn(t.Context(), dir, complete(t, s), envOf(in))
	if err != nil {
		t.Fatalf("generate: %v\n%s", err, failure.Next(err))
	}
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

func complete(t *testing.T, s project.Spec) project.Spec {
	t.Helper()
	if s.Board == "" {
		s.Board = "host"
	}
	if s.Model == "" && s.Archive == nil {
		s.Model = mlftest.Tiny(t, nil)
	}
	return s
}

func envOf(in []env) env {
	if len(in) > 0 {
		return in[0]
	}
	return testEnv()
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
	Path     []string
	Log      hclog.Logger
	Progress func(device.ProgressEvent)
	Cache    *cache.Cache
	Jobs     int

	Programmer string
	Reflash    bool
	Wait       time.Duration
	File       *device.DeskFile
	StateDir   string
	Ledger     string
	LeaseDir   string
	Tool       func(name string) (path string, err error)
}

func (e env) builder() *project.Builder {
	return &project.Builder{
		Host: device.Host{Path: e.Path, Log: e.Log, Progress: e.Progress, Cache: e.Cache}, Jobs: e.Jobs, Forms: true,
	}
}

func (e env) desk() *device.Desk {
	return &device.Desk{
		Host:       device.Host{Path: e.Path, Log: e.Log, Progress: e.Progress, Cache: e.Cache},
		Programmer: e.Programmer, Reflash: e.Reflash,
		Wait: e.Wait,
		File: e.File, StateDir: e.StateDir, Ledger: e.Ledger, LeaseDir: e.LeaseDir, Tool: e.Tool,
		Probes: emulated.Probes(),
	}
}

func (e env) images() image.Store { return image.Store{Cache: e.Cache, Log: e.Log} }

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

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	data := readFile(t, path)
	writeFile(t, path, string(append(data, text...)))
}

// isWrongBoard reports whether an error is that of a device that may be another board.
func isWrongBoard(err error) bool {
	return failure.Of(err) == failure.Config && strings.Contains(err.Error(), "may not be the chosen board")
}

// writeAndRead opens the device, writes to its memory and reads that back.
func writeAndRead(ctx context.Context, t *testing.T, d *device.Device, i *image.Image) (err error) {
	t.Helper()
	s, err := d.Open(ctx, i)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(context.Background()) }()
	bytes, err := ndarray.ParseDType("uint8")
	must(t, err)
	const size = 2000
	x, err := s.Empty(ctx, bytes, []int64{size})
	if err != nil {
		return err
	}
	want, got := make([]byte, size), make([]byte, size)
	for k := range want {
		want[k] = byte(k * k)
	}
	if err := x.Write(ctx, want); err != nil {
		return err
	}
	if err := x.Read(ctx, got); err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		t.Error("the data read back differ from the written data, without an error")
	}
	return nil
}

func findBoard(t *testing.T, name string) *boards.Board {
	t.Helper()
	b, err := boards.Find(name, nil)
	must(t, err)
	return b
}
