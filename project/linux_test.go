//go:build linux

package project

import (
	"errors"
	"fmt"
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

	"github.com/boardsmith/boardsmith/device"
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
	b := &Builder{Host: device.Host{Path: []string{shelf}, Cache: newCache(t)}}
	p, err := b.Generate(t.Context(), filepath.Join(t.TempDir(), "p"),
		Spec{Board: "faulty", Model: mlftest.Tiny(t, nil)})
	must(t, err)
	defer p.Close()
	for then, message := range map[string]string{
		"kill -KILL $$": "", // make's message depends on its version
		"exec " + cc + " -B '" + bin + "/killed/' \"$@\"": "Killed signal terminated program cc1",
		"exec " + cc + " \"$@\" -o /dev/full":             "No space left on device",
		"ulimit -f 0":                                     "File size limit exceeded",
	} {
		compile(then)
		_, err := p.Build(t.Context())
		var tool *ToolError
		if !errors.As(err, &tool) || tool.Class != failure.Host || failure.Of(err) != failure.Host ||
			!strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v (%s)", then, err, failure.Of(err))
		}
		if next := failure.Next(err); !strings.Contains(next, "repeat") {
			t.Errorf("%s: advice %q", then, next)
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
	own := t.TempDir() // a cache in which no other test's model was built
	run := func(models ...string) map[string]fileAt {
		t.Helper()
		cmd := childCommand(t, "candidates", append([]string{dir, own}, models...)...)
		cmd.Args = append([]string{strace, "-f", "--seccomp-bpf", "-qq", "-o", log, "-e", "trace=execve"}, cmd.Args...)
		cmd.Path = strace
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return filesAt(t, dir)
	}
	run(model("2", "1"))
	// The first is up to date, and asks the compiler what it is; the second asks it for its folders.
	run(model("2", "1"), model("5", "1"), model("3", "1"), model("4", "2"))
	text := readFile(t, log)
	parts := strings.Split(string(text), mark)[3:]
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

// TestLockFilesAreOurs replaces the lock files by links and pipes: nothing is written through them, and no call blocks.
func TestLockFilesAreOurs(t *testing.T) {
	for _, name := range []string{workdir.LockFile, workdir.TurnFile, workdir.HolderFile} {
		for what, make := range map[string]func(path, victim string) error{
			"link": func(path, victim string) error { return os.Symlink(victim, path) },
			"pipe": func(path, _ string) error { return syscall.Mkfifo(path, 0o644) },
		} {
			p := generated(t, Spec{})
			dir := p.Dir()
			must(t, p.Close())
			victim := filepath.Join(t.TempDir(), "victim")
			writeFile(t, victim, "precious")
			_ = os.Remove(filepath.Join(dir, name)) // it need not be there
			must(t, make(filepath.Join(dir, name), victim))
			err := clean(t.Context(), dir, false, testEnv())
			if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "is not a plain file") {
				t.Errorf("%s as a %s: %v", name, what, err)
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
				t.Errorf("%s as a %s: the file it leads to is %q, %v", name, what, text, err)
			}
		}
	}
}
