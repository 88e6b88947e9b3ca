//go:build linux

package device_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
)

// microbitInZephyr is Zephyr's board for the chip that is emulated behind the probe.
const microbitInZephyr = `{"doc": "behind an emulated probe", "inherits": "family/zephyr",
	"flash": {"scripts": ["target/nrf51.cfg"], "chip": "nrf51", "emulated": true}}`

// needZephyr skips a plain run, and one without a Zephyr that has these modules.
func needZephyr(t *testing.T, modules ...string) {
	t.Helper()
	base := os.Getenv("ZEPHYR_BASE")
	if !drawn.InFull() || base == "" {
		t.Skip("only in a full run, with a Zephyr in ZEPHYR_BASE (docs/zephyr.md)")
	}
	for _, module := range modules {
		if _, err := os.Stat(filepath.Join(base, "..", "modules", module)); err != nil {
			t.Skipf("the workspace has no module %s", module)
		}
	}
}

// zephyrProject is a project with a line in its operator.
func (d *desk) zephyrProject(line string) *project.Project {
	operator := strings.Replace(mlftest.TinyOperator, "  return 0;", line+"  return 0;", 1)
	return generated(d.t, project.Spec{Board: d.board, Model: mlftest.Operator(d.t, operator)}, d.env)
}

// otherLine is a line of another operator.
const otherLine = "  out[1] = in[1] * in[2] + in[3];\n"

// TestZephyrFlash: images of Zephyr are flashed as others: all sectors, then none, then those that differ; a longer
// operator moves only the model. Zephyr's micro:bit is programmed too, but its clock is one that QEMU lacks: it does
// not boot.
func TestZephyrFlash(t *testing.T) {
	needZephyr(t, "hal/nordic")
	shelf := boardstest.Shelf(t, map[string]string{"zephyr/bbc_microbit.json": microbitInZephyr})
	for _, c := range []struct {
		board, tool string
		boots       bool
	}{
		{"zephyr/qemu_cortex_m0", "openocd", true},
		{"zephyr/qemu_cortex_m0", "west", true},
		{"zephyr/bbc_microbit", "west", false},
	} {
		t.Run(c.board+"/"+c.tool, func(t *testing.T) {
			for _, tool := range []string{"west", "cmake", "ninja", "pyocd"} {
				if _, err := programmerPath(tool); err != nil {
					t.Skipf("%s is not installed", tool)
				}
			}
			d := deskWith(t, shelf, c.board, c.tool)
			p := d.zephyrProject("")
			one, two := built(t, p), built(t, d.zephyrProject(otherLine))
			ctx := t.Context()
			dev, err := attach(ctx, p.Board(), "", d.env)
			must(t, err)
			defer dev.Close()
			first, err := dev.Flash(ctx, one)
			if !c.boots {
				if failure.Of(err) != failure.Boot || !first.Verified {
					t.Errorf("%+v, %v", first, err)
				}
				must(t, holdsAt(d.flash(), 0, one))
				return
			}
			must(t, err)
			must(t, holdsAt(d.flash(), 0, one))
			again, err := dev.Flash(ctx, one)
			must(t, err)
			changed, err := dev.Flash(ctx, two)
			must(t, err)
			must(t, holdsAt(d.flash(), 0, two))
			if first.Erased < 20 || again.Erased != 0 || again.Wrote != 0 || changed.Erased == 0 || changed.Erased > 5 {
				t.Errorf("%+v\n%+v\n%+v", first, again, changed)
			}
			s, err := dev.Open(ctx, two)
			must(t, err)
			must(t, s.Close(ctx))
		})
	}
}

// TestZephyrRTT: firmware that is reached through its probe alone is flashed, runs a model whose tensors are longer
// than RTT's buffers, and is replaced by another one.
func TestZephyrRTT(t *testing.T) {
	needZephyr(t, "hal/nordic", "debug/segger")
	const board = "zephyr/qemu_cortex_m0"
	d := deskWith(t, "", board, "openocd")
	p, other := d.zephyrProject(""), d.zephyrProject(otherLine)
	for _, dir := range []string{p.Dir(), other.Dir()} {
		writeFile(t, filepath.Join(dir, "local", "local.cmake"), "set(BOARDSMITH_LINK rtt)\n")
	}
	images := []*image.Image{built(t, p), built(t, other)}
	ctx := t.Context()
	dev, err := attach(ctx, p.Board(), "", d.env)
	must(t, err)
	defer dev.Close()
	for _, i := range append(images, images[0]) {
		must(t, last(dev.Flash(ctx, i)))
		must(t, writeAndRead(ctx, t, dev, i))
	}
	_, err = dev.Open(ctx, images[1])
	if class := failure.Of(err); class != failure.Verify && class != failure.Boot {
		t.Errorf("open of firmware that does not run: %v", err)
	}
}

// TestZephyrDebug: an emulated board of Zephyr is debugged from its first instruction.
func TestZephyrDebug(t *testing.T) {
	needZephyr(t)
	p := generated(t, project.Spec{Board: "zephyr/mps2_an385"})
	i, d := built(t, p), attachedTo(t, p)
	ctx := testkit.Context(t)
	var output string
	must(t, d.Debug(ctx, device.Debugging{Image: i}, gdb(t, i, &output, "info symbol $pc", "break main", "continue",
		"backtrace")))
	if !strings.Contains(output, "reset.S:") || !strings.Contains(output, "Breakpoint 1, main (") {
		t.Errorf("gdb: %s", output)
	}
}
