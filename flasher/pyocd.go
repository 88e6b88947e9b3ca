// This file drives pyOCD through its commander: one run for each job.

package flasher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/command"
)

type pyocd struct{ Config }

func newPyOCD(c Config) Programmer { return &pyocd{c} }

// Its own command load erases what it writes and skips what it takes for equal; ours erase and write what they are told.
// They are commands of a user script (pyocd.io, "User scripts": session, target and @command are in its namespace).
const (
	pyocdScriptName = "boardsmith.py"
	pyocdScript     = `@command('boardsmith_erase', help='Erase the sector at an address.')
def boardsmith_erase(address: int):
    flash = target.memory_map.get_region_for_address(address).flash
    flash.init(flash.Operation.ERASE)
    flash.erase_sector(address)
    flash.cleanup()
    print('boardsmith: erased 0x%x' % address, flush=True)

@command('boardsmith_write', help='Program a file at an address whose sectors are erased.')
def boardsmith_write(name: str, address: int):
    flash = target.memory_map.get_region_for_address(address).flash
    data = open(name, 'rb').read()
    flash.init(flash.Operation.PROGRAM)
    done = 0
    while done < len(data):
        page = flash.get_page_info(address + done)
        count = page.base_addr + page.size - (address + done)
        part = bytearray(data[done:done + count])
        part.extend(b'\xff' * (-len(part) % 4))
        flash.program_page(address + done, list(part))
        done += count
    flash.cleanup()
    print('boardsmith: wrote 0x%x' % address, flush=True)
`
)

// connect is the beginning of every command line. It never waits for a probe, and reads nobody's configuration.
func (p *pyocd) connect() []string {
	args := []string{"commander", "--script", pyocdScriptName, "--no-config", "--no-wait", "--color", "never", "-t", p.Flash.Target, "-M", "halt", "-O", "auto_unlock=false"}
	return append(args, p.probeArgs()...)
}

// probeArgs say which probe.
func (p *pyocd) probeArgs() []string {
	switch {
	case p.Probe.Virtual != nil:
		return []string{"-u", "remote:" + p.Probe.Virtual.Remote}
	case p.Probe.Serial != "":
		return []string{"-u", p.Probe.Serial}
	}
	return nil
}

func (p *pyocd) plan(j Job) *toolRun {
	r := &toolRun{args: p.connect()}
	add := func(format string, args ...any) { r.args = append(r.args, "-c", fmt.Sprintf(format, args...)) }
	for _, s := range j.Erase {
		add("boardsmith_erase 0x%x", s.Addr)
	}
	for _, s := range merged(j.Write) {
		add("boardsmith_write %s 0x%x", r.file(s), s.Addr)
	}
	r.args = append(r.args, pyocdReads(rangesOf(j.Verify))...)
	if j.Restart {
		add("reset")
	}
	return r
}

// pyocdReads are the arguments that read memory into files.
func pyocdReads(ranges []Range) (args []string) {
	for i, r := range ranges {
		args = append(args, "-c", fmt.Sprintf("savemem 0x%x 0x%x "+readName, r.Addr, r.Size, i))
	}
	return args
}

// Commands implements Programmer.
func (p *pyocd) Commands(j Job) []string {
	return []string{command.Command{Path: p.where("pyocd"), Args: p.plan(j).args}.Typed()}
}

// Files implements Programmer.
func (p *pyocd) Files(j Job) []string { return p.plan(j).texts() }

// Do implements Programmer. What is verified was read back and is compared here.
func (p *pyocd) Do(ctx context.Context, j Job) error {
	if err := p.allows(j); err != nil {
		return err
	}
	return inFolder(func(dir string) error {
		if err := p.run(ctx, p.plan(j), dir, p.timeout(j)); err != nil {
			return explain(err)
		}
		return verified(dir, j.Verify, p.step)
	})
}

func (p *pyocd) run(ctx context.Context, r *toolRun, dir string, timeout time.Duration) error {
	path, err := p.Find("pyocd")
	if err != nil {
		return err
	}
	if err := r.write(dir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, pyocdScriptName), []byte(pyocdScript), 0o644); err != nil {
		return err
	}
	failed := ""
	lines := func(line string) {
		p.marked(line)
		if strings.HasPrefix(line, "Error: ") || strings.Contains(line, " C ") || strings.Contains(line, " E ") {
			failed = line
		}
	}
	cmd := p.command(path, r.args, dir)
	cmd.Out, cmd.Err, cmd.Timeout = lines, lines, timeout
	err = cmd.Run(ctx)
	if err == nil && failed != "" {
		err = &command.Error{Tool: "pyocd", Text: failed, Command: command.Command{Path: path, Args: r.args}.Typed(), Err: errors.New("failed")}
	}
	return err
}

func (p *pyocd) reading(ranges []Range) *toolRun {
	return &toolRun{args: append(append(p.connect(), pyocdReads(ranges)...), "-c", "reset")}
}

// Read implements Programmer.
func (p *pyocd) Read(ctx context.Context, ranges []Range) (got []Segment, err error) {
	err = inFolder(func(dir string) error {
		if err := p.run(ctx, p.reading(ranges), dir, p.readTimeout(ranges)); err != nil {
			return explain(err)
		}
		got, err = readBack(dir, ranges)
		return err
	})
	return got, err
}
