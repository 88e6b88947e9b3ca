//go:build linux

package project

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// TestFaultOfHost: a compiler or linker that a signal ended, or for whose file there is no room, is not an error in a
// source. The same build succeeds once the cause is gone.
func TestFaultOfHost(t *testing.T) {
	cc, err := exec.LookPath("cc")
	must(t, err)
	bin := filepath.Join(t.TempDir(), "a bin")
	must(t, os.MkdirAll(filepath.Join(bin, "killed"), 0o755))
	for _, name := range []string{"cc1", "ld"} {
		testkit.WriteProgram(t, filepath.Join(bin, "killed", name), "#!/bin/sh\nkill -KILL $$\n")
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	compile := func(then string) {
		script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *' -c '*) %s;; esac\nexec %s \"$@\"\n", then, cc)
		testkit.WriteProgram(t, filepath.Join(bin, "faulty-cc"), script)
	}
	compile(":")
	shelf := boardstest.Shelf(t, map[string]string{"faulty.json": `{"inherits": "cpu/native", "templates": ["baremetal"],
"arena_kib": 16384, "packet_bytes": 4096, "toolchain": {"cc": "faulty-cc", "ar": "ar", "install": "x"},
"link": {"kind": "process"}, "flash": {"programmer": "none"}, "sources": ["port/process.c"]}`})
	p := generated(t, Spec{Board: "faulty"}, freshBuilder(t, shelf))
	for then, message := range map[string]string{
		"kill -KILL $$": "", // make's message depends on its version
		"exec " + cc + " -B '" + bin + "/killed/' \"$@\"": "Killed signal terminated program cc1",
		"exec " + cc + " \"$@\" -o /dev/full":             "No space left on device",
		"ulimit -f 0":                                     "File size limit exceeded",
	} {
		compile(then)
		err := buildError(t, p)
		if wantError(t, err, failure.Host, message, "repeat"); toolOf(t, err).Class != failure.Host {
			t.Errorf("%s: %v", then, err)
		}
	}
	compile(":")
	built(t, p)
}

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
	needCompiler(t, findBoard(t, candidateBoard))
	need(t, "strace")
	model := func(factor, more string) string {
		return mlftest.Tiny(t, map[string]string{
			"codegen/host/src/lib1.c": strings.ReplaceAll(mlftest.TinyOperator, "* 2", "* "+factor),
			"codegen/host/src/lib2.c": "extern int more;\nint more = " + more + ";\n",
		})
	}
	dir, log := newDir(t), filepath.Join(t.TempDir(), "log")
	own := t.TempDir() // a cache in which no other test's model was built
	run := func(models ...string) map[string]fileAt {
		t.Helper()
		child := childCommand(t, "candidates", append([]string{dir, own}, models...)...)
		trace := []string{"-f", "--seccomp-bpf", "-qq", "-o", log, "-e", "trace=execve"}
		cmd := exec.Command("strace", append(trace, child.Args...)...)
		cmd.Env = child.Env
		output(t, cmd)
		return filesAt(t, dir)
	}
	run(model("2", "1"))
	// The first is up to date, and asks the compiler what it is; the second asks it for its folders.
	run(model("2", "1"), model("5", "1"), model("3", "1"), model("4", "2"))
	for n, part := range strings.Split(readFile(t, log), mark)[3:] {
		programs := programsIn(part)
		most := min(candidateProcesses+(n+1)*sourceProcesses, mostProcesses)
		if len(programs) == 0 || len(programs) > most {
			t.Errorf("%d processes for %d changed sources, want at most %d: %q", len(programs), n+1, most, programs)
		}
	}
	before, after := run(model("4", "2")), run(model("5", "2"))
	maps.DeleteFunc(after, func(name string, f fileAt) bool { return before[name] == f })
	written := slices.Sorted(maps.Keys(after))
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
	for name := range contents(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		stat := info.Sys().(*syscall.Stat_t)
		all[name] = fileAt{stat.Ino, stat.Mtim}
	}
	return all
}

// TestLockFilesAreOurs replaces the lock files by links and pipes: nothing is written through them, and no call blocks.
func TestLockFilesAreOurs(t *testing.T) {
	for _, name := range []string{workdir.LockFile, workdir.TurnFile, workdir.HolderFile} {
		for what, make := range map[string]func(path, victim string) error{
			"link": func(path, victim string) error { return os.Symlink(victim, path) },
			"pipe": func(path, _ string) error { return syscall.Mkfifo(path, 0o644) },
		} {
			t.Run(name+" as a "+what, func(t *testing.T) {
				p := generated(t, Spec{})
				must(t, p.Close())
				victim := filepath.Join(t.TempDir(), "victim")
				writeFile(t, victim, "precious")
				_ = os.Remove(p.at(name)) // it need not be there
				must(t, make(p.at(name), victim))
				wantError(t, newBuilder().Clean(t.Context(), p.Dir(), false), failure.Config, "is not a plain file")
				if text := readFile(t, victim); text != "precious" {
					t.Errorf("the file it leads to is %q", text)
				}
			})
		}
	}
}
