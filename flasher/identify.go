// This file compares the chip's identification register with the board file. The tool compares it, in the same run,
// before it erases anything.

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

// A ChipError reports a chip that differs from the board file. Nothing was erased or written.
type ChipError struct {
	Read uint32                // its identification register
	Want boards.Identification // values in the board file
}

func (e *ChipError) Error() string {
	var values []string
	for _, v := range e.Want.Values {
		values = append(values, fmt.Sprintf("0x%x", uint64(v)))
	}
	return fmt.Sprintf("the chip behind the probe differs from the board file: register 0x%08x reads 0x%08x; its "+
		"masked value 0x%x is not %s (%s)",
		uint64(e.Want.Address), e.Read, uint64(e.Want.Mask)&uint64(e.Read), strings.Join(values, " or "), e.Want.Source)
}

// FailureClass returns failure.Flash.
func (e *ChipError) FailureClass() failure.Class { return failure.Flash }

// NextStep returns how to go on.
func (e *ChipError) NextStep() string {
	return "choose this chip's board; if the board file is right for the chip, add the value to its " +
		"identification.values, or use " + failure.Option("Desk.Reflash", "true")
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

var identificationRE = regexp.MustCompile(`(?m)^` + mark + identification + `0x([0-9a-fA-F]{1,8})\b`)

// chipError returns a *ChipError for a run that ended because of the chip.
func (c Config) chipError(err error) error {
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

// warnAboutChip logs a warning for a line that reports another chip, if any chip is accepted.
func (c Config) warnAboutChip(line string) {
	if m := identificationRE.FindStringSubmatch(line); m != nil && c.AnyChip && !c.Chip.Accepts(uint32(hex(m[1]))) {
		c.Log.Warn((&ChipError{uint32(hex(m[1])), c.Chip}).Error())
	}
}
