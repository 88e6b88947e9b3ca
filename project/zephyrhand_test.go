//go:build !windows

package project

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// handSteps are the commands of "west by hand", by a part that no other command has, and what they print.
var handSteps = []struct{ part, prints string }{
	{"-b NAME", `FLASH:`},
	{"-t menuconfig", `No changes to save`},
	{"-t rom_report", `boardsmith_port`},
	{"-t ram_report", `boardsmith_`},
	{"west flash", `pyocd flash .*musca_b1 .*build/west/zephyr/zephyr\.hex\n`},
	{"west debug", `gdb-multiarch .*build/west/zephyr/zephyr\.elf`},
	{"west twister", `1 of 1\b.* passed`},
	{"scripts/twister", `1 of 1\b.* passed`},
}

// handCommands returns the commands of "west by hand" in docs/zephyr.md, which are one for each of handSteps, and the
// Python packages that the section installs.
func handCommands(t *testing.T) (commands, packages []string) {
	t.Helper()
	page := readFile(t, "../docs/zephyr.md")
	_, section, _ := strings.Cut(page, "\n### west by hand\n")
	section, _, _ = strings.Cut(section, "\n## ")
	quoted := regexp.MustCompile("`((?:west|pip|\\$ZEPHYR_BASE/scripts/twister) [^`]+)`")
	for _, m := range quoted.FindAllStringSubmatch(section, -1) {
		if words, ok := strings.CutPrefix(m[1], "pip install "); ok {
			packages = append(packages, strings.Fields(words)...)
		} else if n := len(commands); n < len(handSteps) && strings.Contains(m[1], handSteps[n].part) {
			commands = append(commands, m[1])
		} else {
			t.Fatalf("command %d of the page is %q", n+1, m[1])
		}
	}
	if len(commands) != len(handSteps) || len(packages) == 0 {
		t.Fatalf("the page has the commands %q, and installs %q", commands, packages)
	}
	return commands, packages
}

// TestZephyrByHand runs the commands of "west by hand" in docs/zephyr.md in a project's folder, for a board that has a
// runner, and that Zephyr builds without a vendor's module. Scripts replace the runner's programs.
func TestZephyrByHand(t *testing.T) {
	commands, packages := handCommands(t)
	needFullZephyr(t, "script", "qemu-system-arm")
	bin, own := t.TempDir(), ownTest(t)
	for _, name := range []string{"pyocd", "gdb-multiarch"} {
		testkit.WriteProgram(t, filepath.Join(bin, name), "#!/bin/sh\necho "+name+" \"$@\"\n")
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("TMPDIR", t.TempDir()) // west leaves a file there when it fails
	installed := installPackages(t, packages)
	model := mlftest.Path(t, "digits_i8.aot_packed")
	dir := generated(t, Spec{Board: "zephyr/v2m_musca_b1", Model: model}).Dir()
	_, err := os.Stat(filepath.Join(os.Getenv("ZEPHYR_BASE"), "scripts/west_commands/twister_cmd.py"))
	twister := map[bool]string{true: "west twister", false: "scripts/twister"}[err == nil]
	for i, s := range handSteps {
		t.Run(s.part, func(t *testing.T) {
			board, isTwister := "v2m_musca_b1", strings.Contains(s.part, "twister")
			if isTwister {
				board = zephyrKeptBoard // QEMU runs it
			}
			switch {
			case isTwister && s.part != twister:
				t.Skip("this Zephyr has " + twister)
			case !installed && (isTwister || strings.Contains(s.part, "_report")):
				t.Skipf("PyPI is not reached, which has %v", packages)
			}
			line := strings.NewReplacer("NAME", board, "FOLDER", own).Replace(commands[i])
			out, err := runByHand(t, dir, line)
			if err != nil || !regexp.MustCompile(s.prints).MatchString(out) {
				t.Fatalf("%s: %v, no %q in the output:\n%s", line, err, s.prints, out)
			}
			without, _, gdb := strings.Cut(line, " --gdb ")
			if _, err := exec.LookPath("arm-none-eabi-gdb"); gdb && err != nil {
				if out, err := runByHand(t, dir, without); err == nil || !strings.Contains(out, "gdb is missing") {
					t.Errorf("%s: %v\n%s", without, err, out)
				}
			}
		})
	}
}

// ownTest returns a folder with an application that twister runs.
func ownTest(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{
		"CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nfind_package(Zephyr REQUIRED HINTS $ENV{ZEPHYR_BASE})\n" +
			"project(own)\ntarget_sources(app PRIVATE main.c)\n",
		"prj.conf": "# nothing\n",
		"main.c":   "extern int printk(const char*, ...);\nint main(void) { printk(\"own test passed\\n\"); return 0; }\n",
		"testcase.yaml": "tests:\n  own.test:\n    harness: console\n" +
			"    harness_config: {type: one_line, regex: [own test passed]}\n",
	})
	return dir
}

// installPackages installs Python packages for the programs that the test starts, and returns false if PyPI is not
// reached.
func installPackages(t *testing.T, packages []string) bool {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PYTHONPATH", dir)
	args := append([]string{"-m", "pip", "install", "--quiet", "--target", dir}, packages...)
	out, err := exec.CommandContext(t.Context(), "python3", args...).CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("onnection")) {
		t.Fatalf("python3 %v: %v\n%s", args, err, out)
	}
	return err == nil
}

// runByHand runs a command in a terminal, in which q is typed until it ends, and returns its output.
func runByHand(t *testing.T, dir, line string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := command.Command{
		Path: "sh", Dir: dir, Env: append(os.Environ(), "TERM=xterm"), Stdout: &out, Timeout: 10 * time.Minute,
		Args: []string{
			"-c", "(while sleep 1; do printf q || exit; done) | script --quiet --flush --return --command '" + line +
				"' /dev/null",
		},
	}.Run(t.Context())
	return strings.ReplaceAll(out.String(), "\r\n", "\n"), err
}
