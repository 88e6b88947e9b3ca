//go:build !windows

package device_test

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/zephyrtest"
)

// runnerScript flashes the build's image with OpenOCD, or fails as the file "mode" names.
const runnerScript = `#!/bin/sh
run() {
  openocd -s SCRIPTS -c 'gdb_port disabled; tcl_port disabled; telnet_port disabled' -c 'adapter driver remote_bitbang' \
    -c 'remote_bitbang host HOST; remote_bitbang port PORT; transport select jtag' -f target/nrf51.cfg -c "$1"
}
case $(cat "$1/mode") in
refuses) echo "no probe of mine"; exit 1;;
nothing) exit 0;;
breaks) run 'init; reset halt; flash erase_sector 0 0 0; exit'; exit 7;;
esac
run "program {$1/zephyr/zephyr.hex} reset exit"
`

// TestRunnerIsVerifiedByAnswer: a runner of west writes complete images, which the firmware's answer verifies. A board
// without the image is not recorded as holding it, whatever the runner reports, and the next flash writes everything.
func TestRunnerIsVerifiedByAnswer(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "openocd")
	d := newDesk(t, "microbit", "west")
	images := [2]*image.Image{d.image(""), d.image("O0")}
	dev := d.attach()
	ctx := t.Context()
	up, err := d.env.desk().StartEmulated(ctx, dev.Board())
	must(t, err)
	host, port, err := net.SplitHostPort(up.Server.Bitbang)
	must(t, err)
	scripts := t.TempDir()
	writeFile(t, filepath.Join(scripts, "target", "swj-dp.tcl"), // this chip's debug port has no JTAG
		"proc swj_newdap {chip tag args} { eval jtag newtap $chip $tag $args -irlen 4 }\n")
	script := filepath.Join(t.TempDir(), "flash")
	text := strings.NewReplacer("HOST", host, "PORT", port, "SCRIPTS", command.Quote(scripts)).Replace(runnerScript)
	testkit.WriteProgram(t, script, text)
	build := zephyrtest.Build(t, "misc-flasher", map[string][]string{"misc-flasher": {script}}, "")
	for n, c := range []struct {
		image  int
		mode   string
		class  failure.Class
		writes bool
		reason string
	}{
		{0, "all", "", true, "the firmware did not answer"},
		{0, "refuses", "", false, "firmware answered with build"},
		{1, "nothing", failure.Verify, true, "firmware answered with build " + images[0].ID()},
		{1, "refuses", failure.Flash, true, "the last flash failed"},
		{1, "breaks", failure.Flash, true, "the last flash failed"},
		{1, "all", "", true, "the firmware did not answer"},
	} {
		i := inBuild(t, images[c.image], build)
		writeFile(t, filepath.Join(build, "mode"), c.mode)
		r, err := dev.Flash(ctx, i)
		if failure.Of(err) != c.class || (r.Erased == r.Sectors) != c.writes || (r.Erased > 0) != c.writes ||
			r.Verified != (err == nil) || !strings.Contains(r.Reason, c.reason) {
			t.Errorf("step %d: class %s, %v, %+v", n, failure.Of(err), err, r)
		}
		if err == nil {
			d.mustHold(i)
		}
	}
	mustAnswer(t, dev, inBuild(t, images[1], build))
	wantError(t, last(dev.Erase(ctx)), failure.Config)
	d.mustHold(images[1])
}

// inBuild copies an image into the folder of a Zephyr build, with its Intel HEX.
func inBuild(t *testing.T, i *image.Image, build string) *image.Image {
	t.Helper()
	copied := *i
	copied.BuildDir, copied.Path = build, filepath.Join(build, "zephyr", "zephyr.elf")
	writeFile(t, copied.Path, string(readFile(t, i.Path)))
	hex := filepath.Join(build, "zephyr", "zephyr.hex")
	testkit.Output(t, exec.Command("arm-none-eabi-objcopy", "-O", "ihex", i.Path, hex))
	return &copied
}
