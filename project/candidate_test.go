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

	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/internal/workdir"
)

// The cost of a changed operator in a built folder: the processes of every build, and those of each changed source.
// GCC's driver starts two for a source: the compiler itself and the assembler.
const (
	candidateProcesses = 6 // make, and what ends it if boardsmith dies; the driver, collect2 and ld to link; mv
	sourceProcesses    = 3
	mostProcesses      = 12 // for the two sources that TVM writes for a model's operators
)

// TestCandidateCost counts processes, and the files that are written, for one and two changed sources.
func TestCandidateCost(t *testing.T) {
	t.Parallel()
	needBoardTools(t, candidateBoard, nil)
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace to count processes with")
	}
	model := func(factor, more string) string {
		return mlftest.Tiny(t, map[string]string{
			"codegen/host/src/lib1.c": strings.ReplaceAll(mlftest.TinyOperator, "* 2", "* "+factor),
			"codegen/host/src/lib2.c": "extern int more;\nint more = " + more + ";\n",
		})
	}
	dir, log := filepath.Join(t.TempDir(), "p"), filepath.Join(t.TempDir(), "log")
	run := func(models ...string) map[string]fileAt {
		t.Helper()
		cmd := childCommand(t, "candidates", append([]string{dir, testcache.Dir()}, models...)...)
		cmd.Args = append([]string{strace, "-f", "-qq", "-o", log, "-e", "trace=execve"}, cmd.Args...)
		cmd.Path = strace
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return filesAt(t, dir)
	}
	run(model("2", "1"))
	run(model("2", "1"), model("3", "1"), model("4", "2")) // the first is up to date, and asks the compiler what it is
	text, err := os.ReadFile(log)
	must(t, err)
	parts := strings.Split(string(text), mark)[2:]
	for n, part := range parts {
		programs := programsIn(part)
		changed := n + 1
		t.Logf("%d changed: %q", changed, programs)
		if most := candidateProcesses + changed*sourceProcesses; len(programs) == 0 ||
			len(programs) > min(most, mostProcesses) {
			t.Errorf("%d processes for %d changed sources, want at most %d: %q", len(programs), changed,
				min(most, mostProcesses), programs)
		}
	}
	before := run(model("4", "2"))
	after := run(model("5", "2"))
	var written []string
	for name, now := range after {
		if was, there := before[name]; !there || was != now {
			written = append(written, name)
		}
	}
	slices.Sort(written)
	want := []string{
		"build/build.json", "build/firmware.elf", "build/firmware.map", "build/resident.map", "build/resident.o",
		"model.tar", "model/codegen/host/src/lib1.c", "project.json",
	}
	if !slices.Equal(written, want) {
		t.Errorf("written:\n%s\nwant:\n%s", strings.Join(written, "\n"), strings.Join(want, "\n"))
	}
}

var execLine = regexp.MustCompile(`^(\d+) +(?:execve\("([^"]*)"|<\.\.\. execve resumed>)`)

// programsIn names the programs that were started, sorted: of a process the last one.
func programsIn(trace string) []string {
	asked, started := map[string]string{}, map[string]string{} // by process
	for line := range strings.Lines(trace) {
		m := execLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if m[2] != "" {
			asked[m[1]] = filepath.Base(m[2])
		}
		if strings.HasSuffix(line, " = 0\n") {
			started[m[1]] = asked[m[1]]
		}
	}
	return slices.Sorted(maps.Values(started))
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
		if !workdir.IsOwn(name) {
			all[filepath.ToSlash(name)] = fileAt{is.Ino, is.Mtim}
		}
		return err
	}))
	return all
}
