//go:build !windows

package project

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

const zephyrKeptBoard = "mps2_an385"

// zephyrProject is one for Zephyr whose operator ends in a line.
func zephyrProject(t *testing.T, b *Builder, line string) *Project {
	t.Helper()
	model := mlftest.Operator(t, mlftest.TinyOperator+line+"\n")
	return generated(t, Spec{Board: "zephyr/" + zephyrKeptBoard, Model: model}, b)
}

// TestZephyrKept: two builds at once have a folder each, whose images are equal and equal to that of west by hand; so
// are the images after other operators were built there. A build that is killed with its tools leaves a folder that the
// next one repairs.
func TestZephyrKept(t *testing.T) {
	t.Parallel()
	needFullZephyr(t)
	store, b := t.TempDir(), newBuilder()
	b.Cache = cache.New(store, cache.Options{})
	atOnce := func(all ...*Project) []string {
		t.Helper()
		digests, errs := make([]string, len(all)), make([]error, len(all))
		var group sync.WaitGroup
		for i, p := range all {
			group.Go(func() {
				var one *image.Image
				if one, errs[i] = p.Build(t.Context()); errs[i] == nil {
					digests[i] = one.Digest
				}
			})
		}
		group.Wait()
		must(t, errors.Join(errs...))
		return digests
	}
	p := zephyrProject(t, b, "int one;")
	first := atOnce(p, zephyrProject(t, b, "int one;"))
	if first[0] != first[1] {
		t.Error("two folders, and two images of the same sources")
	}
	if n := len(keptDirs(t, b.Cache)); n != 2 {
		t.Errorf("%d folders", n)
	}
	second := atOnce(zephyrProject(t, b, "int one;"), zephyrProject(t, b, "int two(void) { return 2; }"))
	if second[0] != first[0] || second[1] == first[0] {
		t.Errorf("images %q after %q", second, first)
	}
	byHand(t, p)

	killed := zephyrProject(t, b, "int killed(void) { return 3; }")
	must(t, killed.Close())
	killBuild(t, store, killed.Dir(), "lib1.c.obj")
	want := built(t, zephyrProject(t, freshBuilder(t), "int killed(void) { return 3; }"))
	if built(t, reopened(t, killed)).Digest != want.Digest {
		t.Error("other bytes after a killed build")
	}
}

// westByHand builds with west in a folder, as docs/zephyr.md has it. The command names the folder by a symbolic link,
// which it returns.
func westByHand(t *testing.T, dir string) (link string) {
	t.Helper()
	link = filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	cmd := exec.CommandContext(t.Context(), "west", "build", "-d", "build/west", "-b", zephyrKeptBoard)
	cmd.Dir = link
	output(t, cmd)
	return link
}

// byHand builds with west in the project's folder, with the build id that is there. The board, which is QEMU's, has no
// runner.
func byHand(t *testing.T, p *Project) {
	t.Helper()
	i := built(t, p)
	link := westByHand(t, p.Dir())
	tree, err := workdir.Open(p.Dir())
	must(t, err)
	defer tree.Close()
	if sum, err := tree.Digest("build/west/zephyr/firmware.elf"); err != nil || sum != i.Digest {
		t.Errorf("by hand: image %s (%v), want %s", sum, err, i.Digest)
	}
	flash := exec.CommandContext(t.Context(), "west", "flash", "-d", "build/west")
	flash.Dir = link
	if out, err := flash.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("doesn't support west flash/debug")) {
		t.Errorf("a board in QEMU has a runner: %v\n%s", err, out)
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
	needFullZephyr(t)
	workspace, bin := t.TempDir(), t.TempDir()
	real, err := filepath.EvalSymlinks(os.Getenv("ZEPHYR_BASE"))
	must(t, err)
	tree := filepath.Join(workspace, "tree", "zephyr") // west goes up from the folder that a link names
	must(t, os.MkdirAll(filepath.Dir(tree), 0o755))
	if err := exec.Command("cp", "-al", real, tree).Run(); err != nil { // another file system
		must(t, os.RemoveAll(tree))
		must(t, exec.Command("cp", "-a", real, tree).Run())
	}
	must(t, os.Symlink(tree, filepath.Join(workspace, "zephyr")))
	workspace = filepath.Dir(tree)
	writeIn(t, workspace, ".west/config", "[manifest]\npath = zephyr\nfile = west.yml\n[zephyr]\nbase = zephyr\n")
	must(t, os.MkdirAll(filepath.Join(workspace, "modules", "hal"), 0o755))
	if cmsis := filepath.Join(filepath.Dir(real), "modules", "hal", "cmsis"); hasFolder(cmsis) {
		must(t, os.Symlink(cmsis, filepath.Join(workspace, "modules", "hal", "cmsis")))
	}
	writeIn(t, workspace, "modules/own/module/CMakeLists.txt", "")
	mark := filepath.Join(bin, "changes")
	west, err := exec.LookPath("west")
	must(t, err)
	testkit.WriteProgram(t, filepath.Join(bin, "west"), "#!/bin/sh\n"+west+" \"$@\" || exit 1\nif [ -e "+mark+
		" ]; then echo >>"+filepath.Join(workspace, "modules", "own", "module", "CMakeLists.txt")+"; fi\n")
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("ZEPHYR_BASE", filepath.Join(filepath.Dir(workspace), "zephyr"))
	p := zephyrProject(t, freshBuilder(t), "")
	writeFile(t, mark, "")
	wantError(t, buildError(t, p), failure.Config, "own/module changed during the build")
	must(t, os.Remove(mark))
	if i := built(t, p); i.UpToDate {
		t.Error("up to date after an error")
	}
}

// TestZephyrGoesOn: after a change of settings, of the device tree, of the list of sources, or of an error, a build
// compiles in the same folder what depends on the change, and gives the image of a build from nothing.
func TestZephyrGoesOn(t *testing.T) {
	t.Parallel()
	needFullZephyr(t)
	b := freshBuilder(t)
	p := zephyrProject(t, b, "")
	var log strings.Builder
	p.builder.Log = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})
	built(t, p)
	for _, c := range []struct {
		name, text string
		most       int // objects that are new then
		wrong      bool
	}{
		{"src/own.c", "int own;\n", 4, false},
		{"src/own.c", "wrong\n", 4, true},
		{"src/own.c", "int own2;\n", 4, false},
		{"local/local.conf", "# a comment\n", 4, false},
		{"local/local.conf", "CONFIG_NO_SUCH=y\n", 4, true},
		{"local/local.conf", "CONFIG_FPU_SHARING=y\n", 4, false},
		{"app.overlay", "/ { aliases { mine = &uart1; }; };\n", 100, false},
		{"app.overlay", "", 100, false},
		{"local/local.cmake", "set(own 1)\n", 4, false},
	} {
		before := time.Now()
		if writeFile(t, p.at(c.name), c.text); c.text == "" {
			must(t, os.Remove(p.at(c.name)))
		}
		if err := buildError(t, p); (err != nil) != c.wrong {
			t.Fatalf("%s, %q: %v", c.name, c.text, err)
		}
		n := 0
		for _, dir := range keptDirs(t, b.Cache) {
			n += len(objectsSince(t, dir, before))
		}
		if n > c.most {
			t.Errorf("%s, %q: %d new objects", c.name, c.text, n)
		}
	}
	if want := "warning: FPU_SHARING (defined at arch/Kconfig:"; !strings.Contains(log.String(), want) {
		t.Errorf("the warnings lack %s: %s", want, &log)
	}
	writeFile(t, p.at("src/own.c"), "int own3;\n")
	p.builder.Fresh = true
	built(t, p)
}

func hasFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// TestZephyrUsersFiles builds by hand, through a symbolic link, a project with files in C++ and assembler, a relocated
// file of the firmware, and devices of which one is defined in the firmware's folder.
func TestZephyrUsersFiles(t *testing.T) {
	t.Parallel()
	needFullZephyr(t)
	p := zephyrProject(t, freshBuilder(t), "int users;")
	for name, text := range usersFiles() {
		add(t, p.at(name), text)
	}
	link := westByHand(t, p.Dir())
	i := &image.Image{Path: p.at("build/west/zephyr/firmware.elf")}
	data := readFile(t, i.Path)
	for _, at := range []string{p.Dir(), link, os.Getenv("ZEPHYR_BASE")} {
		if i := strings.Index(data, at); i >= 0 {
			t.Errorf("the image names the folder: %q", data[i:min(len(data), i+len(at)+20)])
		}
	}
	if at := symbolsOf(t, i)["os_init"]; at < 0x2000_0000 {
		t.Errorf("os_init is at %#x, not in RAM", at)
	}
	table, err := os.ReadFile(p.at("build/west/zephyr/dev_handles.c"))
	if os.IsNotExist(err) {
		return // this Zephyr makes none, or not without an option
	}
	must(t, err)
	parent := regexp.MustCompile(`/\* (\d+) : /zparent:`).FindSubmatch(table)
	child := regexp.MustCompile(`(?s)/zparent/zchild:.*?\[\] = \{ (\d+), `).FindSubmatch(table)
	if parent == nil || child == nil || !bytes.Equal(parent[1], child[1]) {
		t.Errorf("zchild does not depend on zparent:\n%s", table)
	}
}

// usersFiles returns the texts that TestZephyrUsersFiles adds to files.
func usersFiles() map[string]string {
	device := func(name string, priority int) string {
		return fmt.Sprintf(`#if __has_include(<zephyr/device.h>)
#include <zephyr/device.h>
#else
#include <device.h>
#endif
static int begin(const struct device *d) { (void)d; return 0; }
DEVICE_DT_DEFINE(DT_NODELABEL(%s), begin, NULL, NULL, NULL, POST_KERNEL, %d, NULL);
`, name, priority)
	}
	cpp := "CPLUSPLUS"
	if hasFolder(filepath.Join(os.Getenv("ZEPHYR_BASE"), "lib/cpp")) {
		cpp = "CPP"
	}
	return map[string]string{
		"local/local.conf":    "\nCONFIG_CODE_DATA_RELOCATION=y\nCONFIG_" + cpp + "=y\n",
		"local/local.overlay": "\n/ { zparent: zparent { zchild: zchild { }; }; };\n",
		"src/child.c":         device("zchild", 20),
		"boardsmith/src/up.c": device("zparent", 10),
		"src/place.cpp":       `extern "C" { extern const char place_cpp[]; const char place_cpp[] = __FILE__; }` + "\n",
		"src/place.S":         ".section .rodata.place, \"a\"\n.global place\nplace: .asciz __FILE__\n",
		"CMakeLists.txt": `
target_sources(app PRIVATE src/place.cpp src/place.S)
set(port boardsmith/os/zephyr_port.c)
if(zephyr VERSION_LESS 3.3)
  zephyr_code_relocate(${port} SRAM)
else()
  zephyr_code_relocate(FILES ${port} LOCATION RAM)
endif()
`,
	}
}

// add appends to a file, which it makes if needed.
func add(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, err)
	must(t, f.Close())
}

// BenchmarkZephyr builds for a board of the Zephyr in $ZEPHYR_BASE: from nothing, after an operator has changed, and
// without a change; and takes a new candidate the whole way to a session and a call. cpu-s/op is the time of all
// processors, of compilers, too.
func BenchmarkZephyr(b *testing.B) {
	needZephyr(b, "qemu-system-arm")
	warm := storeIn(b.TempDir())
	count := 0
	// candidate generates the project of an operator that no build had before.
	candidate := func(b *testing.B, dir string, by *Builder) *Project {
		b.Helper()
		count++
		operator := mlftest.TinyOperator + fmt.Sprintf("int candidate%d(void) { return %d; }\n", count, count)
		spec := Spec{Board: "zephyr/" + zephyrKeptBoard, Model: mlftest.Operator(b, operator)}
		p, err := by.Generate(b.Context(), dir, spec)
		must(b, err)
		return p
	}
	dir := newDir(b)
	first := candidate(b, dir, warm)
	built(b, first)
	must(b, first.Close())
	for name, step := range map[string]func(b *testing.B) *Project{
		"from=nothing": func(b *testing.B) *Project {
			p := candidate(b, newDir(b), storeIn(b.TempDir()))
			built(b, p)
			return p
		},
		"from=operator": func(b *testing.B) *Project {
			p := candidate(b, dir, warm)
			built(b, p)
			return p
		},
		"from=image": func(b *testing.B) *Project {
			p, err := warm.Open(dir)
			must(b, err)
			built(b, p)
			return p
		},
		"candidate=new": func(b *testing.B) *Project {
			p := candidate(b, newDir(b), warm)
			s, err := p.Run(b.Context(), newDesk(), "")
			must(b, err)
			rpctest.CallTwice(b, s)
			must(b, s.Close(b.Context()))
			return p
		},
	} {
		b.Run(name, func(b *testing.B) {
			before := cpuTime(b)
			for b.Loop() {
				must(b, step(b).Close())
			}
			b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

// cpuTime is the time that this process and the ended ones that it has started used all processors.
func cpuTime(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		must(b, syscall.Getrusage(who, &u))
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}
