// This file runs OpenOCD: one run for each job, with all commands on the command line.

package flasher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/command"
)

type openocd struct{ Config }

func newOpenOCD(c Config) Programmer { return &openocd{c} }

// noServers disables OpenOCD's servers except gdb's at the given port.
func noServers(gdbPort string) string {
	return "gdb_port " + gdbPort + "; tcl_port disabled; telnet_port disabled"
}

// connect returns the beginning of every command line: servers, probe and chip.
func (o *openocd) connect(dir, gdbPort string) []string {
	args := []string{"-c", noServers(gdbPort)}

	// This folder is searched first: shadow replaces a script of OpenOCD there.
	if v := o.Probe.Emulated; v != nil {
		args = append(args, "-s", dir, "-c", strings.Join(v.openocd(), "; "))
	}

	for _, dir := range o.extras.search {
		args = append(args, "-s", dir)
	}

	for _, s := range o.Flash.Scripts {
		if o.Probe.Emulated != nil && strings.HasPrefix(s, "interface/") {
			continue // already replaced
		}
		args = append(args, openocdScript(s)...)
	}

	for _, c := range slices.Concat(o.extras.preInit, o.chooseProbe(), []string{"init"}) {
		args = append(args, "-c", c)
	}
	return args
}

// openocd returns the commands that connect to an emulated probe.
func (v *Emulated) openocd() []string {
	host, port, _ := net.SplitHostPort(v.Bitbang)
	return []string{
		"adapter driver remote_bitbang", "remote_bitbang host " + tclWord(host), "remote_bitbang port " + tclWord(port),
		"transport select jtag",
	}
}

// chooseProbe returns the commands that select the probe on USB. Serials may be equal, USB paths are not; some
// drivers support only one of them.
func (c Config) chooseProbe() (commands []string) {
	if c.Probe.Emulated != nil {
		return nil
	}
	if c.Probe.Serial != "" {
		commands = append(commands, "adapter serial "+tclWord(c.Probe.Serial))
	}
	if c.Probe.USBPath != "" {
		commands = append(commands, "adapter usb location "+tclWord(c.Probe.USBPath))
	}
	return commands
}

// find finds OpenOCD. It returns an error if only the USB path identifies the probe and the probe is a CMSIS-DAP,
// whose driver ignores that path (src/jtag/drivers/cmsis_dap*.c).
func (o *openocd) find() (string, error) {
	byPath := o.Probe.USBPath != "" &&
		!slices.ContainsFunc(o.Flash.Scripts, func(s string) bool { return strings.Contains(s, "cmsis-dap") })

	if o.Probe.Shared && !byPath {
		return "", o.Probe.sharedSerialError("openocd", "")
	}
	return o.tool("openocd")
}

const noGDB = "disabled"

// OpenOCD's scripts of some chips support SWD only: for JTAG they lack the length of the instruction register.
const swjScript = `proc swj_newdap {chip tag args} {
 if {[lsearch $args -irlen] < 0} { set args [concat $args {-irlen 4 -ircapture 1 -irmask 0xf}] }
 eval jtag newtap $chip $tag $args
}
`

// done returns a step that prints a mark when it is done. An error in the step ends the command before that.
func (r *toolRun) done(step, format string, args ...any) string {
	return step + `; echo "` + mark + r.addMark(format, args...) + `"`
}

func (o *openocd) plan(j Job, dir string) *toolRun {
	r := &toolRun{args: o.connect(dir, noGDB)}
	r.execute(o.openocdSteps(r, j))
	return r
}

// execute adds commands to the command line.
func (r *toolRun) execute(commands []string) {
	for _, c := range commands {
		r.args = append(r.args, "-c", c)
	}
}

// openocdSteps returns the commands that do a job on a connected board. It adds their files and marks to r.
func (c Config) openocdSteps(r *toolRun, j Job) []string {
	steps := append([]string{r.done("reset halt", "connected")}, c.openocdIdentify(r, j)...)
	steps = append(steps, openocdSectors(r, j)...)

	r.begins = j.Erasing
	for _, s := range j.Erase {
		r.markErase(s.Addr)
		steps = append(steps, r.done(fmt.Sprintf("flash erase_address 0x%x 0x%x", s.Addr, s.Size), "erased 0x%x", s.Addr))
	}

	for _, s := range merged(j.Write) {
		steps = append(steps, r.done(fmt.Sprintf("flash write_image %s 0x%x bin", r.file(s), s.Addr), "wrote 0x%x", s.Addr))
	}
	for _, s := range merged(j.Verify) {
		steps = append(steps, r.done(fmt.Sprintf("verify_image %s 0x%x bin", r.file(s), s.Addr), "verified 0x%x", s.Addr))
	}

	if len(j.Write) > 0 {
		steps = append(steps, c.extras.postVerify...)
	}
	return append(steps, openocdEnd(r, j.Restart)...)
}

// openocdReads returns the commands that read memory into files.
func openocdReads(r *toolRun, ranges []Range) []string {
	steps := append([]string{r.done("reset halt", "connected")}, openocdDumps(r, ranges)...)
	return append(steps, openocdEnd(r, true)...)
}

func openocdDumps(r *toolRun, ranges []Range) (steps []string) {
	for i, s := range ranges {
		dump := fmt.Sprintf("dump_image "+readName+" 0x%x 0x%x", i, s.Addr, s.Size)
		steps = append(steps, r.done(dump, "read 0x%x", s.Addr))
	}
	return steps
}

func openocdEnd(r *toolRun, restart bool) (steps []string) {
	if restart {
		steps = append(steps, r.done("reset run", "restarted"))
	}
	return append(steps, `echo "`+mark+r.addMark(finished)+`"; shutdown`)
}

// chipScript prints the flash banks that configuration files define, by driver and address, and the targets, unless a
// file names them itself (CHIPNAME).
const chipScript = `foreach bank [flash list] {
 if {![dict exists $bank driver]} {dict set bank driver [dict get $bank name]}
 echo "` + mark + `flash [dict get $bank driver] at [dict get $bank base]"
}
if {![info exists CHIPNAME]} {foreach name [target names] {echo "` + mark + `target $name"}}
shutdown`

// ChipOf lists what OpenOCD has by the configuration files in the board file, without a probe: "flash DRIVER at
// ADDRESS" and "target NAME". missing lists files that it does not find.
func (c Config) ChipOf(ctx context.Context) (chip, missing []string, err error) {
	path, err := c.toolIn(ctx, "openocd")
	if err != nil {
		return nil, nil, err
	}

	args := []string{"-c", noServers(noGDB)}
	for _, s := range c.Flash.Scripts {
		// All are looked up first: OpenOCD ends at the first one that is missing.
		word := tclWord(s)
		args = append(args, "-c", "set script "+word,
			"-c", `if {[catch {find $script} path] || ![file isfile $path]} {echo "`+mark+`missing $script"}`)
	}
	if c.Flash.Emulated { // its files name no probe
		args = append(args, "-c", "adapter driver cmsis-dap; transport select swd")
	}
	for _, s := range c.Flash.Scripts {
		args = append(args, openocdScript(s)...)
	}

	line := func(text string) {
		found, ok := strings.CutPrefix(text, mark)
		script, isMissing := strings.CutPrefix(found, "missing ")
		switch {
		case isMissing:
			missing = append(missing, script)
		case ok:
			chip = append(chip, found)
		}
	}

	run := command.Command{Path: path, Args: append(args, "-c", chipScript), Out: line, Err: line, Timeout: findTimeout}
	if err := run.Run(ctx); err != nil && len(missing) == 0 {
		return nil, nil, explain(err)
	}
	return chip, missing, nil
}

// Commands implements Programmer.
func (o *openocd) Commands(j Job) []string {
	return []string{command.Command{Path: o.displayPath("openocd"), Args: o.plan(j, ".").args}.Typed()}
}

// Files implements Programmer.
func (o *openocd) Files(j Job) []string { return o.plan(j, ".").describeFiles() }

// Do implements Programmer.
func (o *openocd) Do(ctx context.Context, j Job) error {
	if err := o.checkReserved(j); err != nil {
		return err
	}
	return inFolder(func(dir string) error {
		return openocdError(o.chipError(o.execute(ctx, o.plan(j, dir), dir, o.timeout(j)), j), j)
	})
}

func (o *openocd) execute(ctx context.Context, r *toolRun, dir string, timeout time.Duration) error {
	path, err := o.find()
	if err != nil {
		return err
	}

	if err := r.write(dir); err != nil {
		return err
	}
	if err := o.shadow(dir); err != nil {
		return err
	}
	return o.run(ctx, o.command(path, r.args, dir), timeout, r)
}

// shadow writes a replacement of one of OpenOCD's scripts into dir if an emulated probe needs it.
func (o *openocd) shadow(dir string) error {
	if o.Probe.Emulated == nil {
		return nil
	}

	if err := os.Mkdir(filepath.Join(dir, "target"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "target", "swj-dp.tcl"), []byte(swjScript), 0o644)
}

// openocdDiff matches a difference that verify_image prints.
var openocdDiff = regexp.MustCompile(`diff \d+ address 0x([0-9a-f]+)\. Was 0x([0-9a-f]+) instead of 0x([0-9a-f]+)`)

// openocdError returns an error of class verify for a failed comparison.
func openocdError(err error, j Job) error {
	var c *command.Error
	if errors.As(err, &c) {
		if m := openocdDiff.FindStringSubmatch(c.Text); m != nil {
			return differsAt(hex(m[1]), byte(hex(m[2])), byte(hex(m[3])), strings.Count(c.Text, "Was 0x"))
		}

		// Not every difference is printed with its address.
		if len(j.Verify) > 0 && strings.Contains(c.Text, "contents differ") {
			return verifyError("memory at or after 0x%08x differs from what was written", j.Verify[0].Addr)
		}
	}
	return explain(err)
}

func hex(s string) uint64 {
	v, _ := strconv.ParseUint(s, 16, 64) // the expression matches digits only
	return v
}

// Read returns the content of the ranges, and resets the board.
func (o *openocd) Read(ctx context.Context, ranges []Range) (got []Segment, err error) {
	err = inFolder(func(dir string) error {
		r := &toolRun{args: o.connect(dir, noGDB)}
		r.execute(openocdReads(r, ranges))
		if err := o.execute(ctx, r, dir, o.readTimeout(ranges)); err != nil {
			return explain(err)
		}

		got, err = readBack(dir, ranges)
		return err
	})
	return got, err
}
