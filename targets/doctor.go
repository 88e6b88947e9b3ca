// This file knows the tools of other people that boardsmith calls: how to find them, what for, and how to get them.

package targets

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// A tool is something that must be installed for a part of the work.
type tool struct {
	name    string
	use     string   // what it is needed for
	apt     string   // a name by which apt knows the package: its own, or one that it provides; "" if Debian has none that would do
	python  string   // what pip installs, where apt is ""
	needed  bool     // to build for the host board; the others are for other boards, and for checks of boardsmith itself
	command []string // asks its version, and so shows that it works
	source  string   // C text for the command's standard input, which it must accept; "" if the command says it all
	linux   bool     // asked for on Linux only
}

// tools is what doctor and setup look for.
var tools = []tool{
	{name: "C compiler", use: "firmware for the host board", apt: "gcc", needed: true, command: []string{"cc", "--version"}},
	{
		name: "C library", use: "firmware for the host board", apt: "libc6-dev", needed: true,
		command: []string{"cc", "-fsyntax-only", "-x", "c", "-"}, source: "#include <stdint.h>\n#include <unistd.h>\n",
	},
	{
		name: "C++ compiler", use: "checking the runtime's headers as C++", apt: "g++", linux: true,
		command: []string{"g++", "-fsyntax-only", "-x", "c++", "-"}, source: "#include <stdint.h>\n",
	},
	{name: "make", use: "building any project", apt: "make", needed: true, command: []string{"make", "--version"}},
	{name: "git", use: "the commit in reports", apt: "git", command: []string{"git", "--version"}},
	cmocka,
	{name: "cppcheck", use: "lint of the C sources", apt: "cppcheck", linux: true, command: []string{"cppcheck", "--version"}},
	{name: "python3", use: "cppcheck's MISRA add-on", apt: "python3", linux: true, command: []string{"python3", "--version"}},
	{name: "clang", use: "fuzzing the C parsers", apt: "clang", linux: true, command: []string{"clang", "--version"}},
	{
		name: "libFuzzer", use: "fuzzing the C parsers", apt: "libclang-rt-dev", linux: true,
		command: []string{"clang", "-fsanitize=fuzzer,address", "-x", "c", "-", "-o", os.DevNull},
		source:  "#include <stddef.h>\n#include <stdint.h>\nint LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { return (int)((d != 0) && (n > 0)) * 0; }\n",
	},
	{name: "Arm compiler", use: "firmware for Arm boards", apt: "gcc-arm-none-eabi", command: []string{"arm-none-eabi-gcc", "--version"}},
	{
		name: "Arm C library", use: "firmware for Arm boards", apt: "libnewlib-arm-none-eabi",
		command: []string{"arm-none-eabi-gcc", "--specs=nano.specs", "-fsyntax-only", "-x", "c", "-"}, source: "#include <stdint.h>\n#include <string.h>\n",
	},
	{
		name: "RISC-V compiler", use: "firmware for RISC-V boards", apt: "gcc-riscv64-unknown-elf",
		command: []string{"riscv64-unknown-elf-gcc", "--version"},
	},
	{
		name: "picolibc", use: "firmware for RISC-V boards", apt: "picolibc-riscv64-unknown-elf",
		command: []string{"riscv64-unknown-elf-gcc", "--specs=picolibc.specs", "-fsyntax-only", "-x", "c", "-"}, source: "#include <stdint.h>\n#include <string.h>\n",
	},
	{name: "QEMU for Arm", use: "emulated Arm boards", apt: "qemu-system-arm", command: []string{"qemu-system-arm", "--version"}},
	{name: "OpenOCD", use: "programming boards", apt: "openocd", command: []string{"openocd", "--version"}},
	{name: "gdb", use: "debugging Arm boards (mage debug)", apt: "gdb-multiarch", command: []string{"gdb-multiarch", "--version"}},
	{
		name: "Python's venv", use: "setup's own pyOCD and west", apt: "python3-venv", linux: true,
		command: []string{"python3", "-c", "import venv, ensurepip"},
	},
	{name: "pyOCD", use: "programming boards (FLASHER=pyocd)", python: "pyocd==0.46.0", command: []string{"pyocd", "--version"}},
	{name: "west", use: "Zephyr projects", python: "west==1.5.0", command: []string{"west", "--version"}},
	{name: "debootstrap", use: "test:debian", apt: "debootstrap", linux: true, command: []string{"debootstrap", "--version"}},
	{name: "QEMU, RISC-V", use: "emulated RISC-V boards", apt: "qemu-system-riscv32", command: []string{"qemu-system-riscv32", "--version"}},
}

// cmocka is what the C unit tests need.
var cmocka = tool{
	name: "cmocka", use: "the C unit tests", apt: "libcmocka-dev", linux: true,
	command: []string{"cc", "-fsyntax-only", "-x", "c", "-"},
	source:  "#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <cmocka.h>\n",
}

// A finding is what one look at a tool found.
type finding struct {
	tool
	here    bool
	version string // the first line that it says of itself
	why     string // why it is not here
	fix     string // what to do then; "": install it
}

// probe looks for one tool.
func probe(ctx context.Context, t tool) finding {
	f := finding{tool: t}
	path, err := findProgram(os.Getenv, t.command[0])
	if err != nil {
		f.why = err.Error()
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, t.command[1:]...)
	cmd.Stdin = strings.NewReader(t.source)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	first, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
	if err != nil {
		f.why = strings.TrimSpace(fmt.Sprintf("%s: %v %s", strings.Join(t.command, " "), err, first))
		return f
	}
	f.here, f.version = true, first
	if t.source != "" || first == "" {
		f.version = "works"
	}
	return f
}

// look looks for all tools that this system can have.
func look(ctx context.Context) ([]finding, error) {
	var all []finding
	for _, t := range tools {
		if t.linux && runtime.GOOS != "linux" {
			continue
		}
		all = append(all, probe(ctx, t))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *session) doctor(ctx context.Context) error {
	p := s.out.lasts("looking for tools", len(tools))
	all, err := look(ctx)
	p.end()
	if err != nil {
		return err
	}
	s.out.printf("go       %s %s/%s, working folder %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, s.dir)
	var lacking []string
	for _, f := range all {
		s.printFinding(f)
		if !f.here && f.needed {
			lacking = append(lacking, f.name)
		}
	}
	for _, f := range access() {
		s.printFinding(f)
	}
	if runtime.GOOS != "linux" {
		s.out.printf("The host board runs on Linux; here build and flash hardware boards, or use a QEMU board.")
	}
	if len(lacking) > 0 {
		return failure.New(failure.ToolMissing, howToInstall(all), "missing: %s", strings.Join(lacking, ", "))
	}
	s.out.line(record{"status": "done"})
	return nil
}

func (s *session) printFinding(f finding) {
	state, detail := "ok", f.version
	if !f.here {
		state, detail = "missing", f.why
		if f.fix == "" {
			f.fix = "get it with: " + getIt(f.tool)
		}
		detail += "; " + f.fix
	}
	s.out.printf("%-8s %-15s for %s: %s", state, f.name, f.use, detail)
	s.out.line(record{"status": "done", "tool": f.name, "here": f.here, "version": f.version, "use": f.use, "needed": f.needed, "error": f.why})
}

func getIt(t tool) string {
	if t.apt == "" {
		return "go tool mage setup (" + t.python + ")"
	}
	if runtime.GOOS == "linux" {
		return "apt-get install " + t.apt
	}
	return "your system's package of " + t.apt
}

// howToInstall is one command for all that is missing.
func howToInstall(all []finding) string {
	pkgs := aptNames(missing(all, byApt))
	if len(pkgs) == 0 {
		if len(missing(all, byPython)) > 0 {
			return "go tool mage setup"
		}
		return ""
	}
	if !onDebian() {
		return "install what Debian calls: " + strings.Join(pkgs, " ")
	}
	return "go tool mage setup, or: apt-get install " + strings.Join(pkgs, " ")
}

// missing lists the tools that are not here and come in that way.
func missing(all []finding, way func(tool) bool) []tool {
	var list []tool
	for _, f := range all {
		if !f.here && way(f.tool) {
			list = append(list, f.tool)
		}
	}
	return list
}

func byApt(t tool) bool    { return t.apt != "" }
func byPython(t tool) bool { return t.apt == "" && t.python != "" }

func aptNames(list []tool) []string {
	var names []string
	for _, t := range list {
		names = append(names, t.apt)
	}
	return names
}

// onDebian says whether packages have Debian's names and apt installs them.
func onDebian() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return false
	}
	_, err = exec.LookPath("apt-get")
	return err == nil && (bytes.Contains(release, []byte("ID=debian")) || bytes.Contains(release, []byte("ID_LIKE=debian")) ||
		bytes.Contains(release, []byte("ID=ubuntu")))
}

// inBoardsmith says whether the working folder is boardsmith's own repository, whose C sources and tools are there to
// be checked; elsewhere test, lint and bench are about the user's repository.
func (s *session) inBoardsmith() bool {
	data, err := os.ReadFile(filepath.Join(s.dir, "go.mod"))
	return err == nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("module github.com/boardsmith/boardsmith\n"))
}
