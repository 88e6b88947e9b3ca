// This file finds out by which command the user runs targets, for advice that can be typed as it is printed.

package console

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

var (
	// mage names the program that it makes of a magefile after a SHA-1 or SHA-256 digest.
	magesOwn = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?(\.exe)?$`)

	// A line of go.mod, in a tool block or not, that has mage as a tool of the module.
	mageTool = regexp.MustCompile(`(?m)^(tool)?[ \t]+github\.com/magefile/mage[ \t]*(//.*)?$`)
)

// Mage returns the command line that runs targets: "go tool mage build run" for "build run", in a module with that
// tool.
func (c *Console) Mage(targets string) string { return c.mage + " " + targets }

// NextStep returns the advice of err, with the command that runs targets here.
func (c *Console) NextStep(err error) string { return failure.NextFor(err, c.mage) }

// mageCommand returns the command that runs targets in a folder, from the path of this program: the program itself
// if mage -compile made it, else go tool mage if the folder's module has that tool, else mage.
func mageCommand(program, dir string) string {
	switch {
	case !magesOwn.MatchString(filepath.Base(program)):
		return typed(program)
	case mageTool.MatchString(goMod(dir)):
		return "go tool mage"
	}
	return "mage"
}

// typed returns a program's name if PATH finds it, else its path.
func typed(program string) string {
	if found, err := exec.LookPath(filepath.Base(program)); err == nil && found == program {
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
