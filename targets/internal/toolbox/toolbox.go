// Package toolbox finds and installs the external programs that boardsmith calls.
//
// Its table lists what users need. A package whose targets need more tools adds them for the targets doctor and setup
// of the same magefile. The package runs a program only to check that it works. For doctor, it also checks this user's
// access to debug probes.
package toolbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// A Tool is a program or library that some targets need.
type Tool struct {
	Name    string
	Use     string   // its purpose
	Apt     string   // apt's name of the package, or one that the package provides; "" if Debian has none
	Python  string   // pip's requirements, separated by spaces, if Apt is ""
	Needed  bool     // required to build for the host board
	Command []string // prints its version, and so shows that it works
	Path    string   // the variable that holds its path; "" if it is found on PATH only
	Source  string   // C source for the command's standard input, which it must accept; "" for none
	Linux   bool     // needed on Linux only
}

// tools lists what doctor and setup look for.
var tools = []Tool{
	{
		Name: "C compiler", Use: "firmware for the host board", Apt: "gcc", Needed: true,
		Command: []string{"cc", "--version"},
	},
	{
		Name: "C library", Use: "firmware for the host board", Apt: "libc6-dev", Needed: true,
		Command: []string{"cc", "-fsyntax-only", "-x", "c", "-"}, Source: "#include <stdint.h>\n#include <unistd.h>\n",
	},
	{Name: "make", Use: "building any project", Apt: "make", Needed: true, Command: []string{"make", "--version"}},
	{
		Name: "Arm compiler", Use: "firmware for Arm boards", Apt: "gcc-arm-none-eabi",
		Command: []string{"arm-none-eabi-gcc", "--version"},
	},
	{
		Name: "Arm C library", Use: "firmware for Arm boards", Apt: "libnewlib-arm-none-eabi",
		Command: []string{"arm-none-eabi-gcc", "--specs=nano.specs", "-fsyntax-only", "-x", "c", "-"},
		Source:  "#include <stdint.h>\n#include <string.h>\n",
	},
	{
		Name: "RISC-V compiler", Use: "firmware for RISC-V boards", Apt: "gcc-riscv64-unknown-elf",
		Command: []string{"riscv64-unknown-elf-gcc", "--version"},
	},
	{
		Name: "picolibc", Use: "firmware for RISC-V boards", Apt: "picolibc-riscv64-unknown-elf",
		Command: []string{"riscv64-unknown-elf-gcc", "--specs=picolibc.specs", "-fsyntax-only", "-x", "c", "-"},
		Source:  "#include <stdint.h>\n#include <string.h>\n",
	},
	{
		Name: "QEMU for Arm", Use: "emulated Arm boards", Apt: "qemu-system-arm",
		Command: []string{"qemu-system-arm", "--version"},
	},
	{
		Name: "OpenOCD", Use: "programming boards", Apt: "openocd", Path: "OPENOCD",
		Command: []string{"openocd", "--version"},
	},
	{
		Name: "gdb", Use: "debugging Arm boards (target debug)", Apt: "gdb-multiarch", Path: "GDB",
		Command: []string{"gdb-multiarch", "--version"},
	},
	{
		Name: "Python's venv", Use: "setup's own pyOCD and west", Apt: "python3-venv", Linux: true,
		Command: []string{"python3", "-c", "import venv, ensurepip"},
	},
	{
		Name: "pyOCD", Use: "programming boards (PROGRAMMER=pyocd)", Python: "pyocd==0.46.0", Path: "PYOCD",
		Command: []string{"pyocd", "--version"},
	},
	{
		Name: "west", Use: "Zephyr projects", Python: "west==1.5.0", Path: "WEST",
		Command: []string{"west", "--version"},
	},
	{
		Name: "QEMU, RISC-V", Use: "emulated RISC-V boards", Apt: "qemu-system-riscv32",
		Command: []string{"qemu-system-riscv32", "--version"},
	},
}

// Add adds tools for doctor and setup. Call it from init functions only.
func Add(more ...Tool) { tools = append(tools, more...) }

// Tools lists what doctor and setup look for on this system.
func Tools() []Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return t.Linux && runtime.GOOS != "linux" })
}

// A Finding is the result of looking for a tool.
type Finding struct {
	Tool
	Installed bool
	Version   string // the first line of its version output
	Reason    string // why it is missing
	Short     string // printed in place of Reason
	Fix       string // what to do if it is missing; "": install it
}

// Probe looks for one tool.
func Probe(ctx context.Context, t Tool) Finding {
	f := Finding{Tool: t}

	path, err := Find(os.Getenv, t.Command[0])
	if err != nil {
		f.Reason = err.Error()
		return f
	}

	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	cmd := exec.CommandContext(ctx, path, t.Command[1:]...)
	cmd.Stdin = strings.NewReader(t.Source)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	// A child of it that keeps the output open must not hold this up.
	cmd.WaitDelay = time.Second

	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed

	err = cmd.Run()
	if err == nil {
		err = lacking(ctx, t, path)
	}

	first, _, _ := strings.Cut(strings.TrimSpace(printed.String()), "\n")

	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		f.Reason = fmt.Sprintf("%s has not ended after %v", strings.Join(t.Command, " "), limit)
		f.Fix = "repeat this when the computer has less to do"
		return f
	case err != nil:
		f.Reason = strings.TrimSpace(fmt.Sprintf("%s: %v %s", strings.Join(t.Command, " "), err, first))
		return f
	}

	f.Installed, f.Version = true, first
	// The first line of these is no version.
	if t.Source != "" || first == "" || strings.HasPrefix(first, "usage:") {
		f.Version = "works"
	}

	return f
}

// Look looks for all tools, and calls done for each. It returns an error only if ctx ended.
func Look(ctx context.Context, done func(n int)) ([]Finding, error) {
	var all []Finding
	for _, t := range Tools() {
		all = append(all, Probe(ctx, t))
		done(1)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Print prints a finding, and what to do if the tool is missing.
func Print(c *console.Console, f Finding) {
	state, detail := "ok", f.Version
	if !f.Installed {
		state, detail = "missing", cmp.Or(f.Short, f.Reason)
		if f.Fix == "" {
			f.Fix = "get it with: " + getIt(c, f.Tool)
		}
		detail += "; " + f.Fix
	}

	c.Printf("%-8s %-15s for %s: %s", state, f.Name, f.Use, detail)
	c.JSONLine(jsonlines.Tool{
		Tool: f.Name, Installed: f.Installed, Version: f.Version, Use: f.Use, Needed: f.Needed, Error: f.Reason,
	})
}

func getIt(c *console.Console, t Tool) string {
	if t.Apt == "" {
		return c.Mage("setup")
	}
	if runtime.GOOS == "linux" {
		return "apt-get install " + t.Apt
	}
	return "your system's package of " + t.Apt
}

// HowToInstall returns the next step of an error: one command that installs everything that is missing.
func HowToInstall(all []Finding) string {
	pkgs := aptNames(missing(all, byApt))
	if len(pkgs) == 0 {
		if len(missing(all, byPython)) > 0 {
			return nextstep.Target("setup")
		}
		return ""
	}

	if !OnDebian() {
		return "install what Debian calls: " + strings.Join(pkgs, " ")
	}

	return nextstep.Target("setup") + ", or: apt-get install " + strings.Join(pkgs, " ")
}

// missing returns the missing tools that are installed in that way.
func missing(all []Finding, way func(Tool) bool) []Tool {
	var list []Tool
	for _, f := range all {
		if !f.Installed && way(f.Tool) {
			list = append(list, f.Tool)
		}
	}
	return list
}

func byApt(t Tool) bool    { return t.Apt != "" }
func byPython(t Tool) bool { return t.Apt == "" && t.Python != "" }

func aptNames(list []Tool) []string {
	var names []string
	for _, t := range list {
		names = append(names, t.Apt)
	}
	return names
}

// OnDebian reports whether this system has apt and Debian's package names.
func OnDebian() bool {
	if runtime.GOOS != "linux" {
		return false
	}

	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return false
	}

	_, err = exec.LookPath("apt-get")
	return err == nil && slices.ContainsFunc([]string{"ID=debian", "ID_LIKE=debian", "ID=ubuntu"}, func(id string) bool {
		return bytes.Contains(release, []byte(id))
	})
}
