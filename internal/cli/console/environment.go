// This file reads environment variables, and removes a run's inputs from the environment of its child processes.

package console

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// An Environ reads environment variables. An empty one counts as unset.
type Environ func(string) string

// On reports whether a switch is on: set to anything but 0, false, no or off.
func (e Environ) On(name string) bool {
	switch strings.ToLower(e(name)) {
	case "", "0", "false", "no", "off":
		return false
	}
	return true
}

// Inputs returns the variables that the targets read, and their values.
func (e Environ) Inputs() map[string]string {
	values := map[string]string{}
	for name := range isInput {
		values[name] = e(name)
	}
	return values
}

// ToolEnv returns the environment without the inputs of this run; tests set their own.
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

// readers lists the targets that read a variable whose lack of effect would mislead: a user who sets it believes that
// outputs are compared, or that another firmware runs.
var readers = map[string][]string{
	"EXPECT": {"report", "reproduce", "tune", "validate"}, // the first two take what tune was given
	"LABELS": {"validate"}, "COMPARE": {"validate"}, "ACCURACY": {"validate"},
	"CONFIRM": {"report", "reproduce", "tune"},
	"LOAD":    {"build", "demo", "generate", "size", "validate", "run"}, // build and the like write to no board
}

// checkInputs returns an error for a variable that no target on the command line reads. Targets that a magefile's own
// target calls are not checked: what it reads is unknown.
func (c *Console) checkInputs() error {
	var typed []string
	for _, arg := range c.args {
		if name, _, ok := strings.Cut(arg, "="); ok && isInput[name] {
			return failure.New(failure.Config, "write it before the command: "+arg+" "+c.Mage(c.step),
				"%s is no target: inputs are environment variables", arg)
		}
		typed = append(typed, strings.TrimPrefix(strings.ToLower(arg), c.prefix()))
	}
	if !slices.Contains(typed, c.step) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(readers)) {
		isTyped := func(target string) bool { return slices.Contains(typed, target) }
		if c.Env(name) == "" || slices.ContainsFunc(readers[name], isTyped) {
			continue
		}
		return failure.New(failure.Config, "leave it out, or run "+c.Mage(readers[name][len(readers[name])-1]),
			"%s=%s has no effect on %s: it is for %s", name, c.Env(name), c.step, strings.Join(readers[name], ", "))
	}
	return nil
}

// isInput lists the variables that the targets read.
var isInput = map[string]bool{
	"BOARD": true, "MODEL": true, "PROJECT": true, "TEMPLATE": true, "OPTIONS": true, "TARGET": true, "TIMEOUT": true,
	"INPUT": true, "OUTPUT": true, "REPEAT": true, "VERBOSE": true, "JSON": true, "FORCE": true, "DRYRUN": true,
	"FRESH":      true,
	"CANDIDATES": true, "SPACE": true, "PROPOSER": true, "TRIALS": true, "EXPECT": true, "RUN": true, "CSV": true,
	"LOAD": true, "CONFIRM": true, "ID": true, "SHORT": true, "BY": true, "PARAMS": true, "FROM": true,
	"CHECK": true, "MODEL_NAME": true, "SEED": true, "FUZZTIME": true, "BOARDSMITH_PATH": true, "BOARDSMITH_LEDGER": true,
	"DEVICE": true, "PROGRAMMER": true, "IMAGE": true, "WAIT": true, "SAVE": true, "NAME": true, "CACHE_MIB": true,
	"RELEASE": true, "LIBRARIES": true, "SCRIPT": true, "SVD": true, "EXCEPT": true, "APP": true, "FIXED_INPUT": true,
	"BAUD": true, "RESET": true, "TIMESTAMPS": true, "LOG": true, "ATTACH": true, "SERVE": true,
	"PLACE": true, "LABELS": true, "COMPARE": true, "ACCURACY": true, "PRODUCT": true, "VERSION": true,
	"RETRY": true, "TRACKER": true, "KEY": true, "LISTEN": true, "ALLOW": true,
}
