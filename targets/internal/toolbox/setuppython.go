// This file installs tools that are written in Python.

package toolbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/targets/internal/console"
)

// installPython installs programs written in Python into setup's virtual environment. It recreates an incomplete
// environment with the programs that it contained. It returns what it installed.
func installPython(ctx context.Context, c *console.Console, list []Tool) ([]string, error) {
	dir, err := pythonDir()
	if err != nil {
		return nil, err
	}

	python := filepath.Join(dir, pythonPrograms(), "python")

	var steps [][]string
	if !isWhole(ctx, dir, python) {
		// --clear removes the other programs, too, which are then installed again.
		steps = append(steps, []string{"python3", "-m", "venv", "--clear", dir})
		list = append(list, others(list)...)
	}

	var names []string
	for _, t := range list {
		names = append(names, strings.Fields(t.Python)...)
	}

	pip := []string{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"}
	steps = append(steps, append(pip, names...))

	if c.DryRun {
		var lines []string
		for _, step := range steps {
			lines = append(lines, command.Command{Path: step[0], Args: step[1:]}.Typed())
		}
		return nil, c.Would("run: %s", strings.Join(lines, "; "))
	}

	if err := installInto(ctx, c, dir, steps); err != nil {
		how := "install them on PATH by hand: " + strings.Join(names, " ")
		return nil, failure.New(failure.ToolMissing, how, "%w", err)
	}

	return names, nil
}

// installInto runs the steps that change the environment in dir. The environment is marked as unfinished until all
// have succeeded, because an interrupted one looks complete.
func installInto(ctx context.Context, c *console.Console, dir string, steps [][]string) error {
	mark := unfinished(dir)
	if err := os.MkdirAll(filepath.Dir(mark), 0o755); err != nil {
		return fmt.Errorf("tools: %w", err)
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		return fmt.Errorf("tools: %w", err)
	}

	for _, step := range steps {
		c.Notef("running %s", command.Command{Path: step[0], Args: step[1:]}.Typed())
		if err := runTool(ctx, c, step); err != nil {
			return err
		}
	}

	if err := os.Remove(mark); err != nil {
		return fmt.Errorf("tools: %w", err)
	}
	return nil
}

// unfinished is the file that marks an environment that is being changed, or whose last change failed.
func unfinished(dir string) string { return dir + ".unfinished" }

// isWhole reports whether packages can be added to the environment in dir: its last change succeeded, and its pip runs.
// After an upgrade of the system's python3, it does not.
func isWhole(ctx context.Context, dir, python string) bool {
	if _, err := os.Stat(unfinished(dir)); err == nil {
		return false
	}

	// A broken interpreter may hang.
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, python, "-m", "pip", "--version").Run() == nil
}

// lacking returns an error if a tool of several packages lies in setup's environment without one of them. The program
// is one package's, and an earlier boardsmith may have needed no more.
func lacking(ctx context.Context, t Tool, program string) error {
	packages := strings.Fields(t.Python)
	if own, err := findPythonProgram(t.Command[0]); len(packages) < 2 || err != nil || own != program {
		return nil
	}

	// Without an index, pip finds only what is installed.
	args := []string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"}
	pip := exec.CommandContext(ctx, filepath.Join(filepath.Dir(program), "python"), append(args, packages...)...)
	if out, err := pip.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("a package of %s is missing: %w: %s", t.Python, err, first)
	}
	return nil
}

// others lists the tools in setup's environment, except the wanted ones.
func others(wanted []Tool) []Tool {
	var others []Tool
	for _, t := range tools {
		isWanted := slices.ContainsFunc(wanted, func(l Tool) bool { return l.Python == t.Python })
		if _, err := findPythonProgram(t.Command[0]); err == nil && byPython(t) && !isWanted {
			others = append(others, t)
		}
	}
	return others
}
