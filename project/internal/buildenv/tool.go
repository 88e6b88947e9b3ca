// This file runs compilers and build tools, and parses their output.

package buildenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
)

const (
	TailBytes  = 4 << 10         // bytes kept of the end of a tool's standard error
	ToolGrace  = 3 * time.Second // to clean up after a cancel
	AskTimeout = 20 * time.Second
)

// A ToolError reports an external command that failed.
type ToolError struct {
	Tool string
	// compile, link, does-not-fit, tool-missing, config where the build command could not configure, or host
	Class   failure.Class
	Message string // the first error it printed, with the source line; "" if it printed none
	Tail    []byte // the last 4 KiB of its standard error or, if that has not the message, of both streams
	Command string // a shell command that runs it again; "" if its files are gone
	Err     error  // how it ended
}

func (e *ToolError) Error() string {
	text := e.Message
	if text == "" {
		text = strings.TrimSpace(string(e.Tail))
	}

	if text == "" {
		return e.Tool + ": " + e.Err.Error()
	}
	return e.Tool + ": " + e.Err.Error() + "\n" + text
}

// Unwrap returns Err.
func (e *ToolError) Unwrap() error { return e.Err }

// Assertion returns the text of the first broken _Static_assert or #error in the message, or "".
func (e *ToolError) Assertion() string { return diagnostics.Assertion(e.Message) }

// FailureClass returns Class.
func (e *ToolError) FailureClass() failure.Class { return e.Class }

// NextStep returns how to remove the cause if that is known, else the command that reproduces it, or "".
func (e *ToolError) NextStep() string {
	if e.Class == failure.Host {
		return failure.Next(e.Err)
	}
	if next := diagnostics.Advice(e.Message); next != "" {
		return next
	}
	if e.Command == "" {
		return ""
	}
	return "to see it again: " + e.Command
}

// A Run is one run of a build tool.
type Run struct {
	Dir   string // working folder
	Shown string // the folder that its output names in place of dir; "": dir
	Path  string // of the program
	Args  []string
	After [][]string   // commands that ran before, which the command for the user repeats
	Env   []string     // "NAME=value", beside what every tool has
	Held  *os.File     // kept open by all processes of the run; nil: none
	Reads []string     // as in command.Command; nil: any
	Temp  string       // the folder for temporary files; "": this process's
	Log   hclog.Logger // takes the lines of standard output
	Line  func(string) // and so does this; nil drops them
	Noted func(string) // takes the lines of both streams; nil drops them

	Limit time.Duration // of the run; 0: none
}

// Do runs the tool to its end. Errors: *ToolError, or ctx's after a cancel. When it returns, the whole process
// group has ended.
func (r Run) Do(ctx context.Context) error {
	c := command.Command{Path: r.Path, Args: r.Args, Dir: r.Dir, Env: r.Env, Grace: ToolGrace, Timeout: r.Limit}

	c.Out = func(s string) {
		s = r.shown(s)
		r.Log.Debug("tool", "out", s)
		if r.Line != nil {
			r.Line(s)
		}
		r.noted(s)
	}
	c.Err = func(s string) { r.noted(r.shown(s)) }

	if c.Reads = r.Reads; r.Temp != "" {
		c.Env = append(slices.Clone(r.Env), "TMPDIR="+r.Temp)
	}
	if r.Held != nil {
		c.Held = []*os.File{r.Held}
	}

	err := c.Run(ctx)
	// After a cancel, the tool's own error is only that it was stopped.
	if err != nil && ctx.Err() != nil {
		return failure.Stopped(ctx, "build")
	}

	var failed *command.Error
	if !errors.As(err, &failed) {
		return err
	}
	return Failed(failed, r.typed())
}

func (r Run) shown(line string) string {
	if r.Shown == "" {
		return line
	}
	return strings.ReplaceAll(line, r.Dir, r.Shown)
}

func (r Run) noted(line string) {
	if r.Noted != nil {
		r.Noted(line)
	}
}

// Failed explains how a tool failed that typed runs again.
func Failed(failed *command.Error, typed string) *ToolError {
	class, message, text := diagnostics.Explain(failed.Stderr, failed.Text)

	var host *command.HostError
	if errors.As(failed, &host) {
		class, message = failure.Host, host.Line
	}

	return &ToolError{
		Tool: failed.Tool, Class: class, Message: message, Tail: []byte(text[max(0, len(text)-TailBytes):]),
		Command: typed, Err: failed.Err,
	}
}

// typed returns the command as typed in a shell.
func (r Run) typed() string {
	var env []string
	for _, v := range r.Env {
		name, value, _ := strings.Cut(v, "=")
		env = append(env, name+"="+command.Quote(value))
	}

	typed := "cd " + command.Quote(r.Dir)
	for _, words := range append(slices.Clone(r.After), append([]string{r.Path}, r.Args...)) {
		of := command.Command{Path: words[0], Args: words[1:]}.Typed()
		typed += " && " + strings.Join(append(slices.Clone(env), of), " ")
	}
	return typed
}

// An Identity is a tool's identification at the last build.
type Identity struct {
	Name    string `json:"name"`
	Version string `json:"version"` // the first line of --version
	Target  string `json:"target,omitempty"`
	SHA256  string `json:"sha256,omitempty"` // of a compiler's file
}

// Identify asks the compiler at a path, which is called name, for its version and target, and reads its file: a script
// that calls another compiler prints the other's version. It does this once for each state of the file.
func (t *Tools) Identify(ctx context.Context, name, path string) (Identity, error) {
	return Once(ctx, t, path, "compiler\x00"+name, func() (Identity, error) {
		flags := []string{"--version", "-dumpmachine"}
		answers := make([]string, len(flags))

		asks, ctx := errgroup.WithContext(ctx)
		for i, flag := range flags {
			asks.Go(func() (err error) {
				if answers[i], err = command.Ask(ctx, path, flag); err != nil {
					err = fmt.Errorf("%s %s: %w", name, flag, err)
				}
				return err
			})
		}

		if err := asks.Wait(); err != nil {
			return Identity{}, err
		}

		data, err := os.ReadFile(path)
		return Identity{Name: name, Version: answers[0], Target: answers[1], SHA256: cachekey.Digest(data)}, err
	})
}

// Words returns the words that distinguish two tools.
func (t Identity) Words() []string { return []string{t.Name, t.Version, t.Target, t.SHA256} }

// OtherTools identifies the template's programs besides the compiler, and the one that the board runs after the link:
// by the first line of --version or, if they have no such flag, by their files. Those that only start others must be
// there, and that is all. Errors: *failure.MissingToolError.
func (e Env) OtherTools(ctx context.Context) ([]Identity, error) {
	var tools []Identity
	for _, tool := range e.Template.Tools {
		path, err := e.Tool(tool)
		if err != nil {
			return nil, err
		}
		if tool.Starter {
			continue
		}

		version, err := e.Tools.Version(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tool.Name, err)
		}
		tools = append(tools, Identity{Name: tool.Name, Version: version})
	}
	return tools, nil
}

// Version returns the first line that a program prints of its version or, if it has no such flag, its file's digest.
func (t *Tools) Version(ctx context.Context, path string) (string, error) {
	return Once(ctx, t, path, "--version or digest", func() (string, error) {
		version, err := command.Ask(ctx, path, "--version")
		// A cancel does not show that the flag is missing.
		if err == nil && version != "" || ctx.Err() != nil {
			return version, err
		}

		return DigestOfFile(path)
	})
}

// DigestOfFile returns a file's digest as a version.
func DigestOfFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	return "SHA-256 " + cachekey.Digest(data), err
}

// Libraries identifies the C library of firmware without an operating system and the compiler's own libraries,
// which come in separate packages and go into every image. It omits libraries in folders that only the linker
// searches. It asks a compiler for its folders once, and reads a library once, as long as the files are unchanged.
func (t *Tools) Libraries(ctx context.Context, cc string, b *boards.Board) ([]Identity, error) {
	if len(b.Memory) == 0 {
		return nil, nil // the system's shared library
	}

	flags := slices.Concat(b.CFlags, b.LDFlags)
	links, err := Once(ctx, t, cc, "libraries\x00"+strings.Join(flags, "\x00"), func() (linking, error) {
		links, err := linkingOf(ctx, cc, flags)
		if err == nil && links.folders == nil {
			err = errNoLibrary // it may be installed before the next build
		}
		return links, err
	})

	if errors.Is(err, errNoLibrary) {
		return nil, nil // the compile reports it
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Toolchain.CC, err)
	}

	var files []Identity
	for _, name := range links.files {
		// The linker takes a library from the first folder that has it.
		for _, dir := range links.folders {
			at := filepath.Join(dir, name)
			digest, err := Once(ctx, t, at, "digest", func() (string, error) { return DigestOfFile(at) })
			if err == nil {
				files = append(files, Identity{Name: name, Version: digest})
				break
			}
		}
	}
	return files, nil
}

const CLibrary = "libc.a"

var errNoLibrary = errors.New("no C library")

// linking is the part of the compiler's linker command that concerns libraries.
type linking struct {
	folders []string // in the order in which they are searched
	files   []string // such as libc_nano.a, which a specs file substitutes for libc.a
}

// linkingOf reads from the compiler how it links. An image may have the usual three libraries in addition to those that
// it names.
func linkingOf(ctx context.Context, cc string, flags []string) (links linking, err error) {
	_, output, err := command.Command{
		Path: cc, Args: slices.Concat(flags, []string{"-###", os.DevNull}), Dir: "/",
		Timeout: AskTimeout,
	}.Capture(ctx)
	if ctx.Err() != nil {
		return links, err
	}
	if err != nil && diagnostics.LibraryMissing.MatchString(output) {
		return links, nil // compiling reports it
	}
	if err != nil {
		return links, failure.New(failure.Config, "check the board's cflags and ldflags", "%w: %s", err,
			diagnostics.FirstError(output))
	}

	for _, m := range diagnostics.LinkFolder.FindAllStringSubmatch(output, -1) {
		links.folders = append(links.folders, m[1]+m[2])
	}

	links.files = []string{CLibrary, "libgcc.a", "libm.a"}
	for _, m := range diagnostics.LinkLibrary.FindAllStringSubmatch(output, -1) {
		if name := "lib" + m[1] + ".a"; !slices.Contains(links.files, name) {
			links.files = append(links.files, name)
		}
	}
	return links, nil
}

// Tools identifies programs, each state of a file once, and limits how many run at once. The zero value is ready for
// use. Many goroutines may use it.
type Tools struct {
	mu      sync.Mutex
	answers map[any]*answer
	slots   chan struct{} // tokens; nil until one is taken
}

// An answer is the output of a program for one question.
type answer struct {
	done  chan struct{}
	value any
	err   error
}

// A toolKey is a program's file and the question.
type toolKey struct {
	path     string
	size     int64
	modified time.Time
	question string
}

// Once asks the program at path, unless it was asked before and its file is unchanged. Failures are not cached.
func Once[T any](ctx context.Context, t *Tools, path, question string, ask func() (T, error)) (value T,
	err error,
) {
	info, err := os.Stat(path)
	if err != nil {
		return ask() // whose error is clearer
	}

	key := toolKey{path, info.Size(), info.ModTime(), question}
	for {
		t.mu.Lock()
		a, ok := t.answers[key]
		if !ok {
			a = &answer{done: make(chan struct{})}
			if t.answers == nil {
				t.answers = map[any]*answer{}
			}
			t.answers[key] = a
		}
		t.mu.Unlock()

		if !ok {
			return answered(t, key, a, ask)
		}

		// Another goroutine asks.
		select {
		case <-a.done:
		case <-ctx.Done():
			return value, failure.Stopped(ctx, "build")
		}

		// After its failure, which may be a cancel of its own, this one asks.
		if a.err == nil {
			return a.value.(T), nil
		}
	}
}

// answered calls ask and wakes the goroutines that wait for the result.
func answered[T any](t *Tools, key any, a *answer, ask func() (T, error)) (T, error) {
	defer close(a.done)
	value, err := ask()
	a.value, a.err = value, err

	// This precedes the end of done, so that those who wait ask again.
	if err != nil {
		t.mu.Lock()
		delete(t.answers, key)
		t.mu.Unlock()
	}
	return value, err
}

// TakeJob waits until one of limit tokens is free; the limit of the first call counts. give returns the token.
func (t *Tools) TakeJob(ctx context.Context, limit int) (give func(), err error) {
	t.mu.Lock()
	if t.slots == nil {
		t.slots = make(chan struct{}, limit)
	}
	slots := t.slots
	t.mu.Unlock()

	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, failure.Stopped(ctx, "build")
	}
}

// TakeMore takes at most wanted free tokens, for a caller that has one already. give returns them.
func (t *Tools) TakeMore(wanted int) (n int, give func()) {
	for n < wanted {
		select {
		case t.slots <- struct{}{}:
			n++
			continue
		default:
		}
		break
	}

	return n, func() {
		for range n {
			<-t.slots
		}
	}
}
