package faultimage

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// inlining is a source of functions that are inlined into each other, with blocks of their own, and of one that is left
// out.
const inlining = `
volatile int sink, count;
__attribute__((always_inline)) static inline int inner(int x) {
	if (x > 3) { int y = x * sink; sink = y; }
	return x + sink;
}
__attribute__((always_inline)) static inline int middle(int x) {
	for (int i = 0; i < count; i++) { int z = inner(x + i); sink = z; x += z; }
	return x - sink;
}
__attribute__((noinline)) int outer(int x) {
	sink = x;
	return middle(x) +
		middle(2 * x);
}
int unused(int x) { return middle(x) + 1; }
`

// caller is a source of another folder.
const caller = "int outer(int x); int main(void) { return outer(1) + 1; }"

// TestFramesMatchAddr2line compares an image's line for each address with the output of binutils' addr2line for the
// same file.
func TestFramesMatchAddr2line(t *testing.T) {
	t.Parallel()
	for _, cc := range [][]string{
		{"gcc"}, {"gcc", "-gdwarf-4", "-Os"}, {"arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-Wl,-Ttext=0x8000"},
	} {
		t.Run(strings.Join(cc, " "), func(t *testing.T) {
			t.Parallel()
			tool := strings.TrimSuffix(cc[0], "gcc") + "addr2line"
			testkit.Need(t, cc[0], tool)
			dir := t.TempDir()
			testkit.WriteFiles(t, dir, map[string]string{"model/a.c": inlining, "crt/b.c": caller})
			args := append([]string{"-g", "-O2"}, cc[1:]...)
			args = append(args, "-fdebug-prefix-map="+dir+"=.", "-ffunction-sections", "-Wl,--gc-sections", "-nostdlib",
				"-Wl,-e,main")
			args = append(args, "-o", "a.elf", "model/a.c", "crt/b.c")
			cmd := exec.Command(cc[0], args...)
			cmd.Dir = dir
			testkit.Output(t, cmd)
			f, err := elf.Open(filepath.Join(dir, "a.elf"))
			must(t, err)
			defer f.Close()
			p, err := Read(f, firmware.Landmarks{Folders: firmware.Folders{Model: "model", Runtime: "crt"}})
			must(t, err)
			compareAddresses(t, p, tool, filepath.Join(dir, "a.elf"))
			checkOperator(t, p)
		})
	}
}

// addressLine is a frame in addr2line's output: the function, then file, line and additional data.
var addressLine = regexp.MustCompile(`(?m)^(\S+)\n(\S+):(\d+|\?)[^\n]*$`)

func compareAddresses(t *testing.T, p *DebugInfo, tool, file string) {
	t.Helper()
	step := uint64(1)
	if p.file.Machine == elf.EM_ARM {
		step = 2
	}
	args := []string{"-f", "-i", "-a", "-e", file}
	var all []uint64
	for _, s := range p.functions {
		for pc := s.Value; pc < s.Value+s.Size; pc += step {
			all, args = append(all, pc), append(args, fmt.Sprintf("%#x", pc))
		}
	}
	out, err := exec.Command(tool, args...).Output()
	must(t, err)
	addresses := regexp.MustCompile(`(?m)^0x[0-9a-f]+$`).Split(string(out), -1)[1:]
	inlined := 0
	for i, pc := range all {
		var want, got string
		for _, m := range addressLine.FindAllStringSubmatch(addresses[i], -1) {
			want += fmt.Sprintf("%s %s:%s, ", m[1], path.Base(m[2]), m[3])
		}
		frames := p.FramesAt(pc)
		for n, f := range frames {
			got += fmt.Sprintf("%s %s:%d, ", f.Function, path.Base(f.File), f.Line)
			if f.PC != pc || f.Inlined != (n < len(frames)-1) {
				t.Errorf("%#x: %+v", pc, frames)
			}
		}
		wantEqual(t, got, want, pc)
		inlined = max(inlined, len(frames)-1)
	}
	if inlined < 2 {
		t.Error("nothing is inlined twice")
	}
	if len(p.calls.fdes) == 0 {
		t.Error("no call frames")
	}
}

// checkOperator checks the operator that an image reports for a fault in the model's function outer, which the
// runtime's main calls.
func checkOperator(t *testing.T, p *DebugInfo) {
	t.Helper()
	at := map[string]uint64{}
	for _, s := range p.functions {
		at[s.Name] = s.Value
	}
	for name, want := range map[string]bool{"outer": true, "main": false, "unused": false, "": false} {
		wantEqual(t, p.isOperator(name), want, name)
	}
	if p.file.Machine != elf.EM_ARM {
		return // its return address is on the stack
	}
	back := at["main"]
	for n := 0; n < 16 && !afterThumbCall(p, back); n++ {
		back += 2
	}
	rec := fault.Record{
		Arch: fault.ArchCortexM, WordBytes: 4, PCValid: true, SPValid: true, SP: 0x20000000, PC: at["outer"], LR: back + 1,
	}
	e := p.Explain(&rec, "")
	if e.Operator != "outer" || len(e.Frames) < 2 || e.Frames[len(e.Frames)-1].Function != "main" {
		t.Errorf("%+v", e)
	}
	rec.PC = at["main"]
	for called, want := range map[string]string{"outer": "outer", "main": "", "": ""} {
		if e := p.Explain(&rec, called); e.Operator != want {
			t.Errorf("after a call of %q: %+v", called, e)
		}
	}
}
