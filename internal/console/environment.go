// This file reads environment variables, and keeps those of this run from the programs that it starts.

package console

import (
	"os"
	"strings"
)

// An Environ reads environment variables. An empty one is as good as none.
type Environ func(string) string

// On says whether a switch is on: anything but 0, false, no and off.
func (e Environ) On(name string) bool {
	switch strings.ToLower(e(name)) {
	case "", "0", "false", "no", "off":
		return false
	}
	return true
}

// ToolEnv is the environment without the inputs of this run: the tests choose their own.
func ToolEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !isInput[name] && !strings.HasPrefix(name, "MAGEFILE_") {
			env = append(env, v)
		}
	}
	return env
}

// isInput are the variables that the targets read.
var isInput = map[string]bool{
	"BOARD": true, "MODEL": true, "PROJECT": true, "TEMPLATE": true, "OPTIONS": true, "TARGET": true, "TIMEOUT": true,
	"INPUT": true, "OUTPUT": true, "REPEAT": true, "VERBOSE": true, "JSON": true, "FORCE": true, "DRYRUN": true,
	"CHECK": true, "MODULE": true, "SEED": true, "FUZZTIME": true, "BOARDSMITH_PATH": true, "BOARDSMITH_LEDGER": true,
	"DEVICE": true, "FLASHER": true, "IMAGE": true, "WAIT": true, "SAVE": true, "NAME": true, "CACHE_MIB": true,
	"RELEASE": true,
}
