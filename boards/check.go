// This file validates a merged board.

package boards

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"path"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// check returns the first error in the merged board, with file and line.
func (b *Board) check() error {
	if err := b.checkTemplates(); err != nil {
		return err
	}
	if faults := jsonfile.Check(b); len(faults) > 0 && !b.Partial {
		return b.wrong(faults[0].Field, "%w", faults[0].Err)
	}

	for _, check := range []func() error{
		b.checkMissing, b.checkLink, b.checkFlash, b.checkOwn, b.checkDefines,
		b.checkMeasurePin, b.checkIdentification, b.checkNumbers, b.checkMemory, b.checkPlace, b.checkModelAt, b.checkRest,
	} {
		if err := check(); err != nil {
			return err
		}
	}

	b.ELF = b.ELF.resolve()
	return nil
}

func (b *Board) checkTemplates() error {
	if len(b.Templates) > 0 {
		return nil
	}
	if _, inherits := b.Origin["inherits"]; !inherits && len(b.Files) > 0 {
		return b.wrong("inherits", "missing, and there is no templates either: %s, or name the templates",
			mayInheritText(""))
	}
	return b.wrong("templates", "no template")
}

// checkMissing reports all required fields that no file sets. Without some of them, a check of the build would not be
// made: whether the model fits, whether an object is for the board.
func (b *Board) checkMissing() error {
	if b.Partial || len(b.Files) == 0 {
		return nil
	}

	own := b.own()
	native := b.ELF.Machine == "native" || b.ELF == ELF{Machine: "native"}.resolve()
	isProcess := native || b.Link.IsProcess()
	type given struct {
		name string
		set  bool
	}
	required := []given{
		{"elf.class", native || b.ELF.Class != 0},
		{"elf.machine", b.ELF.Machine != ""},
		{"flash.programmer", b.Flash.Programmer != ""},
		{"link.kind", b.Link.Kind != ""},
		{"memory", isProcess || len(b.Memory) > 0},
		{"place.code", isProcess || b.Place.Code != ""},
		{"place.data", isProcess || b.Place.Data != ""},
		{"toolchain.ar", b.Toolchain.AR != ""},
		{"toolchain.cc", b.Toolchain.CC != ""},
	}

	// An option that no file sets is missing only if its default is not valid.
	for _, o := range table {
		_, set := b.Origin[o.Name]
		required = append(required, given{o.Name, set || o.check(o.get(&own)) == nil})
	}

	var missing []string
	for _, field := range required {
		if !field.set {
			missing = append(missing, field.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}

	slices.Sort(missing)
	return b.wrong(strings.Join(missing, ", "), "missing")
}

// definedBy maps macros of crt_config.h to the fields that define them.
var definedBy = map[string]string{
	"BOARDSMITH_ARENA_BYTES": "arena_kib", "BOARDSMITH_BAUD": "link.baud", "BOARDSMITH_BUDGET_MS": "budget_ms",
	"BOARDSMITH_CORE_HZ": "core_hz", "BOARDSMITH_EMULATED": "host_clock", "BOARDSMITH_MEASURE_PIN": "measure_pin",
	"BOARDSMITH_REGIONS": "memory", "BOARDSMITH_STACK_BYTES": "stack_bytes", "BOARDSMITH_TIMER_HZ": "timer.hz",
	"BOARDSMITH_UPLOAD_BYTES": "upload_kib", "BOARDSMITH_WATCHDOG_MS": "watchdog_ms",
	"TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES": "registry_bytes", "TVM_CRT_LOG_LEVEL": "log_level",
	"TVM_CRT_MAX_PACKET_SIZE_BYTES": "packet_bytes",
}

// checkDefines returns an error for a macro that a field defines.
func (b *Board) checkDefines() error {
	for _, name := range slices.Sorted(maps.Keys(b.Defines)) {
		if field, ok := definedBy[name]; ok {
			return b.wrong("defines."+name, "the field %s defines it", field)
		}
	}
	return nil
}

func (b *Board) checkIdentification() error {
	i := b.Identification
	for _, v := range i.Values {
		if v&^i.Mask != 0 {
			return b.wrong("identification.values", "0x%x has bits that the mask 0x%x leaves out", uint64(v), uint64(i.Mask))
		}
	}
	return nil
}

func (b *Board) checkNumbers() error {
	own := b.own()
	for _, o := range table {
		err := o.check(o.get(&own))
		_, given := b.Origin[o.Name]
		// What a partial board lacks, its build sets.
		if err != nil && (given || !b.Partial) {
			return b.wrong(o.Name, "%v", err)
		}
	}
	return nil
}

// A rule returns in what a field contradicts others, or the values that it can have; "" if it does not.
type rule struct {
	field  string
	broken func(*Board) string
}

// rules are those that a board's files alone can break. Rules of a port's C are assertions there, for the compiler.
var rules = []rule{
	{"timer.kind", timerOfOtherCore},
	{"timer.kind", timerOfOtherPort},
	{"timer.hz", func(b *Board) string {
		if b.Timer.Kind != "systick" || b.Timer.Hz == 0 || b.CoreHz == 0 {
			return ""
		}
		return notEqual(b.Timer.Hz, "core_hz, which systick counts", b.CoreHz)
	}},
}

func (b *Board) checkRest() error {
	for _, r := range rules {
		if text := r.broken(b); text != "" {
			return b.wrong(r.field, "%s", text)
		}
	}
	return nil
}

func notEqual(value int, field string, other int) string {
	if value != other {
		return fmt.Sprintf("%d is not %s: %d", value, field, other)
	}
	return ""
}

// timerOfOtherCore reports a timer that the core's architecture does not have.
func timerOfOtherCore(b *Board) string {
	machine := map[string]string{"systick": "arm", "mtime": "riscv", "mcycle": "riscv"}[b.Timer.Kind]
	if agree(machine, b.ELF.Machine) {
		return ""
	}
	return fmt.Sprintf("%q is a timer of %s, and the core is %s", b.Timer.Kind, machine, b.ELF.Machine)
}

// timerOfOtherPort reports a timer of the chip for a port whose timer is the core's.
func timerOfOtherPort(b *Board) string {
	for _, s := range b.Sources {
		if s.Dir == "" && b.Timer.Kind == "chip" && path.Base(s.Name) == "time.c" {
			return fmt.Sprintf("\"chip\" is a timer of the chip, and %s counts one of the core", s.Name)
		}
	}
	return ""
}

// checkMemory reports regions that are empty, wrap or overlap, and sectors that do not make up their region.
func (b *Board) checkMemory() error {
	for i, r := range b.Memory {
		at := fmt.Sprintf("memory[%d]", i)
		end, carry := bits.Add64(uint64(r.Origin), uint64(r.Size), 0)
		// A region may end where the address space does: the sum is then 0.
		if carry != 0 && end != 0 {
			return b.wrong(at, "region %q wraps around", r.Name)
		}
		for _, q := range b.Memory[:i] {
			if r.overlaps(q) {
				return b.wrong(at, "regions %q and %q overlap", q.Name, r.Name)
			}
		}

		if b.ELF.Class == 32 && (end > 1<<32 || carry != 0) {
			return b.wrong(at, "region %q ends at 0x%x, which 32 bits do not address", r.Name, end)
		}

		err := cmp.Or(b.checkMap(r), r.checkSectors(), r.checkErase(), r.checkAccess(), r.checkProgrammer())
		if err == nil && b.chip != nil && len(b.chip.Memory) > 0 {
			err = b.compareChip(r)
		}
		if err != nil {
			return b.wrong(at, "%w", err)
		}
	}
	return nil
}

// checkMap reports a region where every Cortex-M has something else (Armv7-M Architecture Reference Manual, DDI 0403E,
// B3.1: the system address map).
func (b *Board) checkMap(r Region) error {
	const peripheral, external, system = 0x40000000, 0x60000000, 0xE0000000
	if _, ok := armRuns[b.ELF.Arch]; !ok {
		return nil
	}

	last := uint64(r.Origin) + uint64(r.Size) - 1
	switch {
	case last >= system:
		return fmt.Errorf("region %q reaches beyond 0x%x, where a Cortex-M has its own registers", r.Name, system)
	case r.Exec && last >= peripheral && r.Origin < external:
		return fmt.Errorf("region %q: exec: a Cortex-M does not run code from 0x%x to 0x%x, which is for peripherals",
			r.Name, peripheral, external-1)
	}
	return nil
}

// checkSectors reports sectors that are not as large as their region.
func (r Region) checkSectors() error {
	sum := uint64(0)
	for _, s := range r.Sectors {
		if uint64(s.Size) > uint64(r.Size) || uint64(s.Count) > uint64(r.Size) {
			return fmt.Errorf("region %q: %d sectors of %d bytes", r.Name, s.Count, s.Size)
		}

		// The numbers are a file's: their product and their sum may overflow.
		high, n := bits.Mul64(uint64(s.Count), uint64(s.Size))
		if sum += n; high != 0 || sum > uint64(r.Size) || sum < n {
			return fmt.Errorf("region %q: its sectors are larger than its %d bytes", r.Name, r.Size)
		}
	}

	if len(r.Sectors) > 0 && sum != uint64(r.Size) {
		return fmt.Errorf("region %q: its sectors add up to %d bytes, not to %d", r.Name, sum, r.Size)
	}
	return nil
}

// checkErase reports erase units that no flash has: their sizes divide their addresses.
func (r Region) checkErase() error {
	at := r.Origin
	for _, s := range r.Sectors {
		if at%s.Size != 0 {
			return fmt.Errorf("region %q: a sector of 0x%x bytes cannot start at 0x%x, which is not a multiple of that",
				r.Name, uint64(s.Size), uint64(at))
		}
		at += s.Size * Number(s.Count)
	}
	return nil
}

// checkUpload returns an error if memory for uploaded code cannot be a region of a memory protection unit, or if code
// cannot run from it.
func (b *Board) checkUpload() error {
	r, _ := b.Region(b.Place.UploadRegion())
	bytes := uint64(b.UploadKiB) * 1024
	need := bytes
	if r.Origin == 0 {
		need *= 2 // the window does not start at a null pointer, and its size divides its address
	}

	switch {
	case bytes == 0:
		return nil
	case bytes&(bytes-1) != 0:
		return b.wrong("upload_kib", "%d is not a power of two", b.UploadKiB)
	case !r.Exec:
		return b.wrong("place.upload", "code cannot run from region %q", r.Name)
	case need > uint64(r.Size):
		return b.wrong("upload_kib", "%w",
			&overfull{r, need, fmt.Sprintf("a window of %d KiB for uploaded code", b.UploadKiB)})
	}
	return nil
}

// checkModelAt returns an error if the model part starts inside a sector, or if variables of the part before it,
// whose addresses that part contains, would move with the model.
func (b *Board) checkModelAt() error {
	if b.ModelAt == 0 {
		return nil
	}

	r, _ := b.Region(b.Place.Code)
	switch {
	case b.ModelAt-r.Origin >= r.Size:
		return b.wrong("model_at", "0x%x is not in region %q, which holds the code", b.ModelAt, r.Name)
	case !r.startsSector(b.ModelAt):
		return b.wrong("model_at", "0x%x is in the middle of a sector of region %q", b.ModelAt, r.Name)
	}

	// All parts but the code, which is the first.
	for _, p := range append(b.Place.parts()[1:], placed{"packet", b.Place.Packet}) {
		if p.region == r.Name {
			return b.wrong("model_at", "region %q holds the code and the %s, which would move with the model", r.Name, p.part)
		}
	}
	return nil
}

// startsSector reports whether a sector starts at an address of the region, or, without sectors, whether it is a
// multiple of 16.
func (r Region) startsSector(addr Number) bool {
	s, _, ok := r.sector(uint64(addr))
	return ok && s.Addr == uint64(addr) || len(r.Sectors) == 0 && addr%16 == 0
}

// nullBytes is the length of the memory at address 0 that holds nothing but code, which starts with the vectors there:
// a null pointer has no use (NULL_BYTES of the linker script).
const nullBytes = 256

// checkArena returns an error if the arena or the stack, with what is known to share its region, is larger than that.
// What else the region holds is known only after linking.
func (b *Board) checkArena() error {
	if err := b.checkFull("arena_kib", b.Place.ArenaRegion()); err != nil {
		return err
	}
	return b.checkFull("stack_bytes", b.Place.StackRegion())
}

func (b *Board) checkFull(field, region string) error {
	r, _ := b.Region(region)
	var need uint64
	var parts []string

	if b.Place.ArenaRegion() == region {
		parts = append(parts, fmt.Sprintf("an arena of %d KiB", b.ArenaKiB))
	}
	if r.Origin == 0 && region != b.Place.Code {
		need += nullBytes
		parts = append(parts, fmt.Sprintf("%d unused bytes at address 0", nullBytes))
	}
	if b.Place.StackRegion() == region {
		need += uint64(b.StackBytes)
		parts = append(parts, fmt.Sprintf("a stack of %d bytes", b.StackBytes))
	}

	if b.UploadKiB > 0 && b.Place.UploadRegion() == region {
		size := uint64(b.UploadKiB) * 1024
		if gap := (uint64(r.Origin) + need) % size; r.Origin == 0 && gap > 0 {
			need += size - gap // its size divides its address
		}
		need += size
		parts = append(parts, fmt.Sprintf("%d KiB for uploaded code", b.UploadKiB))
	}

	if b.Place.ArenaRegion() == region {
		need += uint64(b.ArenaKiB) * 1024
	}
	if need <= uint64(r.Size) {
		return nil
	}

	text := strings.Join(parts, ", with ")
	if len(parts) > 1 {
		text += ","
	}
	return b.wrong(field, "%w", &overfull{r, need, text})
}

// An overfull region is too small for what the options place there.
type overfull struct {
	region Region
	need   uint64
	parts  string
}

func (e *overfull) Error() string {
	size := uint64(e.region.Size)
	return fmt.Sprintf("%s does not fit into region %q of %d bytes: %d bytes too many", e.parts, e.region.Name, size,
		e.need-size)
}

// Overfull returns the region, the bytes that are needed and there, and what needs them.
func (e *overfull) Overfull() (region string, need, have int64, parts string) {
	return e.region.Name, int64(e.need), int64(e.region.Size), strings.TrimSuffix(e.parts, ",")
}

// Contradiction returns an error about a field, or a define by its name, with its file and line. Class: config.
func (b *Board) Contradiction(name, text string) error {
	if _, isDefine := b.Defines[name]; isDefine {
		name = "defines." + name
	}
	return b.wrong(name, "%s", text)
}

// wrong returns an error about a field, or an element of one ("memory[2]"), with its origin.
func (b *Board) wrong(field, format string, args ...any) error {
	at := b.origin(field)
	// The line is that of the element; the message names the list.
	if strings.HasSuffix(field, "]") {
		field, _, _ = strings.Cut(field, "[")
	}
	if len(b.Files) == 0 { // read from a project: no origin
		return failure.Errorf(failure.Config, field+": "+format, args...)
	}
	return &jsonfile.Error{File: at.File, Line: at.Line, Err: fmt.Errorf(field+": "+format, args...)}
}

// origin returns where a field was set. If it is missing, origin returns where the nearest field around it was set, or
// the start of the board's own file.
func (b *Board) origin(field string) Origin {
	for field != "" {
		if at, ok := b.Origin[field]; ok {
			return at
		}
		field = field[:max(strings.LastIndexByte(field, '.'), 0)]
	}

	if len(b.Files) == 0 {
		return Origin{}
	}
	return Origin{File: b.Files[len(b.Files)-1], Line: 1}
}
