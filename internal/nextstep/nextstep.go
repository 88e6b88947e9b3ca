// Package nextstep names options and targets in advice as data, since a Go program, a command line and TVM's Python
// call them by different names. Package failure fills the names in.
package nextstep

import (
	"net/url"
	"regexp"
)

// Option names an option: a field of this module's Go API such as "Desk.Reflash", a call such as "DeskFile.Note" or a
// parameter such as "which", with the value to give it, "" of a call.
func Option(name, value string) string {
	if value == "" {
		return "{option:" + name + "}"
	}
	return "{option:" + name + "=" + url.QueryEscape(value) + "}"
}

// Target names a mage target, as in Target("devices") + " lists the ports". How it is called differs: mage, go tool
// mage or a compiled magefile, and the name under which a magefile imports the targets.
func Target(name string) string { return "{target:" + name + "}" }

var named = regexp.MustCompile(`\{(option|target):([^{}=]+)(?:=([^{}=]*))?\}`)

// Fill replaces the names in an advice by the texts that option and target return.
func Fill(advice string, option func(name, value string) string, target func(name string) string) string {
	return named.ReplaceAllStringFunc(advice, func(text string) string {
		m := named.FindStringSubmatch(text)
		if m[1] == "target" {
			return target(m[2])
		}

		value, err := url.QueryUnescape(m[3])
		if err != nil {
			value = m[3] // not of Option
		}
		return option(m[2], value)
	})
}
