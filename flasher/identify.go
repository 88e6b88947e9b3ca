// This file compares the chip with the board file: its identification register, and the erase units that the programmer
// has for it. The tool compares them, in the same run, before it erases anything.

package flasher

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// ErrOtherChip is wrapped by the error, of class flash, of a chip that differs from the board file. Nothing was erased
// or written.
var ErrOtherChip = errors.New("the chip behind the probe differs from the board file")

// otherRegister returns the error of a chip whose identification register reads another value.
func otherRegister(read uint32, want boards.Identification) error {
	var values []string
	for _, v := range want.Values {
		values = append(values, fmt.Sprintf("0x%x", uint64(v)))
	}

	return failure.New(failure.Flash, "choose this chip's board; if the board file is right for the chip, add the value "+
		"to its identification.values, or use "+nextstep.Option("Desk.Reflash", "true"),
		"%w: register 0x%08x reads 0x%08x; its masked value 0x%x is not %s (%s)", ErrOtherChip, uint64(want.Address), read,
		uint64(want.Mask)&uint64(read), strings.Join(values, " or "), want.Source)
}

// otherSectors returns the error of a chip that has another erase unit, none if its size is 0, at that of a sector.
func otherSectors(s boards.Sector, addr, size uint64) error {
	return failure.New(failure.Flash, "correct sectors of this memory in the board file, or its chip file",
		"%w: sectors of its memory: 0x%x bytes at 0x%08x, where the programmer has 0x%x bytes at 0x%08x for this chip; "+
			"nothing was erased", ErrOtherChip, s.Size, s.Addr, size, addr)
}

const (
	identification = "identification " // prefix of the register's value; not a step, because the value varies
	identified     = "identified"
)

// values returns the register's accepted values in decimal; none: any.
func (c Config) values(separator string) string {
	var list []string
	if !c.AnyChip {
		for _, v := range c.Chip.Values {
			list = append(list, strconv.FormatUint(uint64(v), 10))
		}
	}
	return strings.Join(list, separator)
}

// openocdIdentify returns commands that end the run with an error if the chip differs; none if nothing is compared.
func (c Config) openocdIdentify(r *toolRun, j Job) []string {
	if c.Chip.Address == 0 || !j.changes() {
		return nil
	}

	step := fmt.Sprintf(`regexp {: ([0-9a-fA-F]+)} [capture "mdw 0x%x"] all id; echo "`+mark+identification+`0x$id"`,
		uint64(c.Chip.Address))

	// Without accepted values the register is only printed.
	if values := c.values(" "); values != "" {
		step += fmt.Sprintf(`; if {[lsearch -exact {%s} [expr "0x$id & 0x%x"]] < 0} {error "another chip"}`, values,
			uint64(c.Chip.Mask))
	}

	return []string{r.done(step, identified)}
}

// pyocdIdentify adds the same as a command of the script.
func (c Config) pyocdIdentify(r *toolRun, j Job) {
	if c.Chip.Address == 0 || !j.changes() {
		return
	}

	values := c.values("_")
	if values == "" {
		values = "any"
	}

	r.command("identify 0x%x 0x%x %s", uint64(c.Chip.Address), uint64(c.Chip.Mask), values)
	r.addMark(identified)
}

const compared = "compared the sectors"

const noSectors = "no sectors are listed" // not a step

// otherSector begins the line about an erase unit that differs: the board file's address, and the chip's unit there.
const otherSector = "sector "

// sectorsScript has OpenOCD compare the erase units of a job with those that "flash info" lists for its banks. It reads
// banks until it has found all, as flash erase_address does.
const sectorsScript = `set bank 0
foreach {addr size} {%s} {
 while {![info exists units($addr)] && $bank < [llength [flash list]]} {
  catch {flash probe $bank}
  catch {capture "flash info $bank"} text
  foreach {all base} [regexp -inline {at (0x[0-9a-fA-F]+), size} $text] {
   foreach {all offset length} [regexp -all -inline {# *[0-9]+: (0x[0-9a-fA-F]+) \((0x[0-9a-fA-F]+)} $text] {
    set units([expr {$base + $offset}]) [expr {$length}]
   }
  }
  incr bank
 }
 if {![info exists units]} {
  echo "` + mark + noSectors + `"
  break
 }
 if {[info exists units($addr)] && $units($addr) == $size} continue
 set has "0x0 0x0"
 foreach {from length} $units {
  if {$from <= $addr && $addr < $from + $length} {set has [format "0x%%x 0x%%x" $from $length]}
 }
 echo [format "` + mark + otherSector + `0x%%x $has" $addr]
 error "other sectors"
}`

// sectorsOf lists addresses and sizes in decimal.
func sectorsOf(list []boards.Sector, separator string) string {
	var words []string
	for _, s := range list {
		words = append(words, strconv.FormatUint(s.Addr, 10), strconv.FormatUint(s.Size, 10))
	}
	return strings.Join(words, separator)
}

// openocdSectors returns a command that ends the run with an error if the chip's erase units differ; none if nothing is
// erased.
func openocdSectors(r *toolRun, j Job) []string {
	if len(j.Erase) == 0 {
		return nil
	}

	script := strings.ReplaceAll(fmt.Sprintf(sectorsScript, sectorsOf(j.Erase, " ")), "\n", "; ") // for display
	return []string{r.done(script, compared)}
}

// pyocdSectors adds the same as a command of the script.
func (r *toolRun) pyocdSectors(j Job) {
	if len(j.Erase) > 0 {
		r.command("sectors %s", sectorsOf(j.Erase, "_"))
		r.addMark(compared)
	}
}

var (
	identificationRE = regexp.MustCompile(`(?m)^` + mark + identification + `0x([0-9a-fA-F]{1,8})\b`)
	otherSectorRE    = regexp.MustCompile(`(?m)^` + mark + otherSector + `0x([0-9a-f]+) 0x([0-9a-f]+) 0x([0-9a-f]+)`)
)

// chipError returns ErrOtherChip for a run of the job that ended because of the chip.
func (c Config) chipError(err error, j Job) error {
	var failed *command.Error
	if !errors.As(err, &failed) {
		return err
	}

	if m := otherSectorRE.FindStringSubmatch(failed.Text); m != nil {
		i := slices.IndexFunc(j.Erase, func(s boards.Sector) bool { return s.Addr == hex(m[1]) })
		if i >= 0 {
			return otherSectors(j.Erase[i], hex(m[2]), hex(m[3]))
		}
	}

	// The run may have failed later, for another reason.
	m := identificationRE.FindStringSubmatch(failed.Text)
	if m == nil || c.AnyChip || c.Chip.Accepts(uint32(hex(m[1]))) {
		return err
	}
	return otherRegister(uint32(hex(m[1])), c.Chip)
}

// warnAboutChip logs a warning for a line that reports another chip, if any chip is accepted, or unknown sectors.
func (c Config) warnAboutChip(line string) {
	if line == mark+noSectors {
		c.Log.Warn("the sectors of the board file were not compared with the chip's: the programmer lists none")
	}

	if m := identificationRE.FindStringSubmatch(line); m != nil && c.AnyChip && !c.Chip.Accepts(uint32(hex(m[1]))) {
		c.Log.Warn(otherRegister(uint32(hex(m[1])), c.Chip).Error())
	}
}
