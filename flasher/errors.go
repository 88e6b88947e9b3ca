// This file is what can go wrong with a programmer, and what people can do about it.

package flasher

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

// A VerifyError is memory that does not hold what was written to it.
type VerifyError struct {
	Addr      uint64 // of the first byte that differs
	Want, Got byte
	Bytes     int // that differ; 0 if the programmer does not say
}

func (e *VerifyError) Error() string {
	if e.Bytes == 0 {
		return fmt.Sprintf("the board does not hold what was written, at 0x%08x or behind", e.Addr)
	}
	return fmt.Sprintf("the board holds 0x%02x at 0x%08x where 0x%02x was written (%d bytes differ)", e.Got, e.Addr, e.Want, e.Bytes)
}

// FailureClass says that verifying failed.
func (e *VerifyError) FailureClass() failure.Class { return failure.Verify }

// NextStep is what people try first.
func (e *VerifyError) NextStep() string {
	return "flash again; if the same address differs again, the flash is worn or protected there"
}

// A ToolError is a programmer that failed.
type ToolError struct {
	Class failure.Class // probe-missing, flash or timeout
	Hint  string        // in plain words; "" if what it printed is not known
	Err   error         // a *command.Error with the tool's own words
}

func (e *ToolError) Error() string {
	if e.Hint != "" {
		return e.Hint + " (" + e.Err.Error() + ")"
	}
	return e.Err.Error()
}

// Unwrap returns the command's own error.
func (e *ToolError) Unwrap() error { return e.Err }

// FailureClass is the error's class.
func (e *ToolError) FailureClass() failure.Class { return e.Class }

// NextStep is the command that shows it again.
func (e *ToolError) NextStep() string {
	var c *command.Error
	if errors.As(e.Err, &c) {
		return "to see all it says: " + c.Command
	}
	return ""
}

// hints are the common failures, by what openocd, pyocd and west print: what is said besides other things, like that a probe
// does not open, comes after what may be the reason for it.
var hints = []struct {
	says  *regexp.Regexp
	class failure.Class
	hint  string
}{
	{regexp.MustCompile(`west: unknown command "flash"`), failure.Config, "west knows no flash here: Zephyr's folder is not in a west workspace (west init -l, or set ZEPHYR_BASE and build again)"},
	{regexp.MustCompile(`ModuleNotFoundError: No module named|elftools missing`), failure.ToolMissing, "west's Python lacks a package that Zephyr's runners need (pip install -r zephyr/scripts/requirements-base.txt)"},
	{regexp.MustCompile(`argument -r/--runner: invalid choice|unrecognized arguments|runner .* does not support`), failure.Config, "this Zephyr's west does not know an option of its runner"},
	{regexp.MustCompile(`(?i)target type \S+ not recognized|unknown target type`), failure.Config, "pyocd does not know the board's target: pyocd list --targets shows those it knows, pyocd pack install adds more"},
	{regexp.MustCompile(`(?i)can't find (interface|target|board)/\S+|couldn't find (interface|target|board)/`), failure.Config, "this OpenOCD does not have the board's scripts"},
	{regexp.MustCompile(`(?i)LIBUSB_ERROR_BUSY|already in use|resource busy|probe is busy|claim interface`), failure.ProbeMissing, "the probe is busy: another program has it open"},
	{regexp.MustCompile(`(?i)LIBUSB_ERROR_ACCESS|insufficient permissions|permission denied`), failure.ProbeMissing, "this user may not open the probe: udev rules are missing (mage doctor)"},
	{regexp.MustCompile(`(?i)target voltage (may be )?too low|target voltage: 0\.|no target power`), failure.ProbeMissing, "the target has no power"},
	{regexp.MustCompile(`(?i)read ?out protection|\bRDP\b|\b(device|write|pages?|flash|sector \S+) (is )?protected\b|APPROTECT enabled|AP lock engaged|is locked([^ ]| [^u]|$)`), failure.Flash, "the chip is locked against reading or writing; unlocking it erases all of it, which is never done unasked: pyocd erase --mass, or OpenOCD's own command for the chip"},
	{regexp.MustCompile(`(?i)no (connected debug probe|debug probe|device found|J-Link device found|CMSIS-DAP device found)|open failed|unable to find (a matching )?(CMSIS-DAP|device|Nu-Link)|Failed to connect|Connection refused|No available debug probes|can't connect|couldn't connect`), failure.ProbeMissing, "no probe: is it plugged in, and may this user open it (mage doctor)?"},
	{regexp.MustCompile(`(?i)UNEXPECTED idcode|unexpected: 0x|Cannot identify target as|does not match|wrong target`), failure.Flash, "another chip than the board file says"},
	{regexp.MustCompile(`(?i)unable to connect to the target|cannot read IDR|DP initialisation failed|communication failure|Target not detected|scan chain interrogation failed`), failure.Flash, "no chip answers the probe: has the board power, is it wired right, and is it not held in reset?"},
	{regexp.MustCompile(`(?i)timed out while waiting for target|target (was )?not halted`), failure.Flash, "the core does not stop: firmware that sleeps or switches its debug pins off is caught right behind a reset only"},
	{regexp.MustCompile(`(?i)failed to erase|failed erasing|error erasing|erase sector failure|erase failed|(erase|sector) failure`), failure.Flash, "a sector does not erase"},
	{regexp.MustCompile(`(?i)error writing to flash|page failure|flash write failed`), failure.Flash, "the flash does not take what is written"},
	{regexp.MustCompile(`(?i)Disconnected|Input/output error|unexpected response|remote.*(EOF|closed|lost|error)|remote_bitbang_recv_buf_empty|Error: Couldn't|connection (closed|lost|reset)`), failure.Flash, "the probe was lost while it worked"},
}

// explain makes a *ToolError of a command's error; others pass.
func explain(err error) error {
	var c *command.Error
	if !errors.As(err, &c) {
		return err
	}
	if errors.Is(err, command.ErrTooLong) {
		return &ToolError{failure.Timeout, "the programmer hangs", err}
	}
	for _, h := range hints {
		if h.says.MatchString(c.Text) {
			return &ToolError{h.class, h.hint, err}
		}
	}
	return &ToolError{failure.Flash, "", err}
}
