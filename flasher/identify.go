// This file compares the chip's identification register with the board file, before anything is erased: by the tool itself, in
// the run that would erase.

package flasher

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

// A ChipError is a chip that is another than the board file says. Nothing was erased or written.
type ChipError struct {
	Read uint32                // its identification register
	Want boards.Identification // by the board file
}

func (e *ChipError) Error() string {
	var values []string
	for _, v := range e.Want.Values {
		values = append(values, fmt.Sprintf("0x%x", uint64(v)))
	}
	return fmt.Sprintf("the chip behind the probe is another than the board file says: 0x%08x reads 0x%08x, of which 0x%x is not %s (%s)",
		uint64(e.Want.Address), e.Read, uint64(e.Want.Mask)&uint64(e.Read), strings.Join(values, " or "), e.Want.Source)
}

// FailureClass says that the job was refused.
func (e *ChipError) FailureClass() failure.Class { return failure.Flash }

// NextStep says how to go on.
func (e *ChipError) NextStep() string {
	return "choose the board that this chip is on; if the board is right for it, add the value to identification.values in the board file, or FORCE=1"
}

const (
	identification = "identification " // what the register reads, behind it: no step, for nobody knows it before
	identified     = "identified"
)

// values are those that the register may have, in decimal; none: any.
func (c Config) values(separator string) string {
	var list []string
	if !c.AnyChip {
		for _, v := range c.Chip.Values {
			list = append(list, strconv.FormatUint(uint64(v), 10))
		}
	}
	return strings.Join(list, separator)
}

// openocdIdentify are the commands that end a run with an error where the chip is another; none where nothing is compared.
func (c Config) openocdIdentify(r *toolRun, j Job) []string {
	if c.Chip.Address == 0 || !j.changes() {
		return nil
	}
	step := fmt.Sprintf(`regexp {: ([0-9a-fA-F]+)} [capture "mdw 0x%x"] all id; echo "`+mark+identification+`0x$id"`, uint64(c.Chip.Address))
	if values := c.values(" "); values != "" {
		step += fmt.Sprintf(`; if {[lsearch -exact {%s} [expr "0x$id & 0x%x"]] < 0} {error "another chip"}`, values, uint64(c.Chip.Mask))
	}
	return []string{r.done(step, identified)}
}

// pyocdIdentify adds the script's command that does the same.
func (c Config) pyocdIdentify(r *toolRun, j Job) {
	if c.Chip.Address == 0 || !j.changes() {
		return
	}
	values := c.values("_")
	if values == "" {
		values = "any"
	}
	r.command("identify 0x%x 0x%x %s", uint64(c.Chip.Address), uint64(c.Chip.Mask), values)
	r.noted(identified)
}

var identificationRE = regexp.MustCompile(`(?m)^` + mark + identification + `0x([0-9a-fA-F]{1,8})\b`)

// chipVerdict makes a *ChipError of a run that ended because of the chip.
func (c Config) chipVerdict(err error) error {
	var failed *command.Error
	if !errors.As(err, &failed) || c.AnyChip {
		return err
	}
	m := identificationRE.FindStringSubmatch(failed.Text)
	if m == nil || c.Chip.Accepts(uint32(hex(m[1]))) {
		return err
	}
	return &ChipError{uint32(hex(m[1])), c.Chip}
}

// warnOfChip warns of a line that says that the chip is another, where any is right.
func (c Config) warnOfChip(line string) {
	if m := identificationRE.FindStringSubmatch(line); m != nil && c.AnyChip && !c.Chip.Accepts(uint32(hex(m[1]))) {
		c.Log.Warn((&ChipError{uint32(hex(m[1])), c.Chip}).Error())
	}
}
