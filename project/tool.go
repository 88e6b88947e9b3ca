// This file runs compilers and build tools: in an environment made for them, in a process group of their own, and
// with an end.

package project

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
)

const (
	tailBytes  = 4 << 10         // kept of the end of a tool's standard error
	headBytes  = 64 << 10        // kept of its beginning, where the first error is
	toolGrace  = 3 * time.Second // to clean up after a cancel
	askTimeout = 20 * time.Second
)

// A ToolError is an external command that failed.
type ToolError struct {
	Tool    string
	Class   failure.Class // compile, link or does-not-fit
	Message string        // the first error it printed, with the source line; "" if it printed none
	Tail    []byte        // the last 4 KiB of its standard error
	Command string        // runs it again, in a shell
	Err     error         // how it ended
}

func (e *ToolError) Error() string {
	what := e.Message
	if what == "" {
		what = strings.TrimSpace(string(e.Tail))
	}
	if what == "" {
		return e.Tool + ": " + e.Err.Error()
	}
	return e.Tool + ": " + e.Err.Error() + "\n" + what
}

// Unwrap returns how it ended.
func (e *ToolError) Unwrap() error { return e.Err }

// FailureClass says whether compiling or linking failed.
func (e *ToolError) FailureClass() failure.Class { return e.Class }

// NextStep is the command that reproduces it.
func (e *ToolError) NextStep() string { return "to see it again: " + e.Command }

// toolEnv is what a tool sees of the environment; dir is its working folder.
func toolEnv(dir string) []string {
	env := []string{"LC_ALL=C", "PWD=" + dir}
	for _, name := range append([]string{"PATH", "HOME", "TMPDIR"}, systemVariables...) {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// findTool returns the path of a program: *MissingToolError.
func findTool(name, install string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &MissingToolError{name, install}
	}
	return path, nil
}

// MissingTools lists what the board needs and this computer has not: its compiler and what comes with that, and its
// emulator. The template's own tools are not among them.
func MissingTools(b *boards.Board) (compiler, emulator []*MissingToolError) {
	need := []string{b.Toolchain.CC, b.Toolchain.AR}
	if len(b.Memory) > 0 {
		need = append(need, b.Toolchain.Objcopy())
	}
	for _, name := range need {
		if _, err := exec.LookPath(name); err != nil {
			compiler = append(compiler, &MissingToolError{name, b.Toolchain.Install})
		}
	}
	if name := b.Link.Program; name != "" {
		if _, err := exec.LookPath(name); err != nil {
			emulator = append(emulator, &MissingToolError{name, b.Link.Install})
		}
	}
	return compiler, emulator
}

func toolCommand(ctx context.Context, dir, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = dir, toolEnv(dir)
	ownGroup(cmd)
	cmd.Cancel = func() error { return interruptGroup(cmd) }
	cmd.WaitDelay = toolGrace
	return cmd
}

// pinned runs a command on a thread that stays: the kernel ends a child with the thread that started it (ownGroup).
func pinned(run func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return run()
}

// A toolRun is one run of a build tool.
type toolRun struct {
	dir  string // working folder
	path string // of the program
	args []string
	held *os.File     // kept open by all processes of the run; nil: none
	log  hclog.Logger // takes the lines of standard output
	line func(string) // and so does this
}

// run runs it to its end. A *ToolError, or ctx's error after a cancel; then the whole process group is gone.
func (r toolRun) run(ctx context.Context) error {
	var stdout lineWriter
	var stderr outputKeeper
	stdout.line = func(s string) {
		r.log.Debug("tool", "out", s)
		r.line(s)
	}
	cmd := toolCommand(ctx, r.dir, r.path, r.args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	hold(cmd, r.held)
	err := pinned(cmd.Run)
	if err == nil {
		return nil
	}
	killGroup(cmd) // what outlived its leader
	if ctx.Err() != nil {
		return fmt.Errorf("build: %w", context.Cause(ctx))
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return fileError("run", r.path, err)
	}
	text := stderr.text()
	return &ToolError{
		Tool: toolName(r.path), Class: classify(text), Message: firstError(text), Tail: stderr.tail,
		Command: shellCommand(r.dir, toolName(r.path), r.args), Err: err,
	}
}

// toolName is how people call the program.
func toolName(path string) string {
	return strings.TrimSuffix(path[strings.LastIndexAny(path, `/\`)+1:], ".exe")
}

func shellCommand(dir, tool string, args []string) string {
	words := []string{"cd", shellWord(dir), "&&", tool}
	for _, a := range args {
		words = append(words, shellWord(a))
	}
	return strings.Join(words, " ")
}

var (
	noRoom     = regexp.MustCompile(`region .* overflowed by|will not fit in region|not enough room for`)
	linkFailed = regexp.MustCompile(`undefined reference|multiple definition|ld returned|linker command failed|cannot find -l|ld: error|collect2: error`)
	errorLine  = regexp.MustCompile(`(?i)(^|[: ])(fatal )?error: |undefined reference|multiple definition|overflowed by|^make: \*\*\*|cannot find`)
	sourceLine = regexp.MustCompile(`^\s*(\d+ )?\s*\|`)
)

// classify tells from a tool's messages which step failed.
func classify(text string) failure.Class {
	switch {
	case noRoom.MatchString(text):
		return failure.DoesNotFit
	case linkFailed.MatchString(text):
		return failure.Link
	default:
		return failure.Compile
	}
}

// firstError is the first error a compiler, linker or make printed, with the source lines shown below it.
func firstError(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if !errorLine.MatchString(l) {
			continue
		}
		end := i + 1
		for end < len(lines) && end < i+6 && sourceLine.MatchString(lines[end]) {
			end++
		}
		return strings.TrimRight(strings.Join(lines[i:end], "\n"), " \n")
	}
	return ""
}

// A lineWriter calls line for each whole line written to it.
type lineWriter struct {
	line func(string)
	part []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		w.line(string(append(w.part, p[:i]...)))
		w.part, p = w.part[:0], p[i+1:]
	}
	if len(w.part) < headBytes {
		w.part = append(w.part, p...)
	}
	return n, nil
}

// An outputKeeper keeps the beginning and the end of what is written to it.
type outputKeeper struct{ head, tail []byte }

func (k *outputKeeper) Write(p []byte) (int, error) {
	if room := headBytes - len(k.head); room > 0 {
		k.head = append(k.head, p[:min(room, len(p))]...)
	}
	k.tail = append(k.tail, p...)
	if extra := len(k.tail) - tailBytes; extra > 0 {
		k.tail = append(k.tail[:0], k.tail[extra:]...)
	}
	return len(p), nil
}

// text is what is known of the output, in order; the two parts may overlap.
func (k *outputKeeper) text() string { return string(k.head) + "\n" + string(k.tail) }

// identify asks a compiler what it is.
func identify(ctx context.Context, name, path string) (toolState, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	flags := []string{"--version", "-dumpmachine"}
	answers := make([]string, len(flags))
	err := inParallel(len(flags), func(i int) (err error) {
		if answers[i], err = ask(ctx, path, flags[i]); err != nil {
			err = fmt.Errorf("%s %s: %w", name, flags[i], err)
		}
		return err
	})
	return toolState{name, answers[0], answers[1]}, err
}

// libraries identifies the C library that is linked into firmware without an operating system, and the compiler's own:
// they come in packages of their own, and go into every image. One that lies where only the linker looks is left out.
func (p *Project) libraries(ctx context.Context, cc string) ([]toolState, error) {
	b := p.Board()
	if len(b.Memory) == 0 {
		return nil, nil // the system's, shared
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	folders, err := linkFolders(ctx, cc, slices.Concat(b.CFlags, b.LDFlags))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Toolchain.CC, err)
	}
	var found []toolState
	for _, name := range []string{libraryFile, "libgcc.a"} {
		for _, dir := range folders {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				found = append(found, toolState{Name: name, Version: "SHA-256 " + digestOf(data)})
				break
			}
		}
	}
	return found, nil
}

const libraryFile = "libc.a"

// linkFolder is a folder on the linker's command line as gcc -### prints it.
var linkFolder = regexp.MustCompile(`(?:^|\s)(?:"-L([^"]+)"|-L(\S+))`)

// linkFolders lists where the compiler lets the linker look for libraries, in order.
func linkFolders(ctx context.Context, cc string, flags []string) ([]string, error) {
	cmd := toolCommand(ctx, "/", cc, slices.Concat(flags, []string{"-###", os.DevNull})...)
	var out []byte
	err := pinned(func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil && libraryMissing.Match(out) {
		return nil, nil // compiling tells
	}
	if err != nil {
		return nil, failure.New(failure.Config, "check the board's cflags and ldflags", "%w: %s", err, firstError(string(out)))
	}
	var folders []string
	for _, m := range linkFolder.FindAllStringSubmatch(string(out), -1) {
		folders = append(folders, m[1]+m[2])
	}
	return folders, nil
}

// ask returns the first line that a tool answers.
func ask(ctx context.Context, path, flag string) (string, error) {
	cmd := toolCommand(ctx, "/", path, flag)
	var out []byte
	err := pinned(func() (err error) {
		out, err = cmd.Output()
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", failure.New(failure.ToolMissing, "check that it is a working compiler", "%w", err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(first), nil
}
