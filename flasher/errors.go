// This file defines the errors of programmers and their advice.

package flasher

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// verifyError returns the error, of class verify, of memory that differs from what was written.
func verifyError(format string, args ...any) error {
	return failure.New(failure.Verify, "flash again; if the same address differs, that flash is worn or protected",
		"verify: "+format, args...)
}

// differsAt returns the error of n bytes that differ, the first at addr.
func differsAt(addr uint64, got, want byte, n int) error {
	return verifyError("read 0x%02x at 0x%08x instead of 0x%02x (%d bytes differ)", got, addr, want, n)
}

// A lock destroys data when it is opened: it is named with that advice only if the tool has reported that it is on.
const locked = "the chip is locked against reading or writing"

var provesLock = printed(`(RDP|read-?out protection) level [12]\b`, `APPROTECT enabled`, `AP lock engaged`)

// failurePatterns are common failures of openocd, pyocd and west by their output. The first that matches counts: a
// likely cause stands before its consequences, such as a probe that cannot be opened.
var failurePatterns = []struct {
	printed *regexp.Regexp
	class   failure.Class
	hint    string
	next    string
}{
	{
		printed(`west: unknown command "flash"`), failure.Config,
		"west has no command flash: Zephyr's folder is not in a west workspace",
		"west init -l, or set ZEPHYR_BASE and build again",
	},
	{
		printed(`ModuleNotFoundError: No module named`, `elftools missing`), failure.ToolMissing,
		"west's Python lacks a package that Zephyr's runners need",
		"pip install -r zephyr/scripts/requirements-base.txt",
	},
	{
		printed(`invalid runner name`, `runner \S+ (does not support|received unknown arguments)`, `does not support runner`),
		failure.Config,
		"this Zephyr's west does not support the runner, or an option of it",
		"west flash --context lists the runners; the board file names one in flash.runner",
	},
	{
		printed(`required program .* not found`), failure.ToolMissing,
		"the program that west's runner starts is not installed", "install it, or put its folder on PATH",
	},
	{
		printed(`target type \S+ not recognized`, `unknown target type`), failure.Config,
		"pyocd does not support the board's chip",
		"pyocd list --targets lists the supported ones, pyocd pack install adds more",
	},
	{
		printed(`(can't|couldn't) find (interface/|target/|board/|.*\.cfg)`), failure.Config,
		"this OpenOCD does not have the board's scripts", "",
	},
	{
		portTaken, failure.Config, "another program listens on the port of the server", "choose another port",
	},
	{
		printed(`LIBUSB_ERROR_BUSY`, `already in use`, `resource busy`, `probe is busy`, `claim interface`),
		failure.ProbeMissing, "the probe is busy: another program has opened it", "",
	},
	{
		printed(`LIBUSB_ERROR_ACCESS`, `insufficient permissions`, `permission denied`), failure.ProbeMissing,
		"this user may not open the probe: udev rules are missing", nextstep.Target("doctor") + " shows the rules",
	},
	{
		printed(`target voltage (may be )?too low`, `no target power`), failure.ProbeMissing, "the target has no power", "",
	},
	{
		provesLock, failure.Flash, locked,
		"unlocking it erases everything on it: pyocd erase --mass, or OpenOCD's command for the chip",
	},
	{
		printed(`\b(device|write|pages?|flash|sector \S+) (is )?protected\b`, `is locked([^ ]| [^u]|$)`), failure.Flash,
		locked, "",
	},
	{
		printed(`Could not find MEM-AP`), failure.Flash,
		"the chip answers, but its debug port has no access to the core: that of a locked chip has none (nRF52: APPROTECT)",
		"check the board's power; with a new chip, compare flash.scripts of the board file with its family",
	},
	{
		printed(`transfer fault`), failure.Flash,
		"the chip refuses access to its memory: it is locked against reading (STM32: RDP), or has no memory at that address",
		"compare memory of the board file with the chip; the manufacturer's tool shows whether the chip is locked",
	},
	{
		printed(
			`no (connected debug probe|debug probe|device found|J-Link device found|CMSIS-DAP device found)`, `open failed`,
			`unable to find (a matching )?(CMSIS-DAP|device|Nu-Link)`, `Failed to connect`, `Connection refused`,
			`No available debug probes`, `can't connect`, `couldn't connect`),
		failure.ProbeMissing, "no probe found",
		"plug it in; " + nextstep.Target("doctor") + " checks whether this user may open it",
	},
	{
		printed(
			`UNEXPECTED idcode`, `unexpected: 0x`, `Cannot identify target as`, `does not match`, `wrong target`),
		failure.Flash, "the chip is not the one in the board file", "",
	},
	{
		printed(
			`unable to connect to the target`, `cannot read IDR`, `DP initialisation failed`, `communication failure`,
			`Target not detected`, `scan chain interrogation failed`),
		failure.Flash, "the chip does not respond to the probe",
		"check the board's power and wiring, and that nothing holds the chip in reset",
	},
	{
		printed(`timed out while waiting for target`, `target (was )?not halted`), failure.Flash,
		"the core does not halt: firmware that sleeps or disables its debug pins can be halted only right after a reset", "",
	},
	{
		printed(
			`failed to erase`, `failed erasing`, `error erasing`, `erase sector failure`, `erase failed`,
			`(erase|sector) failure`),
		failure.Flash, "a sector could not be erased", "",
	},
	{
		printed(`error writing to flash`, `page failure`, `flash write failed`), failure.Flash,
		"the flash could not be written", "",
	},
	{
		printed(
			`Disconnected`, `Input/output error`, `unexpected response`, `remote.*(EOF|closed|lost|error)`,
			`remote_bitbang_recv_buf_empty`, `Error: Couldn't`, `connection (closed|lost|reset)`),
		failure.Flash, "the connection to the probe was lost", "",
	},
}

// portTaken matches the output of a server that cannot listen. Some run on.
var portTaken = printed(`couldn't bind .* to socket`, `address already in use`)

// printed matches a text that contains one of the patterns, in upper or lower case.
func printed(patterns ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)` + strings.Join(patterns, "|"))
}

// Lines of the output of openocd, pyocd and west: reports of what is done, which cause nothing, and errors.
var (
	reportLine = regexp.MustCompile(`(?m)^(Info *:|Debug *:|INFO:|DEBUG:|-- |\d+ [ID] |` + mark + `).*\n?`)
	errorLine  = regexp.MustCompile(`(?im)^.*(error|fatal).*$|^\d+ [CE] .*$`)
)

// causesIn returns a tool's output without reports, up to its last error. A report of a lock stays: for the tool it is
// no error, but what follows from it is.
func causesIn(text string) string {
	text = reportLine.ReplaceAllStringFunc(text, func(line string) string {
		if provesLock.MatchString(line) {
			return line
		}
		return ""
	})

	if all := errorLine.FindAllStringIndex(text, -1); len(all) > 0 {
		text = text[:all[len(all)-1][1]]
	}
	return text
}

// explain adds the class, the cause in plain words and advice to a command's error: probe-missing, flash, timeout or
// config. It returns other errors unchanged. The advice never contains the command to repeat: outside of the lease and
// the ledger, this would erase sectors that nobody counts.
func explain(err error) error {
	var c *command.Error
	if !errors.As(err, &c) {
		return err
	}

	var steps []string
	output := keepOutput(c)
	if output != "" {
		steps = []string{"its output is in " + output}
	}
	if errors.Is(err, command.ErrTooLong) {
		return failure.New(failure.Timeout, strings.Join(steps, ""), "the programmer hangs (%w)", err)
	}

	// Reports, and the consequences of an error, would match the patterns of other failures.
	shown := *c
	shown.Text = causesIn(c.Text)
	for _, f := range failurePatterns {
		if !f.printed.MatchString(shown.Text) {
			continue
		}
		if f.next != "" {
			steps = slices.Insert(steps, 0, f.next)
		}
		return failure.New(f.class, strings.Join(steps, "; "), "%s (%w)", f.hint, &shown)
	}
	return failure.New(failure.Flash, strings.Join(steps, ""), "%w", &shown)
}

const (
	outputName = "boardsmith-flash-*.txt"
	outputLife = time.Hour
)

// keepOutput writes the tool's output, of a long one its beginning and end, to a temporary file and returns its path:
// "" if the error's message has all of it or the file cannot be written. It removes files of runs an hour ago.
func keepOutput(c *command.Error) string {
	removeOldOutputs()
	text := strings.TrimSpace(c.Text)
	if text == c.LastLine() {
		return ""
	}

	f, err := os.CreateTemp("", outputName)
	if err != nil {
		return ""
	}

	_, err = f.WriteString(text + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name()) // best effort
		return ""
	}
	return f.Name()
}

func removeOldOutputs() {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), outputName)) // the pattern is valid
	for _, name := range old {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > outputLife {
			_ = os.Remove(name) // another user's file stays
		}
	}
}
