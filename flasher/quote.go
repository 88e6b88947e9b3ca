// This file quotes external text (a probe's serial, names in a board file) for the tools' languages.

package flasher

import (
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// tclSpecial lists the characters with a special meaning between double quotes in Tcl (tcl-lang.org, Tcl(n), rules
// 4 and 7 to 9).
var tclSpecial = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, `[`, `\[`, `]`, `\]`)

// tclWord quotes s as one word of a Tcl command, without substitution. Use it for every word of an OpenOCD command
// that is not a constant.
func tclWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=+.,/:@%", r)
	}

	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return `"` + tclSpecial.Replace(s) + `"`
}

// option joins an option and its value into one argument, for programs that use Python's argparse (pyocd, west), so
// that a value with a leading dash is not parsed as an option.
func option(name, value string) string { return name + "=" + value }

// openocdScript returns the arguments that make OpenOCD read a configuration file. Its option -f would put the name
// between braces.
func openocdScript(name string) []string {
	if word := tclWord(name); word != name {
		return []string{"-c", "script " + word}
	}
	return []string{"-f", name}
}

// pyocdUID returns the value of pyOCD's option --uid for a probe, or "" if there is only one. It returns an error
// for a serial with a colon (pyOCD would interpret the text before it as a kind of probe, which may be a network
// server), for one with a leading dash, and for one that another attached probe has too (pyOCD cannot distinguish
// them).
func (p Probe) pyocdUID() (string, error) {
	if p.Emulated != nil {
		return "remote:" + p.Emulated.Remote, nil
	}
	if p.Shared {
		return "", p.sharedSerialError("pyocd",
			", or use openocd with a probe other than CMSIS-DAP, which it can select by USB path")
	}
	if strings.Contains(p.Serial, ":") || strings.HasPrefix(p.Serial, "-") {
		return "", failure.New(failure.Config, "use openocd for this probe",
			"pyocd does not support the probe's serial %q: it has a colon or begins with a dash", p.Serial)
	}
	return p.Serial, nil
}

// sharedSerialError returns the error for a tool that distinguishes probes by their serials only, with an alternative
// to unplugging the other one.
func (p Probe) sharedSerialError(tool, instead string) error {
	return failure.New(failure.Config, "unplug the other one"+instead,
		"%s selects probes by serial, and another attached one also has the serial %q", tool, p.Serial)
}
