//go:build linux

package project

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/boardsmith/boardsmith/mlf/mlftest"
)

// TestCandidateCost counts what another operator costs a tuner in a folder that is built: processes, and files written.
func TestCandidateCost(t *testing.T) {
	t.Parallel()
	needBoardTools(t, candidateBoard, nil)
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace to count processes with")
	}
	other := mlftest.Tiny(t, map[string]string{"codegen/host/src/lib1.c": strings.ReplaceAll(mlftest.TinyOperator, "* 2", "* 3")})
	dir, log := filepath.Join(t.TempDir(), "p"), filepath.Join(t.TempDir(), "log")
	run := func(models ...string) map[string]fileAt {
		t.Helper()
		cmd := childCommand(t, "candidates", append([]string{dir, sharedCache}, models...)...)
		cmd.Args = append([]string{strace, "-f", "-qq", "-o", log, "-e", "trace=execve"}, cmd.Args...)
		cmd.Path = strace
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return filesAt(t, dir)
	}
	before := run(mlftest.Tiny(t, nil))
	run(mlftest.Tiny(t, nil), other) // the first is up to date
	after := filesAt(t, dir)
	text, err := os.ReadFile(log)
	must(t, err)
	_, last, _ := strings.Cut(string(text), mark)
	_, last, _ = strings.Cut(last, mark)
	programs := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\d+) +execve\("([^"]*)".* = 0$`).FindAllStringSubmatch(last, -1) {
		programs[m[1]] = filepath.Base(m[2])
	}
	const most = 12
	if n := len(programs); n == 0 || n > most {
		t.Errorf("%d processes for one candidate, want at most %d: %q", n, most, slices.Sorted(maps.Values(programs)))
	}
	var written []string
	for name, now := range after {
		if was, there := before[name]; !there || was != now {
			written = append(written, name)
		}
	}
	slices.Sort(written)
	want := []string{
		"build/build.json", "build/build_id.c", "build/build_id.o", "build/firmware.elf", "build/firmware.map",
		"build/model/lib1.ci", "build/model/lib1.d", "build/model/lib1.o", "model.tar", "model/codegen/host/src/lib1.c", "project.json",
	}
	if !slices.Equal(written, want) {
		t.Errorf("written:\n%s\nwant:\n%s", strings.Join(written, "\n"), strings.Join(want, "\n"))
	}
}

// A fileAt is a file as it lies on disk: written anew it is another.
type fileAt struct {
	inode uint64
	times syscall.Timespec
}

func filesAt(t *testing.T, dir string) map[string]fileAt {
	t.Helper()
	all := map[string]fileAt{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		must(t, err)
		name, err := filepath.Rel(dir, path)
		is := info.Sys().(*syscall.Stat_t)
		if !scaffold(name) {
			all[filepath.ToSlash(name)] = fileAt{is.Ino, is.Mtim}
		}
		return err
	}))
	return all
}
