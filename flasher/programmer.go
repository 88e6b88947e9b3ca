// This file declares programmers, and the jobs, segments and ranges of memory that they process.

package flasher

import (
	"context"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

// A Segment is data for an address of the board's memory.
type Segment struct {
	Addr uint64
	Data []byte
}

// A Range is a range of the board's memory.
type Range struct {
	Addr uint64
	Size uint64 // bytes
}

// End returns the first address after it.
func (s Segment) End() uint64 { return s.Addr + uint64(len(s.Data)) }

// merged joins neighbours in the list that are adjacent in memory.
func merged(list []Segment) (all []Segment) {
	for _, s := range list {
		// A capacity without room makes append copy: the caller's data stay.
		if n := len(all); n > 0 && all[n-1].End() == s.Addr {
			all[n-1].Data = append(all[n-1].Data[:len(all[n-1].Data):len(all[n-1].Data)], s.Data...)
		} else {
			all = append(all, s)
		}
	}
	return all
}

// A Job is one run of a programmer on one board. It does the steps in the order of the fields and of each list, so
// that the sector with the build id can be erased first and written last.
type Job struct {
	Erase   []boards.Sector
	Write   []Segment // each inside erased sectors
	Verify  []Segment // read back and compared: class verify
	Restart bool      // reset the board afterwards and let it run

	first bool // a later run of the same job erases or writes

	// Erasing, unless nil, is called with the address of each sector of Erase before its erasing may begin; after
	// an error it has been called for every sector whose erasing may have begun. Do calls it from one goroutine at
	// a time.
	Erasing func(addr uint64)
}

// changes reports whether the job may change the flash.
func (j Job) changes() bool { return j.first || len(j.Erase) > 0 || len(j.Write) > 0 }

// A Programmer reads and writes one attached board through its debug probe. Each method is one run of an external
// program in a process group of its own; it has a deadline of its own besides ctx's, and leaves no process behind.
// Each resets and halts the core before anything else: interrupts of firmware whose flash is being erased would
// crash it. A run has failed unless the tool reported each of its steps as done, whatever its exit status. After an
// error the content of the job's sectors is undefined. Errors: ErrOtherChip, class verify, others of the class of the
// failure that the program printed, and those of ctx.
type Programmer interface {
	// Do does the job.
	Do(ctx context.Context, j Job) error
	// Commands returns the command lines that Do would run, for display.
	Commands(j Job) []string
	// Files describes the files of these commands, with sizes and addresses, for display.
	Files(j Job) []string
}

// A Probe identifies an attached debug probe and how to connect to it.
type Probe struct {
	Serial   string    // its serial number; "" if it has none, or there is only one probe
	Shared   bool      // another attached probe has the same serial, or none either: only USBPath distinguishes them
	USBPath  string    // bus and ports, as in "1-2.3", which openocd can select by; "" if unknown
	Emulated *Emulated // address of an emulated probe; nil: it is on USB
}

// Emulated holds the addresses of an emulated probe.
type Emulated struct {
	Bitbang string // host:port of OpenOCD's remote_bitbang: JTAG
	Remote  string // host:port of pyOCD's remote probe protocol
}

// A Config configures a programmer. Only Flash must be set.
type Config struct {
	Flash    boards.Flash
	Probe    Probe
	Reserved []Range // a job that touches these is rejected
	// compared before a job erases or writes anything: ErrOtherChip; the zero value: not compared
	Chip    boards.Identification
	AnyChip bool                                       // only warn if the chip differs
	Build   string                                     // folder of the build that the image is from; west needs it
	Image   string                                     // path of the image's ELF file; "": unknown
	Find    func(name string) (path string, err error) // finds a tool; nil: on PATH
	// kept open by all processes of the tool, such as a lease; nil: none
	Held *os.File
	Log  hclog.Logger // nil: no log
	Step func(string) // called after each step; nil: not called

	output func(line string) // receives the tool's output; nil: dropped
	extras extras

	// limit is the longest time of one job; 0 means a time that depends on its size.
	limit time.Duration
}

// Extras are settings of a Zephyr build that board files do not have.
type extras struct {
	search     []string // of OpenOCD: folders of scripts, before its own
	preInit    []string // of OpenOCD: commands before it connects
	postVerify []string // of OpenOCD: commands after an image was written and verified
	options    []string // of pyOCD's command line
}

// command is a run of a tool at a path.
func (c Config) command(path string, args []string, dir string) command.Command {
	cmd := command.Command{Path: path, Args: args, Dir: dir}
	if c.Held != nil {
		cmd.Held = []*os.File{c.Held}
	}
	return cmd
}

func (c Config) step(s string) {
	c.Log.Debug("programmer", "step", s)
	if c.Step != nil {
		c.Step(s)
	}
}

// checkReserved returns an error for a job that touches reserved memory.
func (c Config) checkReserved(j Job) error {
	touched := rangesOf(j.Write)
	for _, s := range j.Erase {
		touched = append(touched, Range{s.Addr, s.Size})
	}

	for _, r := range c.Reserved {
		for _, t := range touched {
			if t.Addr < r.Addr+r.Size && r.Addr < t.Addr+t.Size {
				return failure.New(failure.Config, "link the firmware elsewhere",
					"the job writes or erases %d bytes at 0x%08x, but the board reserves %d bytes at 0x%08x", t.Size, t.Addr, r.Size,
					r.Addr)
			}
		}
	}
	return nil
}

// displayPath returns a tool's path for display, or its name if it is not found.
func (c Config) displayPath(name string) string {
	if path, err := c.tool(name); err == nil {
		return path
	}
	return name
}

// Times that a job may take: to connect, and for the bytes at the rate of a slow probe.
const (
	connectTime  = 30 * time.Second
	eraseTime    = 5 * time.Second // a sector; the largest take about two (STM32F4: 128 KiB)
	slowestBytes = 1 << 10         // a second
)

func (c Config) timeout(j Job) time.Duration {
	if c.limit > 0 {
		return c.limit
	}

	// The two lists stay as they are: append has no room in the first.
	bytes := 0
	for _, s := range append(j.Write[:len(j.Write):len(j.Write)], j.Verify...) {
		bytes += len(s.Data)
	}

	return connectTime + time.Duration(len(j.Erase))*eraseTime + transferTime(uint64(bytes))
}

func (c Config) readTimeout(ranges []Range) time.Duration {
	if c.limit > 0 {
		return c.limit
	}

	bytes := uint64(0)
	for _, r := range ranges {
		bytes += r.Size
	}
	return connectTime + transferTime(bytes)
}

func transferTime(bytes uint64) time.Duration {
	return time.Duration(bytes/slowestBytes) * time.Second
}

// rangesOf returns the segments' ranges, with adjacent ones joined.
func rangesOf(list []Segment) (all []Range) {
	for _, s := range merged(list) {
		all = append(all, Range{s.Addr, uint64(len(s.Data))})
	}
	return all
}
