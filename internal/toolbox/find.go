// This file finds other people's programs: by a variable of their own, on PATH, or where setup installed them.

package toolbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/console"
	"github.com/boardsmith/boardsmith/internal/ledger"
)

// variables name programs by their paths. Compilers and emulators are found on PATH only.
var variables = map[string]string{"openocd": "OPENOCD", "pyocd": "PYOCD", "west": "WEST", "gdb-multiarch": "GDB"}

// Find returns the path of a program: what its variable says, else the one on PATH, else setup's own.
func Find(env console.Environ, name string) (string, error) {
	if v := env(variables[name]); v != "" {
		path, err := exec.LookPath(v)
		if err != nil {
			return "", failure.New(failure.ToolMissing, "", "%s=%s: %w", variables[name], v, err)
		}
		return path, nil
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
	return "", failure.New(failure.ToolMissing, failure.Mage+" setup", "%s is not on PATH", name)
}

// Folder is where targets install programs.
func Folder() (string, error) {
	state, err := ledger.StateDir()
	if err != nil {
		return "", fmt.Errorf("tools: %w", err)
	}
	return filepath.Join(state, "tools"), nil
}

// pythonDir is the virtual environment that setup makes for tools written in Python.
func pythonDir() (string, error) {
	dir, err := Folder()
	return filepath.Join(dir, "py"), err
}

// pythonPrograms is the folder of programs in a virtual environment.
func pythonPrograms() string {
	if runtime.GOOS == "windows" {
		return "Scripts"
	}
	return "bin"
}
