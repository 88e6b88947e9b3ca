// Package postlink runs a board's command on the linked image, for instance to sign it, and makes the image of what the
// command wrote.
package postlink

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/imagecheck"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// A Command is a board's post_link, for a project.
type Command struct {
	Template *templatefile.Description
	Board    *boards.Board
	Env      buildenv.Env
	Log      hclog.Logger
	Limit    time.Duration // of the command; 0: a minute
	Advice   string        // the next step if the build command made no image
}

const (
	folderName = "post_link" // in the build folder: what the command reads and writes
	timeout    = time.Minute
	maxWritten = 64 << 20 // bytes of a file that the command writes
)

// fileNames are the files that words of the command stand for.
var fileNames = map[string]string{
	boardfile.ELFWord: "linked.elf", boardfile.BinWord: "linked.bin", boardfile.HexWord: "linked.hex",
	boardfile.OutBinWord: "out.bin", boardfile.OutHexWord: "out.hex",
}

// File returns the path, in the folder of the build, of the file that a word of the command stands for.
func (c Command) File(word string) string {
	return path.Join(c.Template.BuildFolder(), folderName, fileNames[word])
}

// Program returns the path of the command's program: a file of the board's, or an installed one.
func (c Command) Program() (string, error) {
	name := c.Board.PostLink.Words[0]
	if below, ok := strings.CutPrefix(name, boardfile.BoardWord+"/"); ok {
		return filepath.Join(c.Env.Dir, generator.Board, filepath.FromSlash(below)), nil
	}

	path, err := c.Env.Program(name, "")
	if missing := (*failure.MissingToolError)(nil); errors.As(err, &missing) {
		return "", fmt.Errorf("post_link of board %s: %w", c.Board.Name, err)
	}
	return path, err
}

// Tool identifies the command's program, unless it is one of the project's inputs; nil if there is no command.
func (c Command) Tool(ctx context.Context) ([]buildenv.Identity, error) {
	post := c.Board.PostLink
	if post.IsZero() || strings.HasPrefix(post.Words[0], boardfile.BoardWord) {
		return nil, nil
	}
	path, err := c.Program()
	if err != nil {
		return nil, err
	}

	version, err := c.Env.Tools.Version(ctx, path)
	return []buildenv.Identity{{Name: post.Words[0], Version: version}}, err
}

// AddTo adds the command, and the values of its variables, to what the build id depends on.
func (c Command) AddTo(s *cachekey.Builder) {
	post := c.Board.PostLink
	if post.IsZero() {
		return
	}

	s.Add("post_link", post.Words...)
	for _, name := range post.Variables() {
		value := c.value(name)

		// The content of a file counts, but not its path.
		if info, err := os.Stat(value); err == nil && info.Mode().IsRegular() {
			if sum, err := buildenv.DigestOfFile(value); err == nil {
				value = sum // of a key, for instance
			}
		}

		s.Add("post_link variable", name, value)
	}
}

// value returns the value of a variable. The path of a file is absolute: the command runs elsewhere than this
// process.
func (c Command) value(name string) string {
	value := c.Env.Variable(name)
	if _, err := os.Stat(value); err != nil {
		return value
	}
	return abspath.Of(value)
}

// Run runs the board's command on the linked image, and replaces the project's by what the command wrote. The
// image in the build's folder stays as it was linked.
func (c Command) Run(ctx context.Context, project *workdir.Tree, folder string, held *os.File) error {
	if c.Board.PostLink.IsZero() {
		return nil
	}

	name := c.Template.ELF
	linked, err := project.Root.ReadFile(filepath.FromSlash(name))
	if workdir.IsMissing(err) {
		return nil // inspect reports it
	}
	if err != nil {
		return project.Error("read", name, err)
	}

	loads, parts, err := c.loaded(linked)
	if err != nil {
		return err
	}
	in, err := workdir.Open(folder)
	if err != nil {
		return err
	}
	defer in.Close()

	if err := c.offer(in, linked, loads); err != nil {
		return err
	}
	if err := c.run(ctx, in, held); err != nil {
		return err
	}

	written, err := c.written(in)
	if err != nil {
		return c.failed("", "%w", err)
	}
	changed, err := firmware.Reload(linked, fitted(written, parts, loads))
	if err != nil {
		return c.failed("see "+postLinkPage, "%w", err)
	}

	// At any time, the project has either the whole linked image or the whole changed one.
	if err := atomicwriter.WriteFile(filepath.Join(project.Dir, filepath.FromSlash(name)), changed, 0o755); err != nil {
		return project.Error("write", name, err)
	}
	return c.renewForms(project, changed)
}

const postLinkPage = "docs/board.md"

// failed returns an error about what the command made.
func (c Command) failed(next, format string, args ...any) error {
	return failure.New(failure.Link, next, "post_link of board "+c.Board.Name+": "+format, args...)
}

// loaded returns what an image loads, and the parts of its checksum. It returns an error for one that loads nothing, or
// into a reserved region.
func (c Command) loaded(file []byte) (loads []firmware.Segment, parts []firmware.Range, err error) {
	name := c.Template.ELF
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, nil, failure.New(failure.Link, c.Advice, "%s: %w", name, err)
	}

	if err := imagecheck.CheckReserved(f, name, c.Board); err != nil {
		return nil, nil, err
	}

	loads, err = firmware.Loads(f, name)
	if err == nil && len(loads) == 0 {
		err = c.failed("", "the image loads nothing")
	}
	if err != nil {
		return nil, nil, err
	}

	parts, err = c.Template.Landmarks.FindParts(f, name)
	return loads, parts, err
}

// offer writes the files that the command names and reads, and removes the one that it writes.
func (c Command) offer(t *workdir.Tree, linked []byte, loads []firmware.Segment) error {
	folder := path.Join(c.Template.BuildFolder(), folderName)
	// What an earlier run wrote must not pass for the output of this one.
	if err := t.Root.RemoveAll(filepath.FromSlash(folder)); err != nil {
		return t.Error("remove", folder, err)
	}
	if err := t.Root.MkdirAll(filepath.FromSlash(folder), 0o755); err != nil {
		return t.Error("create", folder, err)
	}

	words := strings.Join(c.Board.PostLink.Words, "\n")
	for word, form := range map[string]func() ([]byte, error){
		boardfile.ELFWord: func() ([]byte, error) { return linked, nil },
		boardfile.BinWord: func() ([]byte, error) { return Flat(loads) },
		boardfile.HexWord: func() ([]byte, error) { return firmware.HEX(loads), nil },
	} {
		if !strings.Contains(words, word) {
			continue
		}

		data, err := form()
		if err != nil {
			return c.failed("", "%s: %w", word, err)
		}
		if err := t.WriteFile(c.File(word), data); err != nil {
			return err
		}
	}
	return nil
}

// Flat returns sorted segments, at least one, as raw bytes. Bytes between them are as erased.
func Flat(loads []firmware.Segment) ([]byte, error) {
	start, end := loads[0].Addr, loads[len(loads)-1].End()
	if end-start > maxWritten {
		return nil, fmt.Errorf("the image is spread over %d bytes", end-start)
	}

	bin := bytes.Repeat([]byte{firmware.Erased}, int(end-start))
	for _, s := range loads {
		copy(bin[s.Addr-start:], s.Data)
	}
	return bin, nil
}

// args returns the command's arguments, with their words replaced.
func (c Command) args(folder string) (args []string, err error) {
	words := []string{boardfile.BoardWord, generator.Board}
	for word := range fileNames {
		words = append(words, word, filepath.Join(folder, filepath.FromSlash(c.File(word))))
	}

	for _, word := range c.Board.PostLink.Words[1:] {
		if name, isVariable := strings.CutPrefix(word, "$"); isVariable {
			value := c.value(name)
			if value == "" {
				return nil, failure.New(failure.Config, "set it", "post_link of board %s needs the variable %s, which is not set",
					c.Board.Name, name)
			}
			args = append(args, value)
			continue
		}

		args = append(args, strings.NewReplacer(words...).Replace(word))
	}
	return args, nil
}

// typed returns the command as typed in a shell. It names variables, whose values may be secret.
func (c Command) typed(dir, program string, args []string) string {
	words := []string{"cd", command.Quote(dir), "&&", command.Command{Path: program}.Typed()}

	for i, arg := range args {
		if word := c.Board.PostLink.Words[i+1]; strings.HasPrefix(word, "$") {
			words = append(words, `"`+word+`"`)
		} else {
			words = append(words, command.Quote(arg))
		}
	}
	return strings.Join(words, " ")
}

// run runs the command, in the project's folder, on files of another one.
func (c Command) run(ctx context.Context, in *workdir.Tree, held *os.File) error {
	program, err := c.Program()
	if err != nil {
		return err
	}
	args, err := c.args(in.Dir)
	if err != nil {
		return err
	}

	run := buildenv.Run{Dir: c.Env.Dir, Path: program, Args: args, Held: held, Log: c.Log, Limit: cmp.Or(c.Limit, timeout)}
	err = run.Do(ctx)
	if failed := (*buildenv.ToolError)(nil); errors.As(err, &failed) {
		failed.Command = c.typed(c.Env.Dir, program, args)

		// Words of this program do not show the class, as those of a compiler do.
		switch {
		case errors.Is(err, command.ErrTooLong):
			failed.Class = failure.Timeout
		case failed.Class != failure.Host:
			failed.Class = failure.Link
		}
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("post_link of board %s: %w", c.Board.Name, err)
	}
	return err
}

// written reads what the command wrote, and where it is loaded.
func (c Command) written(t *workdir.Tree) ([]firmware.Segment, error) {
	word := c.Board.PostLink.Writes()
	name := c.File(word)
	// One more byte shows that a file is too large.
	data, err := t.ReadSome(name, maxWritten+1)
	switch {
	case workdir.IsMissing(err) || err == nil && len(data) == 0:
		return nil, fmt.Errorf("the command succeeded and wrote no %s", name)
	case err != nil:
		return nil, t.Error("read", name, err)
	case len(data) > maxWritten:
		return nil, fmt.Errorf("%s is larger than %d MiB", name, maxWritten>>20)
	}

	if word == boardfile.OutHexWord {
		loads, err := firmware.ParseHEX(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return loads, nil
	}

	code, _ := c.Board.Region(c.Board.Place.Code)
	return []firmware.Segment{{Addr: uint64(code.Origin), Data: data}}, nil
}

// fitted returns what the command wrote as segments of the image. The firmware's checksum covers all of them: where a
// part of it ends later than they do, after the end of what was linked, erased bytes follow. Runs of erased bytes
// outside of the parts and of what was linked are left out.
func fitted(loads []firmware.Segment, parts []firmware.Range, were []firmware.Segment) (all []firmware.Segment) {
	linkedEnd := were[len(were)-1].End()
	held := slices.Clone(parts)
	for _, s := range were {
		held = append(held, firmware.Range{Start: s.Addr, End: s.End()})
	}

	within := func(addr uint64) bool {
		return slices.ContainsFunc(held, func(r firmware.Range) bool { return addr >= r.Start && addr < r.End })
	}

	for _, s := range loads {
		for _, r := range parts {
			missing := r.End - s.End()
			if s.End() >= linkedEnd && s.End() > r.Start && s.End() < r.End && missing <= maxAppended {
				s.Data = append(slices.Clip(s.Data), bytes.Repeat([]byte{firmware.Erased}, int(missing))...)
			}
		}
		all = append(all, splitErased(s, within)...)
	}
	return all
}

// splitRun is the number of erased bytes at which what the command adds becomes two segments.
const splitRun = 16

// splitErased removes runs of erased bytes outside of what is held: at an end, beside a held byte, and long ones.
func splitErased(s firmware.Segment, within func(addr uint64) bool) (all []firmware.Segment) {
	held := func(i int) bool { return within(s.Addr + uint64(i)) }
	free := func(i int) bool { return s.Data[i] == firmware.Erased && !held(i) }

	start := 0
	add := func(end int) {
		if end > start {
			all = append(all, firmware.Segment{Addr: s.Addr + uint64(start), Data: s.Data[start:end]})
		}
	}

	for i := 0; i < len(s.Data); i++ {
		if !free(i) {
			continue
		}
		run := i
		for i < len(s.Data) && free(i) {
			i++
		}

		if run == 0 || i == len(s.Data) || i-run >= splitRun || held(run-1) || held(i) {
			add(run)
			start = i
		}
	}

	add(len(s.Data))
	return all
}

// maxAppended limits the bytes that the linker script leaves for what the command appends.
const maxAppended = 64 << 10

// renewForms writes the image's other forms that the build command made, from the new image.
func (c Command) renewForms(t *workdir.Tree, file []byte) error {
	loads, _, err := c.loaded(file)
	if err != nil {
		return err
	}

	forms := c.Template.Forms
	for name, form := range map[string]func() ([]byte, error){
		forms.Bin: func() ([]byte, error) { return Flat(loads) },
		forms.Hex: func() ([]byte, error) { return firmware.HEX(loads), nil },
	} {
		// The build made no such form.
		if _, err := t.Root.Lstat(filepath.FromSlash(name)); name == "" || err != nil {
			continue
		}

		data, err := form()
		if err != nil {
			return c.failed("", "%s: %w", name, err)
		}
		if err := t.WriteFile(name, data); err != nil {
			return err
		}
	}
	return nil
}
