// This file reads environment variables, and removes a run's inputs from the environment of its child processes.

package console

import (
	"os"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// Env returns a variable of the environment. An empty one counts as unset, and so does a value of another system.
func (c *Console) Env(name string) string {
	if slices.Contains(c.others, name) {
		return ""
	}
	return c.env(name)
}

// IsOn reports whether the text of a switch is on: set to anything but 0, false, no or off.
func IsOn(text string) bool {
	switch strings.ToLower(text) {
	case "", "0", "false", "no", "off":
		return false
	}
	return true
}

// ToolEnv returns the environment without the inputs of this run; tests set their own.
func ToolEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if readers[name] == nil && !strings.HasPrefix(name, "MAGEFILE_") {
			env = append(env, v)
		}
	}
	return env
}

// misleading lists variables whose lack of effect would mislead: a user who sets one believes that outputs are
// compared, or that another firmware runs.
var misleading = []string{"ACCURACY", "BASELINE", "COMPARE", "CONFIRM", "EXPECT", "IMAGE", "LABELS", "LIMITS", "LOAD"}

// typed returns the words of the command line that are no flags: targets as mage has them, and their arguments.
func (c *Console) typed() (words []string) {
	for _, arg := range c.args {
		if !strings.HasPrefix(arg, "-") {
			words = append(words, strings.TrimPrefix(strings.ToLower(arg), c.prefix()))
		}
	}
	return words
}

// checkInputs returns an error for a variable that no target on the command line reads. Targets that a magefile's own
// target calls are not checked: what it reads is unknown.
func (c *Console) checkInputs() error {
	for _, arg := range c.args {
		if name, _, ok := strings.Cut(arg, "="); ok && readers[name] != nil {
			return failure.New(failure.Config, "write it before the command: "+arg+" "+c.Mage(c.step),
				"%s is no target: inputs are environment variables", arg)
		}
	}

	typed := c.typed()
	if !slices.Contains(typed, c.step) {
		return nil
	}

	for _, name := range misleading {
		targets := readers[name]
		isTyped := func(target string) bool { return slices.Contains(typed, target) }
		ofRun := slices.Contains(targets, "tune") && (c.step == "report" || c.step == "reproduce") // what was tuned with it
		if c.Env(name) == "" || ofRun || slices.ContainsFunc(targets, isTyped) {
			continue
		}
		return failure.New(failure.Config, "leave it out, or run "+c.Mage(targets[len(targets)-1]),
			"%s=%s has no effect on %s: it is for %s", name, c.Env(name), c.step, strings.Join(targets, ", "))
	}
	return nil
}
