//go:build !windows

// This file has this test program run steps in a second process, which is then killed, limited or watched.

package project

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

const childMode = "PROJECT_TEST_CHILD"

// child is the main function of the second process. childMode selects what it does in the folder of its first argument.
func child() int {
	if mode := modes[os.Getenv(childMode)]; mode != nil {
		return mode()
	}
	dir, model, store := os.Args[1], os.Args[2], os.Args[3]
	env := env{Host: device.Host{Cache: cache.New(store, cache.Options{})}}
	if limit, err := strconv.ParseUint(os.Getenv("PROJECT_TEST_FILE_LIMIT"), 10, 64); err == nil {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			fmt.Println("cannot limit:", err)
			return 3
		}
	}
	p, err := generateIn(context.Background(), dir, Spec{Board: "host", Model: model}, env)
	if err != nil {
		fmt.Printf("%s\n%v\n%s\n", failure.Of(err), err, failure.Next(err))
		return 1
	}
	defer p.Close()
	if _, err := p.Build(context.Background()); err != nil {
		fmt.Printf("%s\n%v\n%s\n", failure.Of(err), err, failure.Next(err))
		return 1
	}
	return 0
}

// modes are those of childMode that do something else than to generate and build.
var modes = map[string]func() int{
	"candidates": candidates, "hold": hold, "change": holdChange, "count": count,
	"kept": keptChild,
}

// candidateBoard is what a tuner's candidates are built for.
const candidateBoard = "mps2_an385"

// mark is not an executable: attempts to run it mark the start and end of a candidate in the trace.
const mark = "/boardsmith/mark"

// candidates is the second process of TestCandidateCost: one Builder, one folder, one model after the other.
func candidates() int {
	b := &Builder{Host: device.Host{Cache: cache.New(os.Args[2], cache.Options{})}}
	for _, model := range os.Args[3:] {
		_ = syscall.Exec(mark, nil, nil) // fails
		p, err := b.Generate(context.Background(), os.Args[1], Spec{Board: candidateBoard, Model: model})
		if err == nil {
			_, err = p.Build(context.Background())
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
		if err := p.Close(); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

func childCommand(t *testing.T, mode string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	return cmd
}

// TestKilled kills generate and build at a few moments, six times as many in a full run; the next run must make the
// very same firmware.
func TestKilled(t *testing.T) {
	random := drawn.Rand(t, "moments of kills")
	first, second := mlftest.Tiny(t, nil),
		mlftest.Operator(t, mlftest.TinyOperator+"// second\n")
	want := built(t, generated(t, Spec{Model: second}))

	for round := range drawn.Count(2, 12) {
		dir := filepath.Join(t.TempDir(), "p")
		if round%2 == 1 {
			p := generatedIn(t, dir, Spec{Model: first})
			built(t, p)
			must(t, p.Close())
		}
		delay := time.Duration(random.Int64N(int64(500 * time.Millisecond)))
		cmd := childCommand(t, "build", dir, second, t.TempDir()) // nothing cached: it takes longer than any delay
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		must(t, cmd.Start())
		time.Sleep(delay)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		state := "no project"
		if Exists(dir) {
			state = "a project"
		}
		p := generatedIn(t, dir, Spec{Model: second})
		got := built(t, p)
		if got.Digest != want.Digest || got.ID() != want.ID() {
			t.Errorf("killed after %v (%s): build %s, want %s", delay, state, got.ID(), want.ID())
		}
		if left, _ := filepath.Glob(filepath.Join(dir, workdir.StageFolder)); left != nil {
			t.Errorf("killed after %v: %s is still there", delay, workdir.StageFolder)
		}
		t.Logf("killed after %v, which left %s; repaired", delay, state)
		must(t, p.Close())
	}
}

// TestFullDisk gives a process a limit on the size of files, which fails writes as a full disk does.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "p")
	cmd := childCommand(t, "build", dir, mlftest.Tiny(t, nil), t.TempDir())
	cmd.Env = append(cmd.Env, "PROJECT_TEST_FILE_LIMIT=4000")
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("make room on the disk")) || !bytes.Contains(out, []byte(dir)) {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Dir(dir)); err == nil {
		t.Errorf("it left %d files behind", len(contents(t, filepath.Dir(dir))))
	}

	dir = filepath.Join(t.TempDir(), "p")
	p := generatedIn(t, dir, Spec{})
	must(t, p.Close())
	before := contents(t, dir)
	other := mlftest.Tiny(t, map[string]string{"src/large.txt": strings.Repeat("x", 100_000)})
	cmd = childCommand(t, "build", dir, other, t.TempDir())
	cmd.Env = append(cmd.Env, "PROJECT_TEST_FILE_LIMIT=60000")
	if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("make room on the disk")) {
		t.Errorf("%v\n%s", err, out)
	}
	if !same(before, contents(t, dir)) {
		t.Error("a project that could not be changed was changed")
	}
}

func TestNoPlaceForTheFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	for _, dir := range []string{file, filepath.Join(file, "p")} {
		_, err := generateIn(t.Context(), dir, Spec{Board: "host", Model: mlftest.Tiny(t, nil)}, testEnv())
		if failure.Of(err) != failure.Config || failure.Next(err) == "" || !strings.Contains(err.Error(), file) {
			t.Errorf("generate in %s: %v (%s)", dir, err, failure.Next(err))
		}
	}
}
