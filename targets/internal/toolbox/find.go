// This file finds external programs: by a variable, on PATH, or in setup's folder.

package toolbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/statedir"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// variableOf returns the variable that holds a program's path, "" if there is none.
func variableOf(program string) string {
	for _, t := range tools {
		if t.Command[0] == program {
			return t.Path
		}
	}
	return ""
}

// Find returns the absolute path of a program: from its variable, else on PATH, else in setup's folder.
func Find(env func(string) string, name string) (string, error) {
	variable := variableOf(name)
	// A program that the user names is never replaced by another one.
	if v := env(variable); v != "" {
		path, err := exec.LookPath(v)
		if err != nil {
			return "", failure.Errorf(failure.ToolMissing, "%s=%s: %w", variable, v, err)
		}
		return abspath.Of(path), nil
	}

	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}

	return findPythonProgram(name)
}

// findPythonProgram returns the path of a program that setup installed.
func findPythonProgram(name string) (string, error) {
	dir, err := pythonDir()
	if err != nil {
		return "", err
	}

	path := filepath.Join(dir, pythonPrograms(), name)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}

	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return "", failure.New(failure.ToolMissing, nextstep.Target("setup"), "%s is not on PATH", name)
}

// Folder returns the folder in which targets install programs.
func Folder() (string, error) {
	state, err := statedir.Path()
	if err != nil {
		return "", fmt.Errorf("tools: %w", err)
	}
	return filepath.Join(state, "tools"), nil
}

// pythonDir returns the virtual environment that setup makes for tools written in Python.
func pythonDir() (string, error) {
	dir, err := Folder()
	return filepath.Join(dir, "py"), err
}

// pythonPrograms returns the name of the folder of programs in a virtual environment.
func pythonPrograms() string {
	if runtime.GOOS == "windows" {
		return "Scripts"
	}
	return "bin"
}
