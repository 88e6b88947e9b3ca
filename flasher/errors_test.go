package flasher

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

// TestHints: the cause is named in plain words, and the programmer's own words are kept.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		says  string
		class failure.Class
		hint  string
	}{
		{"Error: libusb_open() failed with LIBUSB_ERROR_ACCESS\nError: open failed", failure.ProbeMissing, "udev"},
		{"Error: libusb_claim_interface() failed with LIBUSB_ERROR_BUSY\nError: open failed", failure.ProbeMissing, "busy"},
		{"Error: open failed", failure.ProbeMissing, "no probe"},
		{"No available debug probes are connected", failure.ProbeMissing, "no probe"},
		{"usb.core.USBError: [Errno 13] Access denied (insufficient permissions)", failure.ProbeMissing, "udev"},
		{
			"Error: target voltage may be too low for reliable debugging\n" +
				"Error: init mode failed (unable to connect to the target)",
			failure.ProbeMissing, "power",
		},
		{
			"Info : Target voltage: 3.260465\nError: init mode failed (unable to connect to the target)", failure.Flash,
			"does not respond",
		},
		{"pyocd.core.exceptions.TransferError: SWD/JTAG communication failure (No ACK)", failure.Flash, "does not respond"},
		{"Warn : JTAG tap: stm32f4x.cpu       UNEXPECTED idcode: 0x0bb11477", failure.Flash, "not the one in the board file"},
		{"Error: Flash sector 3 is protected", failure.Flash, "locked"},
		{"nRF52 APPROTECT enabled: not automatically unlocking", failure.Flash, "locked"},
		{"Warn : [nrf51.cpu] core 0 is locked up.\nError: strange", failure.Flash, ""},
		{"0001 C flash erase sector failure (address 0x00000400; result code 0x1)", failure.Flash, "could not be erased"},
		{"0001 C flash program page failure (address 0x00000400; result code 0x1)", failure.Flash, "could not be written"},
		{"Error: timed out while waiting for target halted", failure.Flash, "does not halt"},
		{"0000 C Target type stm32f746zg not recognized. Use 'pyocd list --targets'", failure.Config, "does not support"},
		{"embedded:startup.tcl:28: Error: Can't find support/of the board.cfg", failure.Config, "scripts"},
		{"FATAL ERROR: runner jlink does not support command flash", failure.Config, "the runner"},
		{"FATAL ERROR: runner jlink received unknown arguments: ['--x']", failure.Config, "the runner"},
		{"FATAL ERROR: invalid runner name a; choices: jlink, openocd", failure.Config, "the runner"},
		{"FATAL ERROR: required program JLinkExe not found; install it", failure.ToolMissing, "not installed"},
		{"Info : RDP level 0 (0xAA)\nError: error writing to flash at address 0x08000000", failure.Flash, "not be written"},
		{"Info : RDP level 0.5 (0x55)\nError: failed erasing sectors 0 to 3", failure.Flash, "could not be erased"},
		{"Info : RDP level 1 (0xBB)\nError: failed erasing sectors 0 to 3", failure.Flash, "locked"},
		{"Info : Readout protection level 2\nError: failed erasing sectors 0 to 3", failure.Flash, "locked"},
		{"0000412 I Readout protection: off [x]\n0001 C flash erase sector failure", failure.Flash, "could not be erased"},
		{"Do not enable UICR APPROTECT.\nError: error writing to flash at address 0", failure.Flash, "not be written"},
		{
			"Error: Could not find MEM-AP to control the core\nWarn : target nrf52.cpu examination failed", failure.Flash,
			"no access to the core",
		},
		{
			"0000414 I Loading /is locked/firmware.elf [load_cmd]\n" +
				"0000545 C Memory transfer fault (read) @ 0x08000000-0x0800003f",
			failure.Flash, "refuses access",
		},
		{"something else", failure.Flash, ""},
	} {
		err := explain(&command.Error{Tool: "tool", Text: c.says, Command: "tool -x", Err: errors.New("exit status 1")})
		hint, _, _ := strings.Cut(err.Error(), "tool: ")
		if failure.Of(err) != c.class || !strings.Contains(hint, c.hint) || (c.hint == "") != (hint == "") {
			t.Errorf("%s: %s, class %s", c.says, hint, failure.Of(err))
		}
		own := c.says[strings.LastIndex(c.says, "\n")+1:]
		if i := strings.Index(c.says, "\nWarn"); i > 0 {
			own = c.says[:i]
		}
		if !strings.Contains(err.Error(), own) || strings.Contains(failure.Next(err), "tool -x") {
			t.Errorf("%s: its own words are lost, or a hint repeats it: %v; %s", c.says, err, failure.Next(err))
		}
		isProved := strings.Contains(c.says, " level 1") || strings.Contains(c.says, " level 2") ||
			strings.Contains(c.says, "APPROTECT enabled")
		wantEqual(t, strings.Contains(failure.Next(err), "erases"), isProved, c.says)
	}
}

// TestReportsHideNoError: what a programmer reports after its error is not shown as the error.
func TestReportsHideNoError(t *testing.T) {
	const cause = "Error: address range 0x00008000 .. 0x000080ff is not sector-aligned"
	for _, says := range []string{
		"Info : starting\n" + cause + "\nInfo : remote_bitbang interface quit\n",
		cause + "\nWarn : strange\n" + mark + "connected\nInfo : remote_bitbang interface quit",
		"0000414 I Loading [load_cmd]\n" + cause + "\n0000545 I done [__main__]",
	} {
		err := explain(&command.Error{Tool: "tool", Text: says, Err: errors.New("exit status 1")})
		wantEqual(t, err.Error(), "tool: exit status 1: "+cause, says)
	}
}

// OpenOCD's comparison ends with an error at its first difference, or at the first segment if it lists none.
func TestOpenOCDDifference(t *testing.T) {
	const two = "diff 0 address 0x00000410. Was 0x0a instead of 0xff\n" +
		"diff 1 address 0x00000411. Was 0x0b instead of 0xff\n"
	verify := Job{Verify: []Segment{{0x400, make([]byte, 64)}}}
	for _, c := range []struct {
		says string
		job  Job
		want string
	}{
		{two + "Error: contents differ", verify, "verify: read 0x0a at 0x00000410 instead of 0xff (2 bytes differ)"},
		{"Error: contents differ", verify, "verify: memory at or after 0x00000400 differs from what was written"},
		{"Error: contents differ", Job{}, "openocd: exit status 1: Error: contents differ"},
		{"Error: open failed", verify, "no probe found (openocd: exit status 1: Error: open failed)"},
	} {
		err := openocdError(&command.Error{Tool: "openocd", Text: c.says, Err: errors.New("exit status 1")}, c.job)
		if err == nil || err.Error() != c.want || (failure.Of(err) == failure.Verify) != strings.HasPrefix(c.want, "verify") {
			t.Errorf("%q of %d segments: %v", c.says, len(c.job.Verify), err)
		}
	}
	must(t, openocdError(nil, verify))
}

// A run that changes the flash of a board with an identification register has failed unless the tool reported the
// comparison as done.
func TestComparisonIsAStep(t *testing.T) {
	for _, register := range []uint64{0, 0xe0042000} {
		c := Config{Chip: boards.Identification{
			Address: boards.Number(register), Mask: 0xfff, Values: []boards.Number{0x434},
		}}
		for name, job := range map[string]Job{
			"erases": {Erase: []boards.Sector{{Size: 1024}}}, "compares only": {Verify: []Segment{{0, []byte{1}}}},
		} {
			var openocd toolRun
			c.openocdSteps(&openocd, job)
			pyocd, err := (&pyocd{c}).plan(job)
			must(t, err)
			want := register != 0 && name == "erases"
			for tool, marks := range map[string][]string{"openocd": openocd.marks, "pyocd": pyocd.marks} {
				wantEqual(t, slices.Contains(marks, identified), want, tool, register, name)
			}
		}
	}
}
