//go:build !windows

// This file has this test program run steps in a second process, which is then killed, limited or watched.

package project

import (
	"bytes"
	"context"
	"fmt"
	"maps"
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

// child is the main function of the second process. childMode selects what it does with its arguments.
func child() int {
	if err := modes[os.Getenv(childMode)](os.Args[1:]); err != nil {
		fmt.Printf("%v\n%s\n", err, failure.Next(err))
		return 1
	}
	return 0
}

var modes = map[string]func(args []string) error{
	"build": buildAlone, "candidates": candidates, "hold": hold(read), "count": count, "kept": keptChild,
	"change": hold(func(p *Project) error { return p.lock.Change(context.Background()) }),
}

// storeIn returns a Builder with a cache in a folder.
func storeIn(dir string) *Builder {
	return &Builder{Host: device.Host{Cache: cache.New(dir, cache.Options{})}}
}

// buildAlone generates a project of a model in a folder and builds it, with a cache and a limit on the size of files.
func buildAlone(args []string) error {
	if limit, err := strconv.ParseUint(os.Getenv("PROJECT_TEST_FILE_LIMIT"), 10, 64); err == nil {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	p, err := storeIn(args[2]).generatedAndBuilt(context.Background(), args[0], Spec{Board: "host", Model: args[1]})
	if err != nil {
		return err
	}
	return p.Close()
}

// candidateBoard is what a tuner's candidates are built for.
const candidateBoard = "mps2_an385"

// mark is not an executable: attempts to run it mark the start and end of a candidate in the trace.
const mark = "/boardsmith/mark"

// candidates is the second process of TestCandidateCost: one Builder, one folder, one model after the other.
func candidates(args []string) error {
	b := storeIn(args[1])
	for _, model := range args[2:] {
		_ = syscall.Exec(mark, nil, nil) // fails
		p, err := b.generatedAndBuilt(context.Background(), args[0], Spec{Board: candidateBoard, Model: model})
		if err != nil {
			return err
		}
		if err := p.Close(); err != nil {
			return err
		}
	}
	return nil
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
	second := mlftest.Operator(t, mlftest.TinyOperator+"// second\n")
	want := built(t, generated(t, Spec{Model: second}))

	for round := range drawn.Count(2, 12) {
		dir := newDir(t)
		if round%2 == 1 {
			p := generatedIn(t, dir, Spec{})
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
		t.Logf("killed after %v, which left a project: %v", delay, Exists(dir))
		got := built(t, generatedIn(t, dir, Spec{Model: second}))
		if got.Digest != want.Digest || got.ID() != want.ID() {
			t.Errorf("build %s, want %s", got.ID(), want.ID())
		}
		absent(t, filepath.Join(dir, workdir.StageFolder))
	}
}

// TestFullDisk gives a process a limit on the size of files, which fails writes as a full disk does.
func TestFullDisk(t *testing.T) {
	limited := func(limit, dir, model string) {
		t.Helper()
		cmd := childCommand(t, "build", dir, model, t.TempDir())
		cmd.Env = append(cmd.Env, "PROJECT_TEST_FILE_LIMIT="+limit)
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("make room on the disk")) || !bytes.Contains(out, []byte(dir)) {
			t.Errorf("%v\n%s", err, out)
		}
	}
	dir := filepath.Join(t.TempDir(), "new", "p")
	limited("4000", dir, mlftest.Tiny(t, nil))
	absent(t, filepath.Dir(dir))

	dir = newDir(t)
	must(t, generatedIn(t, dir, Spec{}).Close())
	before := contents(t, dir)
	limited("60000", dir, mlftest.Tiny(t, map[string]string{"src/large.txt": strings.Repeat("x", 100_000)}))
	if !maps.Equal(before, contents(t, dir)) {
		t.Error("a project that could not be changed was changed")
	}
}

func TestNoPlaceForTheFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	for _, dir := range []string{file, filepath.Join(file, "p")} {
		_, err := generateIn(t, dir, Spec{})
		wantAdvice(t, err, failure.Config, file)
	}
}
