// This file runs the preprocessor of the board's compiler on sources of the board.

package project

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

const (
	maxPreprocessed = 32 << 20 // bytes of one source with all its headers
	preprocessLimit = time.Minute

	afterMark = "boardsmith_text_that_follows" // begins the text after a source
)

// Preprocess returns what the preprocessor of the board's compiler makes of a source of the board, named as in its
// board file, with the flags of the build and these ones, such as -dD. after is C that follows the source, "" for none:
// the result is then of this text alone, with the macros as they are at the end of the source. It needs no build.
// Errors: *failure.MissingToolError, *ToolError if the preprocessor rejects the source, and others of class config.
func (p *Project) Preprocess(ctx context.Context, source, after string, flags ...string) (string, error) {
	cc, words, err := p.compileWords(ctx, source)
	if err != nil {
		return "", err
	}

	file := boardfile.InProject(source)
	args := slices.Concat(words, []string{"-E"}, flags)
	if after == "" {
		return p.preprocess(ctx, cc, append(args, file))
	}

	// The ending tells the compiler whether it is C or assembler.
	folder, text, err := behind(path.Ext(source), afterMark+"\n"+after)
	if err != nil {
		return "", err
	}
	defer folder.Remove()

	// -imacros leaves the source's text out, but keeps its macros.
	output, err := p.preprocess(ctx, cc, append(args, "-P", "-imacros", file, text))
	_, output, _ = strings.Cut(output, afterMark+"\n") // GCC keeps pragmas of -imacros
	return output, err
}

// CompileBehind returns the object of a source of the board, named as in its board file, with lines of C behind it; if
// the source is assembler, of these lines alone. Errors are those of Preprocess: a *ToolError names a line that the
// compiler rejects as behind.c:NUMBER.
func (p *Project) CompileBehind(ctx context.Context, source string, lines []string) ([]byte, error) {
	cc, args, err := p.compileWords(ctx, source)
	if err != nil {
		return nil, err
	}
	folder, text, err := behind(".c", strings.Join(lines, "\n")+"\n")
	if err != nil {
		return nil, err
	}
	defer folder.Remove()

	if path.Ext(source) == ".c" {
		args = append(args, "-include", boardfile.InProject(source))
	}
	object := filepath.Join(folder.Dir, "behind.o")
	if _, err := p.preprocess(ctx, cc, append(args, "-w", "-c", "-o", object, text)); err != nil {
		return nil, err
	}
	return os.ReadFile(object)
}

// behind writes what follows a source in a folder that the caller removes.
func behind(ending, text string) (folder *scratch.Folder, file string, err error) {
	folder, err = scratch.Make("boardsmith-preprocess-")
	if err != nil {
		return nil, "", fmt.Errorf("preprocess: %w", err)
	}
	file = filepath.Join(folder.Dir, "behind"+ending)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		_ = folder.Remove()
		return nil, "", fmt.Errorf("preprocess: %w", err)
	}
	return folder, file, nil
}

// compileWords returns the compiler and the flags with which the template compiles a source of the board.
func (p *Project) compileWords(ctx context.Context, source string) (cc string, flags []string, err error) {
	if err := p.errIfClosed(); err != nil {
		return "", nil, err
	}
	if ctx.Err() != nil {
		return "", nil, failure.Stopped(ctx, "preprocess %s", source)
	}

	file := boardfile.InProject(source)
	if _, err := os.Stat(filepath.Join(p.dir, filepath.FromSlash(file))); err != nil {
		return "", nil, failure.Errorf(failure.Config, "source %s is not in the project: %w", source, err)
	}

	b := p.Board()
	as := strings.TrimSuffix(file, path.Ext(file)) + ".c" // assembler files have the flags of C
	steps := p.state.Template.Compile
	i := slices.IndexFunc(steps, func(s templatefile.CompileStep) bool { return s.Compiles(as) })
	if i < 0 || b.Toolchain.CC == "" {
		return "", nil, failure.Errorf(failure.Config, "template %s does not state how %s is compiled",
			p.state.Template.Name, file)
	}

	o, err := b.Settle(p.state.Options)
	if err != nil {
		return "", nil, err
	}
	cc, err = p.env().Program(b.Toolchain.CC, b.Toolchain.Install)
	return cc, steps[i].FlagsFor(b, o, path.Base(as)), err
}

// errOutput reports a preprocessor that does not end its output.
var errOutput = fmt.Errorf("more than %d MiB of output", maxPreprocessed>>20)

// A bounded buffer ends the program whose output becomes too large.
type bounded struct {
	text bytes.Buffer
	full bool
}

func (b *bounded) Write(data []byte) (int, error) {
	if b.full = b.full || b.text.Len()+len(data) > maxPreprocessed; b.full {
		return 0, errOutput
	}
	return b.text.Write(data)
}

func (p *Project) preprocess(ctx context.Context, cc string, args []string) (string, error) {
	give, err := p.builder.takeJob(ctx)
	if err != nil {
		return "", err
	}
	defer give()

	var out bounded
	c := command.Command{Path: cc, Args: args, Dir: p.dir, Env: p.env().Path(), Stdout: &out, Timeout: preprocessLimit}
	err = c.Run(ctx)

	switch {
	case ctx.Err() != nil:
		return "", err
	case out.full:
		return "", failure.Errorf(failure.Config, "%s: %w", command.Name(cc), errOutput)
	case err == nil:
		return out.text.String(), nil
	}

	var failed *command.Error
	if !errors.As(err, &failed) {
		return "", err
	}
	tool := buildenv.Failed(failed, "cd "+command.Quote(p.dir)+" && "+c.Typed())

	// Whatever words the message has, nothing was linked.
	if tool.Class != failure.Host {
		tool.Class = failure.Compile
	}
	return "", tool
}
