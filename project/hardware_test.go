package project_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
)

// chips are the shipped boards that are no process.
func chips(t *testing.T, wanted func(*boards.Board) bool) []*boards.Board {
	t.Helper()
	var all []*boards.Board
	for _, name := range boards.List(nil) {
		b, err := boards.Find(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Memory) > 0 && wanted(b) {
			all = append(all, b)
		}
	}
	return all
}

func hasCompiler(t *testing.T, b *boards.Board) (why string) {
	t.Helper()
	compiler, _, err := device.MissingTools(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if len(compiler) > 0 {
		return compiler[0].Error() + ": " + failure.Next(compiler[0])
	}
	return ""
}

func hasEmulator(t *testing.T, b *boards.Board) (why string) {
	t.Helper()
	_, emulator, err := device.MissingTools(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if len(emulator) > 0 {
		return emulator[0].Error() + ": " + failure.Next(emulator[0])
	}
	return ""
}

// unwanted are symbols of a heap, of formatted output and of C++, none of which firmware of ours has.
var unwanted = regexp.MustCompile(`^_*(malloc|calloc|realloc|reallocarray|free|memalign|aligned_alloc|posix_memalign|malloc_usable_size|sbrk|brk)(_r)?$` +
	`|printf|scanf|^_*(f?puts|f?putc|putchar|fwrite|fopen|fflush)(_r)?$|^_Z|^__cxa_|^__gxx_|^_Unwind_|^__dso_handle$`)

// TestUnwanted tries the pattern on names of the C libraries and of ours.
func TestUnwanted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"malloc": true, "_malloc_r": true, "_free_r": true, "__malloc_lock": false, "_sbrk": true, "snprintf": true,
		"_vfiprintf_r": true,
		"__d_vfprintf": true, "_puts_r": true, "_Znwj": true, "__cxa_pure_virtual": true, "_ZTI3foo": true,
		"TVMPlatformMemoryFree": false, "TVMBackendFreeWorkspace": false, "TVMLogf": false, "memcpy": false,
		"freeze": false, "__aeabi_ldivmod": false,
	} {
		if got := unwanted.MatchString(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestEveryChipBuilds builds the sample for boards that are no process, all warnings being errors, and looks at the
// symbols of each image.
func TestEveryChipBuilds(t *testing.T) {
	t.Parallel()
	all := drawn.Of(t, "chips", chips(t, func(*boards.Board) bool { return true }), 3)
	model := filepath.Join(t.TempDir(), samples.Name)
	if err := os.WriteFile(model, samples.Archive(), 0o644); err != nil {
		t.Fatal(err)
	}
	c := cache.New(testcache.Dir(), cache.Options{})
	for _, b := range all {
		t.Run(b.Name, func(t *testing.T) {
			if why := hasCompiler(t, b); why != "" {
				t.Skip(why)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			dir := filepath.Join(t.TempDir(), "p")
			builder := &project.Builder{Host: device.Host{Cache: c}, Forms: true}
			p, err := builder.Generate(ctx, dir, project.Spec{Board: b.Name, Model: model})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			warnsAsErrors(t, dir)
			i, err := p.Build(ctx)
			if err != nil {
				t.Fatal(err)
			}
			symbols, err := exec.CommandContext(ctx, strings.TrimSuffix(b.Toolchain.Objcopy(), "objcopy")+"nm", i.Path).Output()
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for line := range strings.Lines(string(symbols)) {
				words := strings.Fields(line)
				name := words[len(words)-1]
				if n++; unwanted.MatchString(name) {
					t.Errorf("%s is in the image", name)
				}
			}
			if n < 50 {
				t.Errorf("only %d symbols in the image", n)
			}
			for _, f := range []string{i.Bin, i.Hex} {
				if s, err := os.Stat(f); err != nil || s.Size() == 0 {
					t.Errorf("%s: %v", f, err)
				}
			}
		})
	}
}

// warnsAsErrors makes the build to come stop at a warning.
func warnsAsErrors(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "Makefile")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	strict := strings.Replace(string(text), "\nWERROR :=\n", "\nWERROR := -Werror\n", 1)
	if strict == string(text) {
		t.Fatal("the Makefile has no WERROR")
	}
	if err := os.WriteFile(file, []byte(strict), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("make", "-C", dir, "-n", "-B").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, " -c -o build/src/") && !strings.Contains(line, " -Werror ") {
			t.Errorf("without -Werror: %s", line)
		}
	}
}
