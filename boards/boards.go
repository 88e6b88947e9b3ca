// Package boards describes kinds of boards: data files on three levels (cpu/, chip/, board), each inheriting from
// the one above, and the loader that merges them into one Board.
//
// The shipped files are embedded; a search path adds a user's own. Attached devices are the subject of package
// device.
package boards

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Board is one merged board: its cpu file, then its chip file, then its own, each changing only what it names.
// The json tags are the names of the fields in board files; any other field is an error. Package jsonfile checks their
// values by the tags "is" and "keys"; lists with the tag merge:"append" accumulate over the levels.
type Board struct {
	// one line: the board, and the manual or application note with its numbers
	Doc string `json:"doc,omitzero"`

	// the parent file: `chip/NAME`, `cpu/NAME` or `family/NAME`; none in a CPU file or a family's
	Inherits string `json:"inherits,omitzero"`

	// names of the templates for it; the first is the default. All CPU files have `baremetal`
	Templates []string `json:"templates,omitzero"`

	// true: your board may have the name of a shipped board, which otherwise is an error
	Replaces bool `json:"replaces,omitzero"`

	// Zephyr's name of the board. Default: the file's name
	ZephyrBoard string `json:"zephyr_board,omitzero"`

	// true: fields that the files lack become known by the build, and are not checked before. See [Families](#families)
	Partial bool `json:"partial,omitzero"`

	// the memory map, see [Memory](#memory-and-place). Without one, the board is a process on this computer
	Memory []Region `json:"memory,omitzero" key:"Name"`

	// names of the regions of `code`, `data`, `stack`, `arena`, `noinit` and `upload`; also of `operators`,
	// `parameters`, `packet` and of `pools`, by name: [project.md](project.md#placing-parts-in-memories)
	Place Place `json:"place,omitzero"`

	// start address of the model part in the code's region, see [Two parts](#two-parts). 0, the default: directly after
	// the resident part
	ModelAt Number `json:"model_at,omitzero"`

	// KiB for tensors, parameters of graph models, and the packet buffer
	ArenaKiB int `json:"arena_kib,omitzero"`

	// KiB, a power of two, of RAM that the host may upload code to and run it from
	// ([boardsmith.md](formats/boardsmith.md#code-in-ram)). 0, the default: none
	UploadKiB int `json:"upload_kib,omitzero"`

	// bytes, from 256, of the RPC server's receive buffer. A call with all its arguments must fit. Up to 2048, a larger
	// buffer saves round trips with TVM's host, which cannot receive more; with ours, it saves none. Default: 1024, or
	// another one by some CPUs
	PacketBytes int `json:"packet_bytes,omitzero"`

	// bytes, from 64, for functions that a program registers at run time. Default: 512
	RegistryBytes int `json:"registry_bytes,omitzero"`

	// bytes of the thread's stack; default by CPU. Interrupts and faults have a stack of their own:
	// `BARE_HANDLER_STACK_BYTES`
	StackBytes int `json:"stack_bytes,omitzero"`

	// ms after which a firmware that hangs is reset; limited to the chip's longest time. The tick feeds the watchdog
	// only while the main loop runs, or a call is within its time budget. 0, the default: none
	WatchdogMS int `json:"watchdog_ms,omitzero" is:"0..1048576"`

	// ms, the time limit of a call, or of each sample of a timed one, if its host sets no other budget; default 600000 by
	// CPU. 0: no limit
	BudgetMS int `json:"budget_ms,omitzero" is:"0..1073741824"`

	// what the firmware logs to the host: `error`, `warn`, `info`, the default, or `debug`
	LogLevel string `json:"log_level,omitzero"`

	// for every C and assembler file, and for the link; by CPU
	CFlags []string `json:"cflags,omitzero" merge:"append"`

	// for the link, after `cflags`; by CPU
	LDFlags []string `json:"ldflags,omitzero" merge:"append"`

	// optimisation of runtime and port, `O0` … `Os`. Default: `Os`, of this computer `Og`
	RuntimeOpt string `json:"runtime_opt,omitzero"`

	// optimisation of the model's operators, `O0` … `Os`. Default: `O2`
	OperatorOpt string `json:"operator_opt,omitzero"`

	// `host`, the default, or `device`: the firmware has `tvm.graph_executor.create`. See [Graphs on the
	// device](#graphs-on-the-device)
	GraphExecutor string `json:"graph_executor,omitzero"`

	// `.c`, `.S` and `.h` files of the port
	Sources []Source `json:"sources,omitzero" merge:"append" is:"path .c|.S|.h"`

	// macros in capitals and their texts, which become `#define` lines of `crt_config/crt_config.h`: settings for the
	// drivers
	Defines map[string]string `json:"defines,omitzero" keys:"macro" is:"line"`

	// your own linker script in place of the template's: [chip.md](chip.md)
	LinkerScript Source `json:"linker_script,omitzero" is:"path .ld|.lds|.x|.S"`

	// your own vector table and entry in place of the template's: [chip.md](chip.md)
	Startup Source `json:"startup,omitzero" is:"path .c|.S"`

	// folders in which C files find your headers
	Include []Source `json:"include,omitzero" merge:"append" is:"folder"`

	// files of settings of an operating system's build, beside the board file: of [Zephyr](zephyr.md#the-project)
	// `.conf` (Kconfig), `.overlay` (device tree) and `.cmake`
	Settings []Source `json:"settings,omitzero" merge:"append" is:"path"`

	// names or folders of [libraries](templates.md#libraries) of every firmware for the board
	Libraries []Source `json:"libraries,omitzero" merge:"append" is:"library"`

	// a command that signs the image, or changes it otherwise: [After the link](#after-the-link)
	PostLink postLink `json:"post_link,omitzero" is:"command"`

	// ranges, as in `"PA0-15"`, of pins that the port can raise. Their numbers in C: the range's place in the list
	// times the pins of the first range, plus the pin's own
	Pins []string `json:"pins,omitzero"`

	// those of `pins` that a debug probe uses, with their signals: `{"PA13": "SWDIO"}`. A board cannot name one as
	// `measure_pin`
	DebugPins map[string]string `json:"debug_pins,omitzero"`

	// a pin by its name in the chip's manual (`PA5`, `P1.10`, `GPIO25`) that is high while a run is timed, for a power
	// meter: in standalone firmware each run, with an RPC server each measurement of a time evaluator. The pin's own
	// instructions are outside of the measured time. Without it, the image is the same as ever. Only chips whose file
	// has `pins`, only with the template `baremetal`
	MeasurePin string `json:"measure_pin,omitzero"`

	// C functions that the host can look up by name, `{"name", "symbol"}`: [Your own functions](#your-own-functions)
	Functions []Function `json:"functions,omitzero" merge:"append" key:"Name"`

	// numbers in the port's C that the manufacturer's SVD file lacks or has wrong, `{"names", "reason"}`: macros, or
	// addresses as they are written ([Registers](chip.md#registers))
	SVDExcept []svdExcept `json:"svd_except,omitzero" merge:"append"`

	// Hz of the core clock that the firmware (`chip_init`) sets: the speed in production. A device that reports another
	// one is an error. 0, the default: unknown
	CoreHz int `json:"core_hz,omitzero" is:"0..2147483648"`

	// the counter of `cpu_ticks`, as `kind`: `systick`, `mtime`, `mcycle`, or `chip` for a timer of the chip; and its
	// frequency `hz`, which becomes `BOARDSMITH_TIMER_HZ`. A device that reports another one is an error. Default: the
	// kind by CPU, and `core_hz`
	Timer timer `json:"timer,omitzero"`

	// values that the device must report, see below; a difference is an error that names both. Default: nothing is
	// compared
	Platform platform `json:"platform,omitzero"`

	// false: its clock differs from the host's, as in an emulator that counts instructions: its timer is compared with
	// these. Default: true; of a link of kind `qemu` or with `flash.emulated`, false
	HostClock *bool `json:"host_clock,omitzero"`

	// in a chip file: the 32-bit register that identifies the chip (STM32: DBGMCU_IDCODE), as read by a debug probe, as
	// `address`; the relevant bits, without the revision, as `mask`; their `values` on each chip that the file
	// supports; the document, as `source`. The programmer compares them before it erases, and refuses another chip.
	// Without this field, `flash` warns that the chip was not checked
	Identification Identification `json:"identification,omitzero"`

	// full names of compiler and archiver, `cc` and `ar`, and the Debian command that installs both, `install`; by CPU.
	// `nm`, `objcopy` and `size` follow from cc
	Toolchain toolchain `json:"toolchain,omitzero"`

	// the objects that may be linked, by `machine`, `class`, `endian`, `float_abi` and `arch`: `arm`, 32, `little`,
	// `hard`, `v7e-m`; by CPU. Checked before compiling, for archives that contain objects
	ELF ELF `json:"elf,omitzero"`

	// how the host reaches the firmware, see below
	Link Link `json:"link,omitzero"`

	// how the image gets there, see below
	Flash Flash `json:"flash,omitzero"`

	Name   string            `json:"-"` // the file's name without .json
	Path   string            `json:"-"` // the path that Find was given, absolute; "" of a name
	Dir    string            `json:"-"` // the folder of its own file on disk, absolute; "" for a shipped board
	Files  []string          `json:"-"` // the files it was merged from, parents first
	Origin map[string]Origin `json:"-"` // file and line of each field ("link.kind") and of each list element ("cflags[2]")
	// of a partial board, the fields that its own file sets, besides lists that accumulate; Complete leaves them
	Own json.RawMessage `json:"-"`

	chip *Board // what its chip file and the levels above it have; nil without one
}

// An svdExcept names macros, or addresses as they are written, that need not fit the SVD file of the chip.
type svdExcept struct {
	Names  []string `json:"names,omitzero" is:"required text"`
	Reason string   `json:"reason,omitzero" is:"required"`
}

// A Region is one range of the memory map.
type Region struct {
	Name        string `json:"name,omitzero" is:"required name"`
	Origin      Number `json:"origin,omitzero" is:"/8"`        // first address
	Size        Number `json:"size,omitzero" is:"required /8"` // bytes
	Exec        bool   `json:"exec,omitzero"`                  // code can run from it
	Nonvolatile bool   `json:"nonvolatile,omitzero"`
	// erase units from the origin on; none if the memory is not erased
	Sectors     []Sectors `json:"sectors,omitzero" with:"nonvolatile"`
	EraseCycles int       `json:"erase_cycles,omitzero" is:"0..2147483647" with:"sectors"` // rated; 0 means not limited
	// reserved for a bootloader, for example: never linked to, erased or written
	Reserved bool `json:"reserved,omitzero"`
	// false: the core's data cache, if it has one, does not hold its contents; default: the opposite of DMA
	Cacheable *bool `json:"cacheable,omitzero"`
	DMA       bool  `json:"dma,omitzero"` // DMA controllers of the chip or of a library read and write it
	// C function, void f(void), that is called before the memory is used; "" if the chip's start makes it usable
	Init string `json:"init,omitzero" is:"identifier"`
	// of flash besides that of the code: the programmer that can write it; "" means none
	Programmer string `json:"programmer,omitzero" with:"sectors"`
	// of such flash: "firmware", if no programmer can read it back; "" means that the programmer reads it
	Verify string `json:"verify,omitzero" is:"firmware|" with:"programmer"`
}

// verifyByFirmware is the value of Region.Verify for memory that only the firmware can read.
const verifyByFirmware = "firmware"

// VerifiedByFirmware reports whether no programmer can read the memory back: the firmware's answer with a checksum of
// the image proves what was written.
func (r Region) VerifiedByFirmware() bool { return r.Verify == verifyByFirmware }

// Sectors are Count erase units of Size bytes, one after the other.
type Sectors struct {
	Count int    `json:"count,omitzero" is:"required 1..4294967295"`
	Size  Number `json:"size,omitzero" is:"required 2^n"` // bytes
}

// A toolchain names a board's compiler.
type toolchain struct {
	CC      string `json:"cc,omitzero"`      // the compiler, as in "arm-none-eabi-gcc"
	AR      string `json:"ar,omitzero"`      // the archiver
	Install string `json:"install,omitzero"` // one command that installs both on Debian, for messages
}

// ELF describes the objects that can be linked for the board. An empty field accepts anything.
type ELF struct {
	// as in "arm", "riscv", "x86-64"; "native" is the machine this program runs on
	Machine string `json:"machine,omitzero"`
	Class   int    `json:"class,omitzero" is:"32|64"`       // 32 or 64
	Endian  string `json:"endian,omitzero" is:"little|big"` // little or big
	// soft or hard, where the machine has both; of RISC-V soft, single or double
	FloatABI string `json:"float_abi,omitzero" is:"soft|hard|single|double"`
	// Arch is the core's instruction set, as in "v7e-m" or "rv32imac". An object may need a subset of it.
	Arch string `json:"arch,omitzero"`
}

// A timer is the counter that times are measured with.
type timer struct {
	Kind string `json:"kind,omitzero" is:"chip|mcycle|mtime|systick"` // systick, mtime, mcycle; chip: a timer of the chip's own
	Hz   int    `json:"hz,omitzero" is:"0..2147483648"`               // counts in a second; 0 means the core's clock
}

// A platform is the expected answer of boardsmith.platform. Unset fields are not compared.
type platform struct {
	ICache     *bool   `json:"icache,omitzero"`
	DCache     *bool   `json:"dcache,omitzero"`
	Prefetch   *bool   `json:"prefetch,omitzero"`
	WaitStates *int    `json:"wait_states,omitzero" is:"0..255"` // of the flash
	FPU        *bool   `json:"fpu,omitzero"`
	CPUID      *Number `json:"cpuid,omitzero"` // the core's identification register
}

// An Identification is the register by which a debug probe identifies the chip. The zero value means that there is
// none.
type Identification struct {
	Address Number   `json:"address,omitzero" is:"0..4294967295 /4" needs:"mask"`
	Mask    Number   `json:"mask,omitzero" is:"0..4294967295" needs:"values source"` // bits that are compared, without those of the revision
	Values  []Number `json:"values,omitzero" needs:"mask source"`                    // accepted values of these bits
	Source  string   `json:"source,omitzero" needs:"mask values"`                    // the document with these values
}

// Accepts reports whether a register value identifies an accepted chip.
func (i Identification) Accepts(read uint32) bool {
	return slices.Contains(i.Values, Number(read)&i.Mask)
}

// A Link is how the host reaches the running firmware.
type Link struct {
	// A board file may set only the fields of its kind.
	// process: the image is a program, its standard input and output are the link;
	// qemu: an emulator runs the image, its first serial port is the link;
	// serial: a UART;
	// tcp: a UART or the like behind a bridge that is reached over TCP;
	// rtt: buffers in the firmware's RAM, which the debug probe reads and writes while the core runs.
	Kind    string `json:"kind,omitzero" is:"process|qemu|serial|tcp|rtt"`
	Program string `json:"program,omitzero" is:"required" with:"kind=qemu"` // the emulator
	// the machine; "{image}" stands for the ELF file, which is else given by -kernel, and "{board}/FILE" for a
	// file beside the board file
	Args    []string `json:"args,omitzero" is:"required" with:"kind=qemu"`
	Install string   `json:"install,omitzero" with:"kind=qemu"` // one command that installs it on Debian, for messages
	// MinVersion is the first version of the emulator that has the machine, as in "9.1"; "" means any.
	MinVersion string `json:"min_version,omitzero" is:"version" with:"kind=qemu"`
	USB        string `json:"usb,omitzero" is:"usb" with:"kind=serial"` // vendor and product of the adapter, as in "0483:374b"
	// Interface is the number of the USB interface that is the UART, where the adapter has several.
	Interface *int `json:"interface,omitzero" is:"0..255" with:"kind=serial"`
	// Baud is in bits a second; 0 means 115200.
	Baud int `json:"baud,omitzero" is:"1..100000000" with:"kind=serial kind=qemu kind=tcp"`
	// Address is the bridge's host and port, as in "192.0.2.7:4000"; "" where each device has its own.
	Address string `json:"address,omitzero" is:"address" with:"kind=tcp"`

	Dir string `json:"-"` // the folder that "{board}" in Args stands for, absolute
}

// Flash is how an image gets onto the board.
type Flash struct {
	Programmer string `json:"programmer,omitzero"` // a programmer; none: there is nothing to write
	// of openocd: its configuration files; of west with openocd: instead of the build's
	Scripts []string `json:"scripts,omitzero" is:"text"`
	// of pyocd: its name of the chip; of west with pyocd: instead of the build's
	Chip string `json:"chip,omitzero"`
	// of west: one of the build's runners, instead of the one that it prefers
	Runner string `json:"runner,omitzero"`
	// vendor and product of the probe, where the UART is another USB device
	USB string `json:"usb,omitzero" is:"usb"`
	// the probe and the chip behind it are emulated; their state is kept between runs
	Emulated bool `json:"emulated,omitzero"`
}

// A Source is a file or folder of the board's: beside the board file that names it or, of the port, in the template.
type Source struct {
	Name string // a slash path, as written in the board file
	Dir  string // the folder that holds the user's board file, absolute; "" for a shipped board
	At   Origin // where it is written
}

// UnmarshalJSON decodes a source from the string in a board file.
func (s *Source) UnmarshalJSON(b []byte) error { return unmarshalInner(b, &s.Name) }

// MarshalJSON encodes the name only.
func (s Source) MarshalJSON() ([]byte, error) { return json.Marshal(s.Name) }

// A Number is an unsigned number that a board file writes in decimal, or as a string in hexadecimal ("0x08000000").
type Number uint64

// UnmarshalJSON accepts 4096, "4096" and "0x1000".
func (n *Number) UnmarshalJSON(b []byte) error {
	s := string(b)
	if u, err := strconv.Unquote(s); err == nil {
		s = u
	}

	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return &json.UnmarshalTypeError{Value: "number " + s, Type: reflect.TypeFor[Number]()} // the decoder adds the field
	}
	*n = Number(v)
	return nil
}

// MarshalJSON encodes small numbers in decimal and others in hexadecimal.
func (n Number) MarshalJSON() ([]byte, error) {
	if n < 10 {
		return strconv.AppendUint(nil, uint64(n), 10), nil
	}
	return fmt.Appendf(nil, `"0x%x"`, uint64(n)), nil
}

// A Function is a C function of the packed form in one of the sources, and the name under which the host finds it.
type Function struct {
	Name   string `json:"name,omitzero" is:"required function"`     // as in "tvm.testing.reset_server"
	Symbol string `json:"symbol,omitzero" is:"required identifier"` // the C identifier
}

// An Origin is where a field's value was written.
type Origin struct {
	File string
	Line int // from 1
}

// SetByUser reports whether the board's own file, if that is a user's, sets a field or a part of it. Its parents are
// for other boards, too.
func (b *Board) SetByUser(field string) bool {
	_, inherits := b.Origin["inherits"]
	isFamily := b.Partial && !inherits // without a file of the board's own
	if b.Dir == "" || len(b.Files) == 0 || isFamily {
		return false
	}

	for at, origin := range b.Origin {
		// The field, a part of it, as in link.kind, or an element, as in cflags[2].
		rest, ok := strings.CutPrefix(at, field)
		if ok && origin.File == b.Files[len(b.Files)-1] && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// Region returns the region of that name.
func (b *Board) Region(name string) (Region, bool) {
	for _, r := range b.Memory {
		if r.Name == name {
			return r, true
		}
	}
	return Region{}, false
}

// BitRate returns the UART's rate in bits per second.
func (l Link) BitRate() int {
	if l.Baud != 0 {
		return l.Baud
	}
	return 115200
}

// Objcopy returns the toolchain's program that converts ELF files.
func (t toolchain) Objcopy() string {
	if prefix, ok := strings.CutSuffix(t.CC, "gcc"); ok {
		return prefix + "objcopy"
	}
	return "objcopy"
}

// Zephyr returns Zephyr's name of the board.
func (b *Board) Zephyr() string {
	if b.ZephyrBoard != "" {
		return b.ZephyrBoard
	}
	return b.Name
}

// emulatorShift makes an instruction of an emulator take 2^4 ns of its time, unless the board's arguments differ.
const emulatorShift = "shift=4"

// InstructionClock returns the option of QEMU's -icount for the board, and the time that each instruction takes: 0 if
// it is not constant, or the board is not emulated by QEMU.
func (b *Board) InstructionClock() (option string, each time.Duration) {
	option = emulatorShift
	if i := slices.Index(b.Link.Args, "-icount"); i >= 0 && i+1 < len(b.Link.Args) {
		option = b.Link.Args[i+1]
	}

	// The option's further fields, as in shift=4,sleep=off, do not matter.
	first, _, _ := strings.Cut(option, ",")
	shift, err := strconv.Atoi(strings.TrimPrefix(first, "shift="))
	if err != nil || shift < 0 || shift > 10 || !b.Link.IsEmulator() && !b.Flash.Emulated {
		return option, 0
	}
	return option, time.Duration(1 << shift)
}

// KeepsHostTime reports whether the board's time follows the host's, so that the clocks can be compared.
func (b *Board) KeepsHostTime() bool {
	if b.HostClock != nil {
		return *b.HostClock
	}
	return !b.Link.IsEmulator() && !b.Flash.Emulated
}
