// This file reads from the compiler how it calls the linker.

package ramlink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
)

// askLinker reads from the compiler's output how it would call the linker: without the compiler in between, a link
// takes a third of the time.
func (l *Linker) askLinker(ctx context.Context, cc string, flags []string) error {
	const object = "operators.o"
	isLibrary := func(w string) bool { return strings.HasPrefix(w, "-l") }

	var libraries []string
	for _, w := range flags {
		if isLibrary(w) {
			libraries = append(libraries, w)
		}
	}

	// Libraries come behind the object, which takes functions from them.
	args := slices.Concat(slices.DeleteFunc(slices.Clone(flags), isLibrary),
		[]string{"-nostartfiles", "-static", "-###", "-T" + operatorScript, object}, libraries)

	output, err := buildenv.Once(ctx, l.setting.Tools, cc, strings.Join(args, "\x00"), func() (output string, err error) {
		folder, err := scratch.Make("boardsmith-linker")
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, folder.Remove()) }()

		// Clang names only objects that exist.
		if err := os.WriteFile(filepath.Join(folder.Dir, object), nil, 0o600); err != nil {
			return "", err
		}

		c := command.Command{Path: cc, Args: args, Dir: folder.Dir, Timeout: buildenv.AskTimeout}
		_, output, err = c.Capture(ctx)
		return output, err
	})
	if err != nil {
		return err
	}

	ld, err := buildenv.Once(ctx, l.setting.Tools, cc, "-print-prog-name=ld",
		func() (string, error) { return command.Ask(ctx, cc, "-print-prog-name=ld") })
	if err != nil {
		return err
	}
	if ld, err = command.Find(ld, l.setting.Board.Toolchain.Install); err != nil {
		return err
	}

	l.link = []string{ld}
	var words []string
	for line := range strings.SplitSeq(output, "\n") {
		if strings.HasPrefix(line, " ") { // a command line; the last one links
			words = quotedWords(line)
		}
	}

	at := slices.Index(words, object)
	if at < 1 {
		return fmt.Errorf("%s does not say how it links: %q", command.Name(cc), output)
	}

	l.link = append(l.link, linkerWords(words[1:at])...)
	l.libs = linkerWords(words[at+1:])
	return nil
}

// linkerWords removes the words that a link of operators sets itself, and the compiler's own plug-in.
func linkerWords(words []string) (kept []string) {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == "-plugin", w == "-o", w == "-T", w == "-dynamic-linker":
			i++
		case strings.HasPrefix(w, "-plugin-opt"), strings.HasPrefix(w, "-T"):
		default:
			kept = append(kept, w)
		}
	}
	return kept
}

// quotedWords takes a command line apart as GCC prints it with -###.
func quotedWords(line string) (words []string) {
	var word strings.Builder
	quoted, begun := false, false

	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			if c == '\\' && i+1 < len(line) {
				i++
			}
			word.WriteByte(line[i])
			begun = true
		}
	}

	if begun {
		words = append(words, word.String())
	}
	return words
}
