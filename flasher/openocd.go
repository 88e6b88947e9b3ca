// This file drives OpenOCD: one run for each job, all of it on the command line.

package flasher

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/internal/command"
)

type openocd struct{ Config }

func newOpenOCD(c Config) Programmer { return &openocd{c} }

// A run is a command line and the files that it works with, in a folder of its own.
type toolRun struct {
	dir   string
	args  []string
	files []Segment // as segment0.bin, ...
}

const segmentName = "segment%d.bin"

// file notes a segment and returns its name.
func (r *toolRun) file(s Segment) string {
	r.files = append(r.files, s)
	return fmt.Sprintf(segmentName, len(r.files)-1)
}

// write puts the files into the folder.
func (r *toolRun) write(dir string) error {
	r.dir = dir
	for i, s := range r.files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(segmentName, i)), s.Data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// connect is the beginning of every command line: no servers but perhaps gdb's, the probe, the chip.
func (o *openocd) connect(dir, gdbPort string) []string {
	args := []string{"-c", "gdb_port " + gdbPort + "; tcl_port disabled; telnet_port disabled"}
	if v := o.Probe.Virtual; v != nil {
		host, port, _ := net.SplitHostPort(v.Bitbang)
		args = append(args, "-s", dir, "-c", fmt.Sprintf("adapter driver remote_bitbang; remote_bitbang host %s; remote_bitbang port %s; transport select jtag", host, port))
	}
	for _, s := range o.Flash.Scripts {
		if o.Probe.Virtual != nil && strings.HasPrefix(s, "interface/") {
			continue // its place has been taken
		}
		args = append(args, "-f", s)
	}
	if o.Probe.Serial != "" && o.Probe.Virtual == nil {
		args = append(args, "-c", "adapter serial "+o.Probe.Serial)
	}
	return append(args, "-c", "init", "-c", "reset halt")
}

const noGDB = "disabled"

// OpenOCD knows some chips over SWD only: over JTAG its script for them lacks the length of the instruction register.
const swjScript = `proc swj_newdap {chip tag args} {
 if {[lsearch $args -irlen] < 0} { set args [concat $args {-irlen 4 -ircapture 1 -irmask 0xf}] }
 eval jtag newtap $chip $tag $args
}
`

// marks are what the command line has OpenOCD say between its steps.
const mark = "boardsmith: "

func say(format string, args ...any) string {
	return `echo "` + mark + fmt.Sprintf(format, args...) + `"`
}

func (o *openocd) plan(j Job, dir string) *toolRun {
	r := &toolRun{args: o.connect(dir, noGDB)}
	add := func(c string) { r.args = append(r.args, "-c", c) }
	add(say("connected"))
	for _, s := range j.Erase {
		add(fmt.Sprintf("flash erase_address 0x%x 0x%x", s.Addr, s.Size))
		add(say("erased 0x%x", s.Addr))
	}
	for _, s := range merged(j.Write) {
		add(fmt.Sprintf("flash write_image %s 0x%x bin", r.file(s), s.Addr))
		add(say("wrote 0x%x", s.Addr))
	}
	for _, s := range merged(j.Verify) {
		add(fmt.Sprintf("verify_image %s 0x%x bin", r.file(s), s.Addr))
		add(say("verified 0x%x", s.Addr))
	}
	if j.Restart {
		add("reset run")
		add(say("restarted"))
	}
	add("shutdown")
	return r
}

// Commands implements Programmer.
func (o *openocd) Commands(j Job) []string {
	return []string{command.Command{Path: o.where("openocd"), Args: o.plan(j, ".").args}.Typed()}
}

// Do implements Programmer.
func (o *openocd) Do(ctx context.Context, j Job) error {
	return inFolder(func(dir string) error {
		r := o.plan(j, dir)
		return o.verdict(o.run(ctx, r, dir, j), j)
	})
}

func (o *openocd) run(ctx context.Context, r *toolRun, dir string, j Job) error {
	path, err := o.Find("openocd")
	if err != nil {
		return err
	}
	if err := r.write(dir); err != nil {
		return err
	}
	if err := o.shadow(dir); err != nil {
		return err
	}
	lines := func(line string) {
		if s, ok := strings.CutPrefix(line, mark); ok {
			o.step(s)
		}
	}
	return command.Command{Path: path, Args: r.args, Dir: dir, Out: lines, Err: lines, Timing: o.timeout(j)}.Run(ctx)
}

// shadow puts our replacement of one of OpenOCD's scripts into dir, where an emulated probe needs it.
func (o *openocd) shadow(dir string) error {
	if o.Probe.Virtual == nil {
		return nil
	}
	if err := os.Mkdir(filepath.Join(dir, "target"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "target", "swj-dp.tcl"), []byte(swjScript), 0o644)
}

// openocdDiff is what verify_image prints of the first bytes that differ.
var openocdDiff = regexp.MustCompile(`diff \d+ address 0x([0-9a-f]+)\. Was 0x([0-9a-f]+) instead of 0x([0-9a-f]+)`)

// verdict makes a *VerifyError of a comparison that failed.
func (o *openocd) verdict(err error, j Job) error {
	var c *command.Error
	if asCommand(err, &c) {
		if m := openocdDiff.FindStringSubmatch(c.Text); m != nil {
			return &VerifyError{Addr: hex(m[1]), Got: byte(hex(m[2])), Want: byte(hex(m[3])), Bytes: strings.Count(c.Text, "Was 0x")}
		}
		if len(j.Verify) > 0 && strings.Contains(c.Text, "contents differ") {
			return &VerifyError{Addr: j.Verify[0].Addr}
		}
	}
	return explain(err)
}

func hex(s string) uint64 {
	v, _ := strconv.ParseUint(s, 16, 64) // the expression let digits through only
	return v
}

// Read implements Programmer.
func (o *openocd) Read(ctx context.Context, addr uint64, n int) (data []byte, err error) {
	err = inFolder(func(dir string) error {
		r := &toolRun{args: append(o.connect(dir, noGDB), "-c", fmt.Sprintf("dump_image read.bin 0x%x 0x%x", addr, n), "-c", say("read"), "-c", "reset run", "-c", "shutdown")}
		if err := o.run(ctx, r, dir, Job{Verify: []Segment{{addr, make([]byte, n)}}}); err != nil {
			return explain(err)
		}
		data, err = readBack(dir, n)
		return err
	})
	return data, err
}

// readBack reads what a tool has read.
func readBack(dir string, n int) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, "read.bin"))
	if err == nil && len(data) != n {
		err = fmt.Errorf("the programmer read %d bytes instead of %d", len(data), n)
	}
	return data, err
}

// inFolder calls do with a folder that is gone afterwards.
func inFolder(do func(dir string) error) error {
	dir, err := os.MkdirTemp("", "boardsmith-flash")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return do(dir)
}

// compare returns the first difference as a *VerifyError.
func compare(want Segment, got []byte) error {
	if bytes.Equal(want.Data, got) {
		return nil
	}
	e := &VerifyError{}
	for i, b := range want.Data {
		if b == got[i] {
			continue
		}
		if e.Bytes == 0 {
			e.Addr, e.Want, e.Got = want.Addr+uint64(i), b, got[i]
		}
		e.Bytes++
	}
	return e
}
