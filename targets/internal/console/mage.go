// This file determines the command with which the user runs targets, for advice that can be pasted.

package console

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

var (
	// mage names the program that it makes of a magefile after a SHA-1 or SHA-256 digest.
	magesOwn = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?(\.exe)?$`)

	// A line of go.mod, in a tool block or not, that has mage as a tool of the module.
	mageTool = regexp.MustCompile(`(?m)^(tool)?[ \t]+github\.com/magefile/mage[ \t]*(//.*)?$`)
)

// Mage returns the command line that runs targets: "go tool mage build run" for "build run", in a module with that
// tool, and "mage bs:build bs:run" for a magefile that imports the targets as bs.
func (c *Console) Mage(targets string) string {
	prefix := c.prefix()

	words := strings.Fields(targets)
	for i, w := range words {
		words[i] = prefix + w
	}
	return c.mage + " " + strings.Join(words, " ")
}

// NextStep returns the advice of err, with what the user types for its options and targets.
func (c *Console) NextStep(err error) string { return failure.NextFor(err, c.typedOption, c.Mage) }

// variables are the inputs for options of the Go API, as package failure's Option names them.
var variables = map[string]string{
	"Options.Rule":     "COMPARE", // of package measure
	"Options.Timeout":  "TIMEOUT", // of package measure
	"Options.Samples":  "REPEAT",  // of package measure
	"Options.Memory":   "OPTIONS", // of package tune
	"Desk.Programmer":  "PROGRAMMER",
	"Debugging.Attach": "ATTACH", "Debugging.Timeout": "TIMEOUT", "Monitoring.Baud": "BAUD",
	"Desk.Reflash":   "FORCE",
	"Files.Names":    "INPUT", // of package measure
	"Host.Path":      "BOARDSMITH_PATH",
	"Desk.Wait":      "WAIT",
	"Spec.Board":     "BOARD",
	"Spec.Model":     "MODEL",
	"Spec.Force":     "FORCE",
	"Spec.ModelName": "MODEL_NAME",
	"Spec.Options":   "OPTIONS",
	"Spec.Libraries": "LIBRARIES",
	"Spec.Template":  "TEMPLATE",
	"deadline":       "TIMEOUT", // of a call's context
	"which":          "DEVICE",  // of Desk.Attach
	"dir":            "PROJECT", // of Builder.Generate
}

// saveDevices is the option that is a target with an input.
const saveDevices = "DeskFile.Note"

func (c *Console) typedOption(name, value string) string {
	if name == saveDevices {
		return "SAVE=1 " + c.Mage("devices")
	}

	switch {
	case name == "Files.Names":
		return "INPUT=" + command.Quote("PATH "+value)
	case name == "Spec.Options":
		value = c.withOption(value)
	case value == "true":
		value = "1"
	}
	return variables[name] + "=" + command.Quote(value)
}

// withOption returns OPTIONS with another value of one option, because OPTIONS replaces all options of a project.
func (c *Console) withOption(option string) string {
	name, _, _ := strings.Cut(option, "=")
	words := slices.DeleteFunc(strings.Fields(c.Env("OPTIONS")), func(word string) bool {
		return strings.HasPrefix(word, name+"=")
	})
	return strings.Join(append(words, option), " ")
}

// prefix returns what precedes the names of targets, as the user called the running one: "bs:" if a magefile imports
// them as bs, else "".
func (c *Console) prefix() string {
	for _, arg := range c.args {
		if alias, ok := strings.CutSuffix(strings.ToLower(arg), ":"+c.step); ok {
			return alias + ":"
		}
	}
	return ""
}

// IsOfMage reports whether mage has just made this program from the sources. Another one is as old as it is.
func (c *Console) IsOfMage() bool { return c.ofMage }

// mageCommand returns the command that runs targets in a folder, from the path of this program: the program itself
// if mage -compile made it, else go tool mage if the folder's module has that tool, else mage.
func mageCommand(program, dir string) string {
	switch {
	case !magesOwn.MatchString(filepath.Base(program)):
		return command.Quote(typed(program))
	case mageTool.MatchString(goMod(dir)):
		return "go tool mage"
	}
	return "mage"
}

// typed returns a program's name if PATH finds it, else its path.
func typed(program string) string {
	if path, err := exec.LookPath(filepath.Base(program)); err == nil && path == program {
		return filepath.Base(program)
	}
	return program
}

// goMod returns the text of the go.mod of a folder's module, or "".
func goMod(dir string) string {
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			return strings.ReplaceAll(string(text), "\r\n", "\n")
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
