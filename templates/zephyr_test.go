package templates_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/templates"
)

var must = testkit.Must

// A zephyrBuild is a configuration in which the template's C is compiled.
type zephyrBuild struct {
	name         string
	files, flags []string
}

// zephyrBuilds reads testdata/zephyr/builds.txt, which crt/lint.sh reads too.
func zephyrBuilds(t *testing.T) (all []zephyrBuild) {
	t.Helper()
	var common []string
	for _, line := range linesOf(t, "testdata/zephyr/builds.txt") {
		words := strings.SplitN(line, ":", 3)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(words) != 3 {
			t.Fatalf("builds.txt: %q", line)
		}
		b := zephyrBuild{words[0], strings.Fields(words[1]), append(slices.Clone(common), strings.Fields(words[2])...)}
		if b.name == "all" {
			common = b.flags
			continue
		}
		all = append(all, b)
	}
	return all
}

func linesOf(t *testing.T, name string) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(readText(t, name)), "\n")
}

// TestZephyrBoardFile: what board_json.cmake writes is a board file, with the compiler's path, which need not be on
// PATH, and the kind of ELF file that this compiler makes.
func TestZephyrBoardFile(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "cmake")
	sdk := filepath.ToSlash(t.TempDir())
	cc := sdk + "/bin/x-gcc"
	must(t, os.Mkdir(filepath.Dir(cc), 0o755))
	testkit.WriteProgram(t, cc, "#!/bin/sh\necho nothing\n")
	emulated := []string{"CONFIG_QEMU_TARGET=1", "QEMU_FLAGS_any=-nographic;-cpu;any", "ARCH=any", "CONFIG_SRAM_SIZE=64"}
	for _, c := range []struct {
		name string
		set  []string
		want boards.ELF
	}{
		{"posix", []string{"CONFIG_ARCH_POSIX=1"}, boards.ELF{}},
		{"x86", append(emulated, "CONFIG_X86=1"), boards.ELF{Machine: "386", Class: 32, Endian: "little"}},
		{
			"x86_64", append(emulated, "CONFIG_X86=1", "CONFIG_X86_64=1", "CONFIG_64BIT=1"),
			boards.ELF{Machine: "x86-64", Class: 64, Endian: "little"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.ToSlash(t.TempDir())
			words := []string{
				"CMAKE_C_COMPILER=" + cc, "CMAKE_AR=" + sdk + "/bin/x-ar", "APPLICATION_SOURCE_DIR=" + dir,
				"PROJECT_BINARY_DIR=" + dir, "BOARD=" + c.name, "boardsmith_arena_bytes=32768",
				"boardsmith_stack_bytes=2048", "CONFIG_SRAM_BASE_ADDRESS=0x20000000",
			}
			var args []string
			for _, word := range append(words, c.set...) {
				args = append(args, "-D"+word)
			}
			args = append(args, "-P", "zephyr/boardsmith/cmake/board_json.cmake")
			testkit.Output(t, exec.Command("cmake", args...))
			family, err := boards.Find("zephyr/"+c.name, nil)
			must(t, err)
			b, err := family.Complete("board.json", testkit.ReadFile(t, dir+"/build/board.json"))
			must(t, err)
			if b.Toolchain.CC != cc || b.Toolchain.AR != sdk+"/bin/x-ar" {
				t.Errorf("toolchain %+v, want one in %s", b.Toolchain, sdk)
			}
			if c.want.Machine != "" && b.ELF != c.want {
				t.Errorf("ELF %+v, want %+v", b.ELF, c.want)
			}
		})
	}
}

// TestGlobsAreChecked: each list of sources that CMake makes by a pattern is made again when files come or go, because
// folders that are kept have the former list.
func TestGlobsAreChecked(t *testing.T) {
	t.Parallel()
	lists := 0
	err := fs.WalkDir(templates.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Base(name) != "CMakeLists.txt" && path.Ext(name) != ".cmake" {
			return err
		}
		text, err := fs.ReadFile(templates.FS, name)
		for i, line := range strings.Split(string(text), "\n") {
			if !strings.Contains(line, "file(GLOB") {
				continue
			}
			lists++
			if !strings.Contains(line, " CONFIGURE_DEPENDS ") {
				t.Errorf("%s:%d: %s", name, i+1, line)
			}
		}
		return err
	})
	if err != nil || lists < 4 {
		t.Errorf("%d lists of sources, %v", lists, err)
	}
}

// TestZephyrSyntax compiles the Zephyr template's C against stubs of Zephyr's headers, in their old place and in that
// since version 3.1.
func TestZephyrSyntax(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "gcc")
	for _, place := range []string{"zephyr", "."} {
		headers := t.TempDir()
		for _, name := range linesOf(t, "testdata/zephyr/headers.txt") {
			testkit.WriteFile(t, filepath.Join(headers, place, name), "#include <stubs.h>\n")
		}
		for _, b := range zephyrBuilds(t) {
			t.Run(place+"/"+b.name, func(t *testing.T) {
				args := []string{
					"-fsyntax-only", "-std=gnu11", "-Wall", "-Wextra", "-Werror",
					"-Wno-pointer-to-int-cast", "-Wno-int-to-pointer-cast", "-Wno-main",
					"-Izephyr/boardsmith/config", "-Izephyr/boardsmith/os", "-Ifirmware", "-I../crt/include",
					"-isystem", headers, "-isystem", "testdata/zephyr",
				}
				args = append(args, b.flags...)
				for _, file := range b.files {
					args = append(args, "zephyr/boardsmith/os/"+file)
				}
				testkit.Output(t, exec.Command("gcc", args...))
				together := exec.Command("gcc", append(slices.Clone(args[:len(args)-len(b.files)]), "-x", "c", "-")...)
				together.Stdin = strings.NewReader(firmwareAsOne(t, b.files))
				testkit.Output(t, together)
				if !slices.Contains(b.files, "server.c") {
					return
				}
				// The main.c of standalone firmware in place of the RPC server's.
				alone := append(slices.Clone(args), "-iquotestandalone", "standalone/lines.c")
				testkit.Output(t, exec.Command("gcc", alone...))
			})
		}
	}
}

// unityGroup matches the line of late/CMakeLists.txt that says which files of the firmware are one source, with slashes
// before folders.
var unityGroup = regexp.MustCompile(`list\(FILTER sources INCLUDE REGEX "(.+)"\)`)

// firmwareAsOne returns a source that includes those files of the firmware that the template compiles as one: of the
// common files, and of these of os/.
func firmwareAsOne(t *testing.T, files []string) string {
	t.Helper()
	found := unityGroup.FindStringSubmatch(readText(t, "zephyr/boardsmith/late/CMakeLists.txt"))
	if found == nil {
		t.Fatal("no group of the firmware in late/CMakeLists.txt")
	}
	group := regexp.MustCompile(strings.ReplaceAll(found[1], `\\`, `\`))
	all, err := filepath.Glob("firmware/*.c")
	must(t, err)
	for _, file := range files {
		all = append(all, "zephyr/boardsmith/os/"+file)
	}
	var text strings.Builder
	for _, file := range all {
		place := strings.NewReplacer("firmware/", "/src/", "zephyr/boardsmith/os/", "/os/").Replace(file)
		if group.MatchString(place) {
			fmt.Fprintf(&text, "#include %q\n", file)
		}
	}
	if text.Len() == 0 {
		t.Errorf("no file of %q is in the group %s", all, group)
	}
	return text.String()
}

// TestZephyrUnity: the runtime, whose files the Zephyr template compiles together, has no two definitions of a name,
// and no macro that breaks a later file.
func TestZephyrUnity(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "gcc")
	files, err := filepath.Glob("../crt/src/*/*.c")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files, %v", err)
	}
	var text strings.Builder
	for _, file := range files {
		fmt.Fprintf(&text, "#include %q\n", file)
	}
	for _, option := range []string{"BOARDSMITH_UPLOAD_BYTES=4096", "BOARDSMITH_NO_GRAPH_EXECUTOR"} {
		cmd := exec.Command("gcc", "-fsyntax-only", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I.",
			"-Izephyr/boardsmith/config", "-I../crt/include", "-I../crt/src",
			"-DBOARDSMITH_DEFAULT_ARENA_BYTES=4096", "-D"+option,
			"-DCONFIG_BOARDSMITH_PACKET_BYTES=512", "-DCONFIG_BOARDSMITH_STACK_BYTES=2048",
			"-DCONFIG_BOARDSMITH_WATCHDOG_MS=0", "-x", "c", "-")
		cmd.Stdin = strings.NewReader(text.String())
		testkit.Output(t, cmd)
	}
}

// TestZephyrVersions: a Zephyr that is too old is refused with its version, and 2.10 would be later than 2.7. One that
// does not quote paths is refused in a folder that it cannot build in.
func TestZephyrVersions(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "cmake")
	const folder = "the path has a space or another character that it does not quote"
	type versionCase struct{ version, folder, want string }
	cases := []versionCase{
		{"1.14", "b", "Zephyr 1.14 in BASE is too old: use 2.7 or later"},
		{"2.6", "b", "Zephyr 2.6 in BASE is too old: use 2.7 or later"},
		{"2.7", "b", ""},
		{"2.10", "b", ""},
		{"4.1", "b", ""},
		{"main", "b", "BASE/VERSION has no version number"},
		{"2.7", "b b", folder},
		{"3.5", "b=+-_.@b", ""},
		{"3.6", "b b", ""},
	}
	for _, character := range `,'"()$;#%&[]<>` {
		cases = append(cases, versionCase{"3.5", "b" + string(character) + "b", folder})
	}
	for _, c := range cases {
		base, build := t.TempDir(), filepath.Join(t.TempDir(), c.folder)
		major, minor, _ := strings.Cut(c.version, ".")
		text := "VERSION_MAJOR = " + major + "\nVERSION_MINOR = " + minor + "\nPATCHLEVEL = 0\n"
		testkit.WriteFile(t, filepath.Join(base, "VERSION"), text)
		cmd := exec.Command("cmake", "-S", "zephyr", "-B", build)
		cmd.Env = append(os.Environ(), "ZEPHYR_BASE="+base)
		out, err := cmd.CombinedOutput()
		said := strings.ReplaceAll(strings.Join(strings.Fields(string(out)), " "), base, "BASE")
		refused := strings.Contains(said, "boardsmith:")
		if err == nil || refused != (c.want != "") || !strings.Contains(said, c.want) {
			t.Errorf("Zephyr %s in %s: %v, %s", c.version, c.folder, err, said)
		}
	}
}
