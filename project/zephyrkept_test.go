//go:build !windows

package project

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/workdir"
)

const zephyrKeptBoard = "mps2_an385"

// zephyrProject is one for Zephyr whose operator ends in a line.
func zephyrProject(t *testing.T, e env, line string) *Project {
	t.Helper()
	model := mlftest.Tiny(t, map[string]string{"codegen/host/src/lib1.c": mlftest.TinyOperator + line + "\n"})
	return generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: "zephyr/" + zephyrKeptBoard, Model: model}, e)
}

// TestZephyrKept: two builds at once have a folder each, whose images are equal and equal to that of west by hand; so
// are the images after other operators were built there. A build that is killed with its tools leaves a folder that the
// next one repairs.
func TestZephyrKept(t *testing.T) {
	t.Parallel()
	NeedFullZephyr(t)
	store, e := t.TempDir(), testEnv()
	e.Cache = cache.New(store, cache.Options{})
	atOnce := func(all ...*Project) (digests []string) {
		t.Helper()
		digests = make([]string, len(all))
		var group sync.WaitGroup
		for i, p := range all {
			group.Go(func() {
				image, err := p.Build(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				digests[i] = image.Digest
			})
		}
		group.Wait()
		if t.Failed() {
			t.FailNow()
		}
		return digests
	}
	p := zephyrProject(t, e, "int one;")
	first := atOnce(p, zephyrProject(t, e, "int one;"))
	if first[0] != first[1] {
		t.Error("two folders, and two images of the same sources")
	}
	if n := len(keptDirs(t, e.Cache)); n != 2 {
		t.Errorf("%d folders", n)
	}
	second := atOnce(zephyrProject(t, e, "int one;"), zephyrProject(t, e, "int two(void) { return 2; }"))
	if second[0] != first[0] || second[1] == first[0] {
		t.Errorf("images %q after %q", second, first)
	}
	byHand(t, p)

	killed := zephyrProject(t, e, "int killed(void) { return 3; }")
	must(t, killed.Close())
	killBuild(t, store, killed.Dir(), "lib1.c.obj")
	again, err := e.builder().Open(killed.Dir())
	must(t, err)
	defer again.Close()
	fresh := e
	fresh.Cache = cache.New(t.TempDir(), cache.Options{})
	want := built(t, zephyrProject(t, fresh, "int killed(void) { return 3; }")).Digest
	if got := built(t, again).Digest; got != want {
		t.Error("other bytes after a killed build")
	}
}

// byHand builds with west in the project's folder, as docs/zephyr.md has it, with the build id that is there. It names
// the folder by a symbolic link.
func byHand(t *testing.T, p *Project) {
	t.Helper()
	i := built(t, p)
	cmd := exec.CommandContext(t.Context(), "west", "build", "-d", "build/west", "-b", zephyrKeptBoard)
	cmd.Dir = filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(p.Dir(), cmd.Dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("west by hand: %v\n%s", err, out)
	}
	tree, err := workdir.Open(p.Dir())
	must(t, err)
	defer tree.Close()
	if sum, err := tree.Digest("build/west/zephyr/firmware.elf"); err != nil || sum != i.Digest {
		t.Errorf("by hand: image %s (%v), want %s", sum, err, i.Digest)
	}
}

// killBuild builds in another process, and kills it once the kept folder has an object of that name that is younger
// than the build.
func killBuild(t *testing.T, store, dir, object string) {
	t.Helper()
	begun := time.Now()
	cmd := childCommand(t, "kept", t.TempDir(), store, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)) }()
	for time.Since(begun) < 5*time.Minute {
		time.Sleep(5 * time.Millisecond)
		at, err := filepath.Glob(filepath.Join(store, "kept", "*", "*", "build", "app", "modules", "boardsmith"))
		must(t, err)
		for _, modules := range at {
			if hasYounger(modules, object, begun) {
				return
			}
		}
	}
	t.Error("the build made no object")
}

// hasYounger reports whether a file of that name below a folder is younger than a time.
func hasYounger(dir, name string, since time.Time) (found bool) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != name {
			return nil // the build may just have removed it
		}
		if info, err := d.Info(); err == nil && info.ModTime().After(since) {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// TestZephyrChanges: a tree of the workspace that changes during a build is an error, and the next build succeeds.
func TestZephyrChanges(t *testing.T) {
	NeedFullZephyr(t)
	workspace, bin := t.TempDir(), t.TempDir()
	real, err := filepath.EvalSymlinks(os.Getenv("ZEPHYR_BASE"))
	must(t, err)
	must(t, os.Symlink(real, filepath.Join(workspace, "zephyr")))
	writeIn(t, workspace, ".west/config", "[manifest]\npath = zephyr\nfile = west.yml\n[zephyr]\nbase = zephyr\n")
	must(t, os.MkdirAll(filepath.Join(workspace, "modules", "hal"), 0o755))
	if cmsis := filepath.Join(filepath.Dir(real), "modules", "hal", "cmsis"); hasFolder(cmsis) {
		must(t, os.Symlink(cmsis, filepath.Join(workspace, "modules", "hal", "cmsis")))
	}
	writeIn(t, workspace, "modules/own/module/CMakeLists.txt", "")
	mark := filepath.Join(bin, "changes")
	writeIn(t, bin, "west", "#!/bin/sh\n"+lookPath(t, "west")+" \"$@\" || exit 1\nif [ -e "+mark+
		" ]; then echo >>"+filepath.Join(workspace, "modules", "own", "module", "CMakeLists.txt")+"; fi\n")
	must(t, os.Chmod(filepath.Join(bin, "west"), 0o755))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("ZEPHYR_BASE", filepath.Join(workspace, "zephyr"))
	e := testEnv()
	e.Cache = cache.New(t.TempDir(), cache.Options{})
	p := zephyrProject(t, e, "")
	writeIn(t, bin, "changes", "")
	_, err = p.Build(t.Context())
	if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "own/module changed during the build") {
		t.Fatalf("%v", err)
	}
	must(t, os.Remove(mark))
	if i := built(t, p); i.UpToDate {
		t.Error("up to date after an error")
	}
}

func hasFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
