// This file runs a board's command on the linked image, for instance to sign it, and makes the image of what the
// command wrote.

package project

import (
	"bytes"
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

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/generator"
)

const (
	postLinkFolder  = "post_link" // in the build folder: what the command reads and writes
	postLinkTimeout = time.Minute
	maxPostLinked   = 64 << 20 // bytes of a file that the command writes
)

// postLinkFile returns the path, in the folder of the build, of the file that a word of the command stands for.
func (p *Project) postLinkFile(word string) string {
	names := map[string]string{
		boards.ELFWord: "linked.elf", boards.BinWord: "linked.bin", boards.HexWord: "linked.hex",
		boards.OutBinWord: "out.bin", boards.OutHexWord: "out.hex",
	}
	return p.inBuild(path.Join(postLinkFolder, names[word]))
}

// postLinkProgram returns the path of the command's program: a file of the board's, or an installed one.
func (p *Project) postLinkProgram() (string, error) {
	name := p.state.Board.PostLink.Words[0]
	if below, ok := strings.CutPrefix(name, boards.BoardWord+"/"); ok {
		return filepath.Join(p.dir, generator.Board, filepath.FromSlash(below)), nil
	}
	path, err := p.findProgram(name, "")
	if missing := (*MissingToolError)(nil); errors.As(err, &missing) {
		return "", fmt.Errorf("post_link of board %s: %w", p.state.Board.Name, err)
	}
	return path, err
}

// postLinkTool identifies the command's program, unless it is one of the project's inputs; nil if there is no command.
func (p *Project) postLinkTool(ctx context.Context) ([]toolState, error) {
	c := p.state.Board.PostLink
	if c.IsZero() || strings.HasPrefix(c.Words[0], boards.BoardWord) {
		return nil, nil
	}
	path, err := p.postLinkProgram()
	if err != nil {
		return nil, err
	}
	version, err := p.versionOf(ctx, path)
	return []toolState{{Name: c.Words[0], Version: version}}, err
}

// sayPostLink adds the command, and the values of its variables, to what the build id depends on.
func (p *Project) sayPostLink(s *cache.Sentence) {
	c := p.state.Board.PostLink
	if c.IsZero() {
		return
	}
	s.Say("post_link", c.Words...)
	for _, name := range c.Variables() {
		value := p.postLinkValue(name)
		if info, err := os.Stat(value); err == nil && info.Mode().IsRegular() {
			if sum, err := digestOfFile(value); err == nil {
				value = sum // of a key, for instance
			}
		}
		s.Say("post_link variable", name, value)
	}
}

// postLinkValue returns the value of a variable. The path of a file is absolute: the command runs elsewhere than this
// process.
func (p *Project) postLinkValue(name string) string {
	value := p.variable(name)
	if _, err := os.Stat(value); err != nil {
		return value
	}
	return abspath.Of(value)
}

// postLink runs the board's command on the linked image, and replaces the project's by what the command wrote. The
// image in the build's folder stays as it was linked.
func (b *buildRun) postLink(ctx context.Context, folder *cache.Folder) error {
	if b.state.Board.PostLink.IsZero() {
		return nil
	}
	elf := b.state.Template.ELF
	linked, err := b.t.root.ReadFile(filepath.FromSlash(elf))
	if notThere(err) {
		return nil // inspect reports it
	}
	if err != nil {
		return b.t.error("read", elf, err)
	}
	in, err := openTree(folder.Dir)
	if err != nil {
		return err
	}
	defer in.close()
	if err := b.offerLinked(in, linked); err != nil {
		return err
	}
	if err := b.runPostLink(ctx, in, folder.Lock); err != nil {
		return err
	}
	loads, err := b.postLinked(in)
	if err != nil {
		return b.postLinkFailed("", "%w", err)
	}
	changed, err := b.relinked(linked, loads)
	if err != nil {
		return b.postLinkFailed("see "+postLinkPage, "%w", err)
	}
	if err := atomicwriter.WriteFile(filepath.Join(b.t.dir, filepath.FromSlash(elf)), changed, 0o755); err != nil {
		return b.t.error("write", elf, err)
	}
	return b.renewForms(b.t, changed)
}

const postLinkPage = "docs/board.md"

// postLinkFailed returns an error about what the command made.
func (p *Project) postLinkFailed(next, format string, args ...any) error {
	return failure.New(failure.Link, next, "post_link of board "+p.state.Board.Name+": "+format, args...)
}

// offerLinked writes the files that the command names and reads, and removes the one that it writes.
func (p *Project) offerLinked(t *tree, linked []byte) error {
	folder := p.inBuild(postLinkFolder)
	if err := t.root.RemoveAll(filepath.FromSlash(folder)); err != nil {
		return t.error("remove", folder, err)
	}
	if err := t.root.MkdirAll(filepath.FromSlash(folder), 0o755); err != nil {
		return t.error("create", folder, err)
	}
	f, err := elf.NewFile(bytes.NewReader(linked))
	if err != nil {
		return failure.New(failure.Link, p.correctBuild(), "%s: %w", p.state.Template.ELF, err)
	}
	if err := checkReserved(f, p.state.Template.ELF, p.Board()); err != nil {
		return err
	}
	loads, err := firmware.Loads(f, p.state.Template.ELF)
	if err != nil {
		return err
	}
	if len(loads) == 0 {
		return p.postLinkFailed("", "the image loads nothing")
	}
	words := strings.Join(p.state.Board.PostLink.Words, "\n")
	for word, form := range map[string]func() ([]byte, error){
		boards.ELFWord: func() ([]byte, error) { return linked, nil },
		boards.BinWord: func() ([]byte, error) { return flat(loads) },
		boards.HexWord: func() ([]byte, error) { return firmware.HEX(loads), nil },
	} {
		if !strings.Contains(words, word) {
			continue
		}
		data, err := form()
		if err != nil {
			return p.postLinkFailed("", "%s: %w", word, err)
		}
		if err := t.writeFile(p.postLinkFile(word), data); err != nil {
			return err
		}
	}
	return nil
}

// loadsOf returns what an ELF file loads.
func loadsOf(file []byte, name string) ([]firmware.Segment, error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, failure.Errorf(failure.Link, "%s: %w", name, err)
	}
	return firmware.Loads(f, name)
}

// flat returns sorted segments as raw bytes, from the first one on. Bytes between them are as erased.
func flat(loads []firmware.Segment) ([]byte, error) {
	if len(loads) == 0 {
		return nil, errors.New("the image loads nothing")
	}
	start, end := loads[0].Addr, loads[len(loads)-1].End()
	if end-start > maxPostLinked {
		return nil, fmt.Errorf("the image is spread over %d bytes", end-start)
	}
	bin := bytes.Repeat([]byte{firmware.Erased}, int(end-start))
	for _, s := range loads {
		copy(bin[s.Addr-start:], s.Data)
	}
	return bin, nil
}

// postLinkArgs returns the command's arguments, with their words replaced.
func (p *Project) postLinkArgs(folder string) (args []string, err error) {
	words := []string{boards.BoardWord, generator.Board}
	for _, word := range []string{boards.ELFWord, boards.BinWord, boards.HexWord, boards.OutBinWord, boards.OutHexWord} {
		words = append(words, word, filepath.Join(folder, filepath.FromSlash(p.postLinkFile(word))))
	}
	for _, word := range p.state.Board.PostLink.Words[1:] {
		if name, isVariable := strings.CutPrefix(word, "$"); isVariable {
			value := p.postLinkValue(name)
			if value == "" {
				return nil, failure.New(failure.Config, "set it", "post_link of board %s needs the variable %s, which is not set",
					p.state.Board.Name, name)
			}
			args = append(args, value)
			continue
		}
		args = append(args, strings.NewReplacer(words...).Replace(word))
	}
	return args, nil
}

// postLinkTyped returns the command as typed in a shell. It names variables, whose values may be secret.
func (p *Project) postLinkTyped(dir, program string, args []string) string {
	words := []string{"cd", command.Quote(dir), "&&", command.Command{Path: program}.Typed()}
	for i, arg := range args {
		if word := p.state.Board.PostLink.Words[i+1]; strings.HasPrefix(word, "$") {
			words = append(words, `"`+word+`"`)
		} else {
			words = append(words, command.Quote(arg))
		}
	}
	return strings.Join(words, " ")
}

// runPostLink runs the command, in the project's folder, on files of another one.
func (b *buildRun) runPostLink(ctx context.Context, in *tree, held *os.File) error {
	program, err := b.postLinkProgram()
	if err != nil {
		return err
	}
	args, err := b.postLinkArgs(in.dir)
	if err != nil {
		return err
	}
	limit := postLinkTimeout
	if b.builder.postLinkLimit > 0 {
		limit = b.builder.postLinkLimit
	}
	run := toolRun{dir: b.t.dir, path: program, args: args, held: held, log: b.builder.log(), limit: limit}
	run.line = func(string) {}
	err = run.run(ctx)
	if failed := (*ToolError)(nil); errors.As(err, &failed) {
		failed.Command = b.postLinkTyped(b.t.dir, program, args)
		switch {
		case errors.Is(err, command.ErrTooLong):
			failed.Class = failure.Timeout
		case failed.Class != failure.Host:
			failed.Class = failure.Link
		}
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("post_link of board %s: %w", b.state.Board.Name, err)
	}
	return err
}

// postLinked reads what the command wrote, and where it is loaded.
func (p *Project) postLinked(t *tree) ([]firmware.Segment, error) {
	word := p.state.Board.PostLink.Writes()
	name := p.postLinkFile(word)
	data, err := t.readSome(name, maxPostLinked+1)
	switch {
	case notThere(err) || err == nil && len(data) == 0:
		return nil, fmt.Errorf("the command succeeded and wrote no %s", name)
	case err != nil:
		return nil, t.error("read", name, err)
	case len(data) > maxPostLinked:
		return nil, fmt.Errorf("%s is larger than %d MiB", name, maxPostLinked>>20)
	}
	if word == boards.OutHexWord {
		loads, err := firmware.ParseHEX(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return loads, nil
	}
	b := p.Board()
	code, _ := b.Region(b.Place.Code)
	return []firmware.Segment{{Addr: uint64(code.Origin), Data: data}}, nil
}

// relinked returns the linked image with the bytes that the command wrote. The checksum of the firmware covers all of
// them: where a part of it ends later than they do, erased bytes follow. Erased bytes outside of the parts and of what
// was linked are left out.
func (p *Project) relinked(linked []byte, loads []firmware.Segment) ([]byte, error) {
	f, err := elf.NewFile(bytes.NewReader(linked))
	if err != nil {
		return nil, err
	}
	parts, err := p.state.Template.Landmarks.FindParts(f, p.state.Template.ELF)
	if err != nil {
		return nil, err
	}
	were, err := firmware.Loads(f, p.state.Template.ELF)
	if err != nil {
		return nil, err
	}
	return firmware.Reload(linked, fitted(loads, parts, were))
}

// fitted extends segments, after the end of what was linked, to the ends of parts that begin in them, and removes
// runs of erased bytes outside of parts and of what was linked.
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
			if s.End() >= linkedEnd && s.End() > r.Start && s.End() < r.End && missing <= maxPostLinkRoom {
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

// maxPostLinkRoom limits the bytes that the linker script leaves for what the command appends.
const maxPostLinkRoom = 64 << 10

// renewForms writes the image's other forms that the build command made, from the new image.
func (p *Project) renewForms(t *tree, file []byte) error {
	loads, err := loadsOf(file, p.state.Template.ELF)
	if err != nil {
		return err
	}
	forms := p.state.Template.Forms
	for name, form := range map[string]func() ([]byte, error){
		forms.Bin: func() ([]byte, error) { return flat(loads) },
		forms.Hex: func() ([]byte, error) { return firmware.HEX(loads), nil },
	} {
		if _, err := t.root.Lstat(filepath.FromSlash(name)); name == "" || err != nil {
			continue
		}
		data, err := form()
		if err != nil {
			return p.postLinkFailed("", "%s: %w", name, err)
		}
		if err := t.writeFile(name, data); err != nil {
			return err
		}
	}
	return nil
}

// postLinkNeeds returns whether the programs are there that boards of the search path run after the link.
func (b *Builder) postLinkNeeds() (all []TemplateNeed) {
	for _, name := range boards.List(b.Path) {
		board, err := boards.Find(name, b.Path)
		if err != nil || board.PostLink.IsZero() || strings.HasPrefix(board.PostLink.Words[0], boards.BoardWord) {
			continue // mage boards tells what is wrong with a board
		}
		n := TemplateNeed{Board: name, Name: board.PostLink.Words[0]}
		n.Found, n.Err = command.Find(n.Name, "")
		all = append(all, n)
	}
	return all
}
