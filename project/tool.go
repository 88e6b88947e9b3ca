// This file runs compilers and build tools, and parses their output.

package project

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/toolwords"
)

const (
	tailBytes  = 4 << 10         // bytes kept of the end of a tool's standard error
	toolGrace  = 3 * time.Second // to clean up after a cancel
	askTimeout = 20 * time.Second
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
	what := e.Message
	if what == "" {
		what = strings.TrimSpace(string(e.Tail))
	}
	if what == "" {
		return e.Tool + ": " + e.Err.Error()
	}
	return e.Tool + ": " + e.Err.Error() + "\n" + what
}

// Unwrap returns Err.
func (e *ToolError) Unwrap() error { return e.Err }

// Assertion returns the text of the first broken _Static_assert or #error in the message, or "".
func (e *ToolError) Assertion() string { return toolwords.Assertion(e.Message) }

// FailureClass returns Class.
func (e *ToolError) FailureClass() failure.Class { return e.Class }

// NextStep returns the command that reproduces it, for a fault of the computer how to remove its cause; or "".
func (e *ToolError) NextStep() string {
	if e.Class == failure.Host {
		return failure.Next(e.Err)
	}
	if e.Command == "" {
		return ""
	}
	return "to see it again: " + e.Command
}

// A toolRun is one run of a build tool.
type toolRun struct {
	dir   string // working folder
	shown string // the folder that its output names in place of dir; "": dir
	path  string // of the program
	args  []string
	env   []string     // "NAME=value", beside what every tool has
	held  *os.File     // kept open by all processes of the run; nil: none
	log   hclog.Logger // takes the lines of standard output
	line  func(string) // and so does this

	limit time.Duration // of the run; 0: none
}

// run runs the tool to its end. Errors: *ToolError, or ctx's after a cancel. When it returns, the whole process
// group has ended.
func (r toolRun) run(ctx context.Context) error {
	c := command.Command{Path: r.path, Args: r.args, Dir: r.dir, Env: r.env, Grace: toolGrace, Timeout: r.limit}
	c.Out = func(s string) {
		if r.shown != "" {
			s = strings.ReplaceAll(s, r.dir, r.shown)
		}
		r.log.Debug("tool", "out", s)
		r.line(s)
	}
	if r.held != nil {
		c.Held = []*os.File{r.held}
	}
	err := c.Run(ctx)
	if err != nil && ctx.Err() != nil {
		return failure.Stopped(ctx, "build")
	}
	var failed *command.Error
	if !errors.As(err, &failed) {
		return err
	}
	return toolError(failed, r.typed())
}

// toolError explains how a tool failed that typed runs again.
func toolError(failed *command.Error, typed string) *ToolError {
	class, message, text := toolwords.Explain(failed.Stderr, failed.Text)
	var host *command.HostError
	if errors.As(failed, &host) {
		class, message = failure.Host, host.Line
	}
	return &ToolError{
		Tool: failed.Tool, Class: class, Message: message, Tail: []byte(text[max(0, len(text)-tailBytes):]),
		Command: typed, Err: failed.Err,
	}
}

// typed returns the command as typed in a shell.
func (r toolRun) typed() string {
	words := []string{"cd", command.Quote(r.dir), "&&"}
	for _, v := range r.env {
		name, value, _ := strings.Cut(v, "=")
		words = append(words, name+"="+command.Quote(value))
	}
	return strings.Join(append(words, command.Command{Path: r.path, Args: r.args}.Typed()), " ")
}

// identify asks the compiler at a path, which is called name, for its version and target, and reads its file: a script
// that calls another compiler prints the other's version. It does this once for each state of the file.
func (b *Builder) identify(ctx context.Context, name, path string) (toolState, error) {
	return askOnce(ctx, b, path, "compiler\x00"+name, func() (toolState, error) {
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
			return toolState{}, err
		}
		data, err := os.ReadFile(path)
		return toolState{Name: name, Version: answers[0], Target: answers[1], SHA256: image.DigestOf(data)}, err
	})
}

// identity returns the words by which two tools are told apart.
func (t toolState) identity() []string { return []string{t.Name, t.Version, t.Target, t.SHA256} }

// otherTools identifies the template's programs besides the compiler, and the one that the board runs after the link:
// by the first line of --version or, if they have no such flag, by their files. Those that only start others must be
// there, and that is all. Errors: *MissingToolError.
func (p *Project) otherTools(ctx context.Context) ([]toolState, error) {
	var found []toolState
	for _, tool := range p.state.Template.Tools {
		path, err := p.findTool(tool)
		if err != nil {
			return nil, err
		}
		if tool.Starter {
			continue
		}
		version, err := p.versionOf(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tool.Name, err)
		}
		found = append(found, toolState{Name: tool.Name, Version: version})
	}
	after, err := p.postLinkTool(ctx)
	return append(found, after...), err
}

// versionOf returns the first line that a program prints of its version or, if it has no such flag, its file's digest.
func (p *Project) versionOf(ctx context.Context, path string) (string, error) {
	return askOnce(ctx, p.builder, path, "--version or digest", func() (string, error) {
		version, err := command.Ask(ctx, path, "--version")
		if err == nil && version != "" || ctx.Err() != nil {
			return version, err
		}
		return digestOfFile(path)
	})
}

// digestOfFile returns a file's digest as a version.
func digestOfFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	return "SHA-256 " + image.DigestOf(data), err
}

// libraries identifies the C library of firmware without an operating system and the compiler's own libraries,
// which come in separate packages and go into every image. It omits libraries in folders that only the linker
// searches. It asks a compiler for its folders once, and reads a library once, as long as the files are unchanged.
func (p *Project) libraries(ctx context.Context, cc string, b *boards.Board) ([]toolState, error) {
	if len(b.Memory) == 0 {
		return nil, nil // the system's shared library
	}
	flags := slices.Concat(b.CFlags, b.LDFlags)
	links, err := askOnce(ctx, p.builder, cc, "libraries\x00"+strings.Join(flags, "\x00"), func() (linking, error) {
		links, err := linkingOf(ctx, cc, flags)
		if err == nil && links.folders == nil {
			err = errNoLibrary // it may be installed before the next build
		}
		return links, err
	})
	if errors.Is(err, errNoLibrary) {
		return nil, nil // compiling tells
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Toolchain.CC, err)
	}
	var found []toolState
	for _, name := range links.files {
		for _, dir := range links.folders {
			at := filepath.Join(dir, name)
			digest, err := askOnce(ctx, p.builder, at, "digest", func() (string, error) { return digestOfFile(at) })
			if err == nil {
				found = append(found, toolState{Name: name, Version: digest})
				break
			}
		}
	}
	return found, nil
}

const libraryFile = "libc.a"

var errNoLibrary = errors.New("no C library")

// linking is the part of the compiler's linker command that concerns libraries.
type linking struct {
	folders []string // in the order in which they are searched
	files   []string // such as libc_nano.a, which a specs file substitutes for libc.a
}

// linkingOf reads from the compiler how it links. An image may have the usual three libraries in addition to those that
// it names.
func linkingOf(ctx context.Context, cc string, flags []string) (links linking, err error) {
	_, said, err := command.Command{
		Path: cc, Args: slices.Concat(flags, []string{"-###", os.DevNull}), Dir: "/",
		Timeout: askTimeout,
	}.Capture(ctx)
	if ctx.Err() != nil {
		return links, err
	}
	if err != nil && toolwords.LibraryMissing.MatchString(said) {
		return links, nil // compiling reports it
	}
	if err != nil {
		return links, failure.New(failure.Config, "check the board's cflags and ldflags", "%w: %s", err,
			toolwords.FirstError(said))
	}
	for _, m := range toolwords.LinkFolder.FindAllStringSubmatch(said, -1) {
		links.folders = append(links.folders, m[1]+m[2])
	}
	links.files = []string{libraryFile, "libgcc.a", "libm.a"}
	for _, m := range toolwords.LinkLibrary.FindAllStringSubmatch(said, -1) {
		if name := "lib" + m[1] + ".a"; !slices.Contains(links.files, name) {
			links.files = append(links.files, name)
		}
	}
	return links, nil
}
