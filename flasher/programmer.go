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

// A Segment is bytes at an address of the board's memory.
type Segment struct {
	Addr uint64
	Data []byte
}

// A Range is a stretch of the board's memory.
type Range struct {
	Addr uint64
	Size uint64 // bytes
}

// End is the first address behind it.
func (s Segment) End() uint64 { return s.Addr + uint64(len(s.Data)) }

// merged joins each segment to the one before it in the list where it follows it in memory.
func merged(list []Segment) (all []Segment) {
	for _, s := range list {
		if n := len(all); n > 0 && all[n-1].End() == s.Addr {
			all[n-1].Data = append(all[n-1].Data[:len(all[n-1].Data):len(all[n-1].Data)], s.Data...)
		} else {
			all = append(all, s)
		}
	}
	return all
}

// A Sector is one erase unit of flash.
type Sector = boards.Sector

// A Job is one run of a programmer on one board. Its steps are done in this order, each list in its own: the sector that
// holds the build id can be erased first and written last.
type Job struct {
	Erase   []Sector
	Write   []Segment // each inside erased sectors
	Verify  []Segment // compared with what the board holds, read back: *VerifyError
	Restart bool      // reset the board afterwards and let it run

	first bool // another run of the same job erases or writes

	// Erasing is told of the address of each sector of Erase before its erasing may begin; after an error, of all
	// whose erasing may have begun. Do calls it from one goroutine at a time; nil: nobody is told.
	Erasing func(addr uint64)
}

// changes says whether the job may leave something else in flash than there was.
func (j Job) changes() bool { return j.first || len(j.Erase) > 0 || len(j.Write) > 0 }

// A Programmer reads and writes one attached board through its debug probe. Each method is one run of an external program
// in a process group of its own; it has a deadline of its own besides ctx's, and leaves no process behind. Each resets and
// halts the core before anything else: interrupts of firmware whose flash is being erased would crash it. A run whose tool did
// not report each of its steps as done has failed, whatever its exit status is. After an error the board may hold anything
// in the sectors of the job. Errors: *ChipError, *ToolError, *VerifyError, and those of ctx.
type Programmer interface {
	// Do does the job.
	Do(ctx context.Context, j Job) error
	// Read returns what the board holds in the ranges, in their order, and leaves the board as it was, reset.
	Read(ctx context.Context, ranges []Range) ([]Segment, error)
	// Commands are the command lines that Do would run, for people.
	Commands(j Job) []string
	// Files are what these read, with sizes and addresses, for people.
	Files(j Job) []string
}

// A Probe says which of the attached debug probes is meant, and how it is reached.
type Probe struct {
	Serial   string    // its own; "" if it has none, or there is only one probe
	Shared   bool      // another attached probe has this serial, or has none either: only USBPath tells them apart
	USBPath  string    // bus and ports, as in "1-2.3", by which openocd also chooses; "" if it is not known
	Emulated *Emulated // an emulated one; nil: it is on USB
}

// Emulated is where an emulated probe is reached.
type Emulated struct {
	Bitbang string // host:port of OpenOCD's remote_bitbang: JTAG
	Remote  string // host:port of pyOCD's remote probe protocol
}

// A Config is what a programmer needs to know. Only Flash must be set.
type Config struct {
	Flash    boards.Flash
	Probe    Probe
	Reserved []Range                                    // a job that touches these is refused
	Chip     boards.Identification                      // compared before a job erases or writes anything: *ChipError; the zero value: not compared
	AnyChip  bool                                       // one that is another is only warned of
	Build    string                                     // folder of the build that the image is from; west needs it
	Find     func(name string) (path string, err error) // where a tool is; nil: on PATH
	Held     *os.File                                   // kept open by all that a tool starts, as a lease has to be; nil: none
	Log      hclog.Logger                               // nil drops what is logged
	Step     func(string)                               // told of each step as it is done; nil: nobody is

	told func(line string) // takes what the tool prints; nil: nobody does

	// Timeout is for one job; 0 means a time that suits its size.
	Timeout time.Duration
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

// allows refuses a job that touches what is reserved.
func (c Config) allows(j Job) error {
	touched := rangesOf(j.Write)
	for _, s := range j.Erase {
		touched = append(touched, Range{s.Addr, s.Size})
	}
	for _, r := range c.Reserved {
		for _, t := range touched {
			if t.Addr < r.Addr+r.Size && r.Addr < t.Addr+t.Size {
				return failure.New(failure.Config, "link the firmware elsewhere", "%d bytes at 0x%08x are to be written or erased, where the board reserves %d bytes at 0x%08x", t.Size, t.Addr, r.Size, r.Addr)
			}
		}
	}
	return nil
}

// where is a tool's path for people, just its name where it is not found.
func (c Config) where(name string) string {
	if path, err := c.Find(name); err == nil {
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
	if c.Timeout > 0 {
		return c.Timeout
	}
	bytes := 0
	for _, s := range append(j.Write[:len(j.Write):len(j.Write)], j.Verify...) {
		bytes += len(s.Data)
	}
	return connectTime + time.Duration(len(j.Erase))*eraseTime + transferTime(uint64(bytes))
}

func (c Config) readTimeout(ranges []Range) time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
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

// rangesOf are where the segments lie, neighbours as one.
func rangesOf(list []Segment) (all []Range) {
	for _, s := range merged(list) {
		all = append(all, Range{s.Addr, uint64(len(s.Data))})
	}
	return all
}
