//go:build !windows

// This file has processes and goroutines use one project folder at once.

package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// hold opens a project in a second process, does a step, and has the project open until its input ends.
func hold(step func(p *Project) error) func(args []string) error {
	return func(args []string) error {
		p, err := (&Builder{}).Open(args[0])
		if err != nil {
			return err
		}
		defer p.Close()
		if err := step(p); err != nil {
			return err
		}
		fmt.Println("held")
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	}
}

// read does what those do who show sizes, lay out an image or explain faults.
func read(p *Project) error {
	i, err := p.Built()
	if err == nil && i == nil {
		err = errors.New("nothing is built")
	}
	if err != nil {
		return err
	}
	_, err = p.Usage(i)
	_, edited := p.Edited()
	return errors.Join(err, edited)
}

// held starts a second process and returns once it holds the folder.
func held(t *testing.T, mode, dir string) (cmd *exec.Cmd, end func()) {
	t.Helper()
	cmd = childCommand(t, mode, dir)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	word := make([]byte, 5)
	if _, err := io.ReadFull(out, word); err != nil || string(word) != "held\n" {
		more, _ := io.ReadAll(out)
		t.Fatalf("the other process: %v: %s%s", err, word, more)
	}
	return cmd, sync.OnceFunc(func() {
		must(t, in.Close())
		must(t, cmd.Wait())
	})
}

// TestManyRead lets processes and goroutines read one folder at the same time. During this, no file changes.
func TestManyRead(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	dir := p.Dir()
	built(t, p)
	must(t, p.Close())

	var ends []func()
	for range 2 {
		_, end := held(t, "hold", dir)
		ends = append(ends, end)
	}
	b := newBuilder()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			p, err := b.Open(dir)
			if err == nil {
				err = errors.Join(read(p), p.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()

	// What finds all up to date changes nothing, and a flash is noted beside readers.
	p = generatedIn(t, dir, Spec{}, b)
	i := built(t, p)
	if !i.UpToDate {
		t.Errorf("built again: %v", i)
	}
	other, err := b.Open(dir)
	must(t, err)
	for n, q := range []*Project{p, other} {
		must(t, q.RecordFlash(i, device.FlashReport{Device: fmt.Sprintf("probe:%d", n)}, nil))
	}
	if n := len(other.state.Flashes); n != 2 {
		t.Errorf("%d of two flashes are noted", n)
	}
	must(t, other.Close())

	writeIn(t, dir, "src/more.c", "extern int more; int more;\n")
	err = buildError(t, p)
	if wantError(t, err, "", "in use by a reader"); lockedOf(t, err).Holder != "" {
		t.Errorf("built under readers: %v", err)
	}
	lockedOf(t, b.Clean(t.Context(), dir, true))
	changed := mlftest.Tiny(t, map[string]string{"x.txt": "x"})
	lockedOf(t, p.Generate(t.Context(), Spec{Board: "host", Model: changed}))
	for _, end := range ends {
		end()
	}
	if built(t, p).UpToDate {
		t.Error("not built while no other process has the folder open")
	}
}

// TestChangeIsAlone checks that a folder cannot be opened while its files are changed, and that the lock of a killed
// process is released.
func TestChangeIsAlone(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	must(t, p.Close())
	cmd, _ := held(t, "change", p.Dir())
	b := newBuilder()
	_, opened := b.Open(p.Dir())
	for _, err := range []error{opened, b.Clean(t.Context(), p.Dir(), true)} {
		lockedOf(t, err)
		wantError(t, err, "", fmt.Sprintf("process %d", cmd.Process.Pid))
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	must(t, reopened(t, p).Close())
	must(t, b.Clean(t.Context(), p.Dir(), true))
}

const counts = 5

// count is one of several processes that count in two files, as one who reads first and changes then.
func count(args []string) error {
	for n := 0; n < counts; {
		err := countOnce(args[0])
		switch {
		case err == nil:
			n++
		case errors.As(err, new(*LockedError)):
			time.Sleep(time.Duration(rand.Int64N(int64(50 * time.Millisecond)))) // as people and tools do who try again
		default:
			return err
		}
	}
	return nil
}

func countOnce(dir string) error {
	read := func(name string) int {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		n, _ := strconv.Atoi(string(text))
		return n
	}
	l, err := workdir.Share(dir)
	if err != nil {
		return err
	}
	defer l.Release()
	before := read("a")
	err = l.Change(context.Background())
	if read("a") != before || read("b") != before {
		return fmt.Errorf("someone else's change came between (%v)", err)
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strconv.Itoa(before+1)), 0o644); err != nil {
			return err
		}
	}
	if err := l.ShareAgain(); err != nil {
		return err
	}
	if read("a") != before+1 || read("b") != before+1 {
		return errors.New("someone else changed what was shared")
	}
	return nil
}

// TestCounting has processes become from readers to changers and back at once: no change is lost, or seen half done.
func TestCounting(t *testing.T) {
	t.Parallel()
	const processes = 4
	dir := t.TempDir()
	var all sync.WaitGroup
	for range processes {
		cmd := childCommand(t, "count", dir)
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	all.Wait()
	for _, name := range []string{"a", "b"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != strconv.Itoa(processes*counts) {
			t.Errorf("%s has %s of %d (%v)", name, text, processes*counts, err)
		}
	}
}

// toldCompiler is a compiler on PATH that notes each of its runs, as it begins and as it ends, in the file that is
// returned.
func toldCompiler(t *testing.T, name string) (log string) {
	t.Helper()
	need(t, "cc")
	cc, err := exec.LookPath("cc")
	must(t, err)
	bin := t.TempDir()
	log = filepath.Join(bin, "log")
	script := fmt.Sprintf("#!/bin/sh\necho \"+ $*\" >>%s\n%s \"$@\"\nstatus=$?\necho - >>%s\nexit $status\n", log, cc, log)
	testkit.WriteProgram(t, filepath.Join(bin, name), script)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return log
}

// TestOneBuilder builds several projects at the same time. The compiler's version is queried once, the runtime is
// compiled in as many folders as there are jobs at most, and no more compilers run at a time than the Builder allows.
func TestOneBuilder(t *testing.T) {
	const jobs, projects = 2, 4
	log := toldCompiler(t, "told-cc")
	shelf := boardstest.Shelf(t, map[string]string{"told.json": `{"inherits": "cpu/native", "templates": ["baremetal"], "arena_kib": 16384, "packet_bytes": 4096,
"toolchain": {"cc": "told-cc", "ar": "ar", "install": "x"}, "link": {"kind": "process"}, "flash": {"programmer": "none"}, "sources": ["port/process.c"]}`})
	b := freshBuilder(t, shelf)
	b.Jobs, b.Forms = jobs, false
	var all sync.WaitGroup
	for n := range projects {
		model := mlftest.Operator(t, mlftest.TinyOperator+fmt.Sprintf("// %d\n", n))
		all.Go(func() {
			p, err := b.generatedAndBuilt(t.Context(), newDir(t), Spec{Board: "told", Model: model})
			if err == nil {
				err = p.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text := readFile(t, log)
	runs, most := 0, 0
	asked, runtime, operators := 0, 0, 0
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "-"):
			runs--
			continue
		case strings.Contains(line, "--version"):
			asked++
		case strings.Contains(line, "crt/src/rpc/server.c"):
			runtime++
		case strings.Contains(line, "model/") && strings.Contains(line, "lib1.c"):
			operators++
		}
		runs++
		most = max(most, runs)
	}
	if asked != 1 || runtime > jobs || operators != projects {
		t.Errorf("asked %d times, the runtime was compiled %d times, operators %d times\n%s", asked, runtime, operators, text)
	}
	if most > jobs+1 { // asking is no job
		t.Errorf("%d compilers ran at once, %d may", most, jobs)
	}
}

// TestCloseTwice: a project that was closed lets go of its own lock, once.
func TestCloseTwice(t *testing.T) {
	t.Parallel()
	p, b := generated(t, Spec{}), newBuilder()
	lockedOf(t, b.Clean(t.Context(), p.Dir(), false))
	again := reopened(t, p)
	must(t, p.Close()) // long closed
	lockedOf(t, b.Clean(t.Context(), p.Dir(), false))
	must(t, again.Close())
	must(t, b.Clean(t.Context(), p.Dir(), false))
}

// TestOpenedArchive makes of an archive in memory what its file makes.
func TestOpenedArchive(t *testing.T) {
	t.Parallel()
	file := mlftest.Tiny(t, nil)
	a, err := mlf.Parse(filepath.Base(file), []byte(readFile(t, file)))
	must(t, err)
	ofFile, ofMemory := generated(t, Spec{Model: file}), generated(t, Spec{Archive: a})
	if !maps.Equal(contents(t, ofFile.Dir()), contents(t, ofMemory.Dir())) {
		t.Error("they differ")
	}
	_, err = generate(t, Spec{Model: file, Archive: a})
	wantError(t, err, failure.Config)
}
