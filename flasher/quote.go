// This file quotes what comes from outside (a probe's serial, a board file's names) for the languages that the tools
// read.

package flasher

import (
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// tclSpecial are the characters that mean something between double quotes in Tcl: all others stand for themselves there
// (tcl-lang.org, Tcl(n), rules 4 and 7 to 9).
var tclSpecial = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, `[`, `\[`, `]`, `\]`)

// tclWord is s as one word of a Tcl command, which nothing in it ends or has executed. Every word of a command for
// OpenOCD that is not a constant of ours goes through it.
func tclWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=+.,/:@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return `"` + tclSpecial.Replace(s) + `"`
}

// option is an option with its value as one argument, for programs whose options Python's argparse reads (pyocd, west):
// a value that begins with a dash is no option of its own then.
func option(name, value string) string { return name + "=" + value }

// openocdScript are the arguments that have OpenOCD read a configuration file. Its option -f puts the name between
// braces.
func openocdScript(name string) []string {
	if word := tclWord(name); word != name {
		return []string{"-c", "script " + word}
	}
	return []string{"-f", name}
}

// pyocdUID is what pyOCD's option --uid takes for a probe: "" where there is nothing to choose. What is before the
// first colon pyOCD takes for a kind of probe, and one kind is a server on the network: a serial with a colon is
// refused, as is one that begins with a dash, for Zephyr's runner hands it on as an argument of its own, and one that
// another attached probe has: pyOCD has no other way to choose.
func (p Probe) pyocdUID() (string, error) {
	if p.Emulated != nil {
		return "remote:" + p.Emulated.Remote, nil
	}
	if p.Shared {
		return "", p.sharedBy("pyocd")
	}
	if strings.Contains(p.Serial, ":") || strings.HasPrefix(p.Serial, "-") {
		return "", failure.New(failure.Config, "use openocd for this probe",
			"pyocd does not take the probe's serial %q for one: it has a colon or begins with a dash", p.Serial)
	}
	return p.Serial, nil
}

// sharedBy is the error of a tool that tells probes apart by their serials alone.
func (p Probe) sharedBy(tool string) error {
	next := "unplug the other one"
	if tool != "openocd" {
		next += ", or use openocd with a probe that is no CMSIS-DAP: it chooses by USB path too"
	}
	return failure.New(failure.Config, next, "%s chooses a probe by its serial, and another attached one has the serial %q too", tool, p.Serial)
}
