// This file reads environment variables, and keeps those of this run from the programs that it starts.

package console

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
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
		if !isInput[name] && renamed[name] == "" && !strings.HasPrefix(name, "MAGEFILE_") {
			env = append(env, v)
		}
	}
	return env
}

// renamed are variables of earlier versions, and what they are called now.
var renamed = map[string]string{"FLASHER": "PROGRAMMER", "MODULE": "MODEL_NAME"}

// checkNames refuses variables of earlier versions: unread, they would be a user's wish that nobody hears.
func (e Environ) checkNames() error {
	for _, old := range slices.Sorted(maps.Keys(renamed)) {
		if e(old) != "" {
			return failure.New(failure.Config, "unset "+old, "%s is now %s", old, renamed[old])
		}
	}
	return nil
}

// isInput are the variables that the targets read.
var isInput = map[string]bool{
	"BOARD": true, "MODEL": true, "PROJECT": true, "TEMPLATE": true, "OPTIONS": true, "TARGET": true, "TIMEOUT": true,
	"INPUT": true, "OUTPUT": true, "REPEAT": true, "VERBOSE": true, "JSON": true, "FORCE": true, "DRYRUN": true,
	"CHECK": true, "MODEL_NAME": true, "SEED": true, "FUZZTIME": true, "BOARDSMITH_PATH": true, "BOARDSMITH_LEDGER": true,
	"DEVICE": true, "PROGRAMMER": true, "IMAGE": true, "WAIT": true, "SAVE": true, "NAME": true, "CACHE_MIB": true,
	"RELEASE": true,
}
