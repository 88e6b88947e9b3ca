// This file runs pyOCD's commander: one run for each job.

package flasher

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/boardsmith/boardsmith/internal/command"
)

type pyocd struct{ Config }

func newPyOCD(c Config) Programmer { return &pyocd{c} }

// pyOCD's command load erases what it writes and skips data that it considers equal. The commands below erase and
// write exactly what they are given, and each prints its mark when done. They are commands of a user script
// (pyocd.io, "User scripts": session, target and @command are in its namespace). The script clears the core's reset
// catch: a pyOCD that was killed during a reset leaves it on, and the next one would keep it, so that the firmware
// would not run.
const (
	pyocdScriptName = "boardsmith.py"
	pyocdScript     = `def done(step, *args):
    print('` + mark + `' + step % args, flush=True)

@command('boardsmith_connect', help='Reset the chip and halt it.')
def boardsmith_connect():
    target.set_vector_catch(target.VectorCatch.NONE)
    target.reset_and_halt()
    if target.get_state() != target.State.HALTED:
        raise RuntimeError('target not halted')
    done('connected')

@command('boardsmith_identify', help='Compare a register with the values that it may have.')
def boardsmith_identify(address: int, mask: int, values: str):
    register = target.read32(address)
    print('` + mark + identification + `0x%x' % register, flush=True)
    if values != 'any' and str(register & mask) not in values.split('_'):
        raise RuntimeError('another chip')
    done('` + identified + `')

@command('boardsmith_sectors', help='Compare erase units, given as address_size_..., with those that pyOCD has.')
def boardsmith_sectors(units: str):
    numbers = [int(n) for n in units.split('_')]
    for address, size in zip(numbers[0::2], numbers[1::2]):
        region = target.memory_map.get_region_for_address(address)
        info = region.flash.get_sector_info(address) if region and region.is_flash else None
        has = (info.base_addr, info.size) if info else (0, 0)
        if has != (address, size):
            print('` + mark + otherSector + `0x%x 0x%x 0x%x' % (address, *has), flush=True)
            raise RuntimeError('other sectors')
    done('` + compared + `')

@command('boardsmith_erase', help='Erase the sector at an address.')
def boardsmith_erase(address: int):
    flash = target.memory_map.get_region_for_address(address).flash
    flash.init(flash.Operation.ERASE)
    flash.erase_sector(address)
    flash.cleanup()
    done('erased 0x%x', address)

@command('boardsmith_write', help='Program a file at an address whose sectors are erased.')
def boardsmith_write(name: str, address: int):
    flash = target.memory_map.get_region_for_address(address).flash
    with open(name, 'rb') as file:
        data = file.read()
    flash.init(flash.Operation.PROGRAM)
    at = 0
    while at < len(data):
        page = flash.get_page_info(address + at)
        count = page.base_addr + page.size - (address + at)
        part = bytearray(data[at:at + count])
        part.extend(b'\xff' * (-len(part) % 4))
        flash.program_page(address + at, list(part))
        at += count
    flash.cleanup()
    done('wrote 0x%x', address)

@command('boardsmith_read', help='Read memory into a file.')
def boardsmith_read(name: str, address: int, size: int):
    data = target.read_memory_block8(address, size)
    with open(name, 'wb') as file:
        file.write(bytes(data))
    done('read 0x%x', address)

@command('boardsmith_halt', help='Halt the core without a reset, and print its program counter.')
def boardsmith_halt():
    target.halt()
    print('` + mark + counter + `0x%x' % target.read_core_register('pc'), flush=True)
    done('halted')

@command('boardsmith_resume', help='Resume the core.')
def boardsmith_resume():
    target.resume()
    done('resumed')

@command('boardsmith_restart', help='Reset the chip and let it run.')
def boardsmith_restart():
    target.reset()
    done('restarted')

@command('boardsmith_finish', help='Print the last mark.')
def boardsmith_finish():
    done('` + finished + `')
`
)

// connect returns the beginning of every command line. pyOCD does not wait for a probe and reads no configuration
// files.
func (p *pyocd) connect(subcommand, mode string) ([]string, error) {
	args := []string{
		subcommand, "--no-config", "--no-wait", option("--color", "never"), option("--target", p.Flash.Chip),
		option("--connect", mode), "-Oauto_unlock=false",
	}
	args = append(args, p.extras.options...)

	uid, err := p.Probe.pyocdUID()
	if uid != "" {
		args = append(args, option("--uid", uid))
	}

	return args, err
}

// begin returns the first commands of a run: the chip is reset and halted.
func (p *pyocd) begin() (*toolRun, error) {
	r, err := p.script()
	r.command("connect")
	r.addMark("connected")
	return r, err
}

// script returns the first commands of a run that only halts the chip.
func (p *pyocd) script() (*toolRun, error) {
	args, err := p.connect("commander", "halt")
	return &toolRun{args: append(args, option("--script", pyocdScriptName))}, err
}

// command adds one of the script's commands.
func (r *toolRun) command(format string, args ...any) {
	r.args = append(r.args, option("--command", fmt.Sprintf("boardsmith_"+format, args...)))
}

func (p *pyocd) plan(j Job) (*toolRun, error) {
	r, err := p.begin()

	p.pyocdIdentify(r, j)
	r.pyocdSectors(j)

	r.begins = j.Erasing
	for _, s := range j.Erase {
		r.markErase(s.Addr)
		r.command("erase 0x%x", s.Addr)
		r.addMark("erased 0x%x", s.Addr)
	}

	for _, s := range merged(j.Write) {
		r.command("write %s 0x%x", r.file(s), s.Addr)
		r.addMark("wrote 0x%x", s.Addr)
	}

	r.pyocdReads(rangesOf(j.Verify))
	r.pyocdEnd(j.Restart)
	return r, err
}

// pyocdReads adds commands that read memory into files.
func (r *toolRun) pyocdReads(ranges []Range) {
	for i, s := range ranges {
		r.command("read "+readName+" 0x%x 0x%x", i, s.Addr, s.Size)
		r.addMark("read 0x%x", s.Addr)
	}
}

func (r *toolRun) pyocdEnd(restart bool) {
	if restart {
		r.command("restart")
		r.addMark("restarted")
	}
	r.command("finish")
	r.addMark(finished)
}

// typed returns a command line for display.
func (p *pyocd) typed(args []string, err error) string {
	if err != nil {
		return "# " + err.Error()
	}
	return command.Command{Path: p.displayPath("pyocd"), Args: args}.Typed()
}

// Commands implements Programmer.
func (p *pyocd) Commands(j Job) []string {
	r, err := p.plan(j)
	return []string{p.typed(r.args, err)}
}

// Files implements Programmer.
func (p *pyocd) Files(j Job) []string {
	r, _ := p.plan(j) // Commands has the error
	return r.describeFiles()
}

// Do implements Programmer. It reads back the segments to verify, and compares them itself: pyOCD has no such command.
func (p *pyocd) Do(ctx context.Context, j Job) error {
	if err := p.checkReserved(j); err != nil {
		return err
	}

	r, err := p.plan(j)
	if err != nil {
		return err
	}

	return inFolder(func(dir string) error {
		if err := p.execute(ctx, r, dir, p.timeout(j)); err != nil {
			return explain(p.chipError(err, j))
		}
		return verifyFolder(dir, j.Verify, p.step)
	})
}

func (p *pyocd) execute(ctx context.Context, r *toolRun, dir string, timeout time.Duration) error {
	path, err := p.tool("pyocd")
	if err != nil {
		return err
	}
	if err := r.write(dir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, pyocdScriptName), []byte(pyocdScript), 0o644); err != nil {
		return err
	}
	return p.run(ctx, p.command(path, r.args, dir), timeout, r)
}

// readInto reads the ranges into files in the folder.
func (p *pyocd) readInto(ctx context.Context, dir string, ranges []Range) error {
	r, err := p.begin()
	if err != nil {
		return err
	}

	r.pyocdReads(ranges)
	r.pyocdEnd(true)
	return p.execute(ctx, r, dir, p.readTimeout(ranges))
}

// Read returns the content of the ranges, and resets the board.
func (p *pyocd) Read(ctx context.Context, ranges []Range) (got []Segment, err error) {
	err = inFolder(func(dir string) error {
		if err := p.readInto(ctx, dir, ranges); err != nil {
			return explain(err)
		}
		got, err = readBack(dir, ranges)
		return err
	})
	return got, err
}
