// This file checks what operators include: a result belongs to the contents of their files, and whoever uploads an
// operator reads no other file of this computer.

package ramlink

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
)

const includeHelp = "add it to the files, or name a library of the project that has it"

// ownFlag matches flags besides those of the option operator_flags: any value of a macro, folders, whose headers are
// listed, and the processor's, of which results and the linker show that they fit the firmware.
var ownFlag = regexp.MustCompile(`^-(D[A-Za-z_].*|I.+|m[a-z0-9.=+-]+|Ofast)$`)

// checkFlags refuses flags by which a compiler may read files that its list of headers lacks, or write other files than
// the object.
func checkFlags(flags []string) error {
	for _, flag := range flags {
		option := boards.Options{OperatorFlags: flag}.OperatorFlagsOf("")
		if !ownFlag.MatchString(flag) && !slices.Equal(option, []string{flag}) {
			return failure.New(failure.Config, "leave it out; a header is found that is among the files, or a library's",
				"operators: flag %q is neither -O…, -f… without a comma, -m…, -IFOLDER, -DNAME=VALUE nor --param=P=NUMBER", flag)
		}
	}
	return nil
}

// An includer is a compiler with the folders whose files all operators may include.
type includer struct {
	system []string // without symbolic links
	gnu    bool     // GCC with GNU's assembler, which lists the files that it includes
}

// assemblerList is the assembler's list of the files that it has read.
const assemblerList = ".assembler.d"

// askIncluder asks the compiler for its folders of system headers, and whether it is GNU's.
func (l *Linker) askIncluder(ctx context.Context) (err error) {
	cc, flags := l.compile[0], l.compile[1:]
	args := slices.Concat(flags, []string{"-xc", "-E", "-v", os.DevNull})

	l.includer, err = buildenv.Once(ctx, l.setting.Tools, cc, "includer\x00"+strings.Join(args, "\x00"),
		func() (includer, error) {
			_, output, err := command.Command{Path: cc, Args: args, Timeout: buildenv.AskTimeout}.Capture(ctx)
			if err != nil {
				return includer{}, err
			}

			_, list, _ := strings.Cut(output, "<...> search starts here:\n")
			list, _, _ = strings.Cut(list, "\nEnd of search list")
			i := includer{gnu: !strings.Contains(output, "clang")}
			for line := range strings.Lines(list) {
				// A folder that the compiler lists need not exist.
				if folder, err := filepath.EvalSymlinks(strings.TrimSpace(line)); err == nil {
					i.system = append(i.system, folder)
				}
			}
			return i, nil
		})
	return err
}

// listing are the flags with which the compiler lists the files that it and the assembler read, and for files of
// strangers those by which its messages show no line of a file, which a #line can make any file.
func (l *Linker) listing(o Operators) []string {
	words := []string{"-MD", "-pipe"}
	switch {
	case l.includer.gnu && o.Untrusted:
		words = append(words, "-Wa,--MD,"+assemblerList, "-fno-diagnostics-show-caret")
	case l.includer.gnu:
		words = append(words, "-Wa,--MD,"+assemblerList)
	case o.Untrusted:
		words = append(words, "-fno-caret-diagnostics")
	}
	return words
}

// checkIncludes returns an error if a C file in dir included a file that belongs neither to the operators nor to the
// firmware, a library or the compiler. It reads the lists that the compiler and the assembler have written.
func (l *Linker) checkIncludes(dir, source string) error {
	lists := []string{strings.TrimSuffix(objectName(source), ".o") + ".d"}
	if l.includer.gnu {
		lists = append(lists, assemblerList)
	}

	for _, name := range lists {
		list, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for _, file := range prerequisites(string(list)) {
			if err := l.checkInclude(dir, source, file); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Linker) checkInclude(dir, source, file string) error {
	if l.mayInclude(dir, file) {
		return nil
	}
	return failure.New(failure.Config, includeHelp, "%s includes %s, which is not among the operators' files", source,
		file)
}

// messageFile matches lines that name a file which a compiler has opened (-H), or an assembler's message about a line
// of a file.
var messageFile = regexp.MustCompile(`^(?:\.+ (.+)|(.+?):\d+: +(?:Fatal error|Error|Warning|Info): .*)$`)

// A reading finds the first file in messages that operators must not include. It is used from one goroutine.
type reading struct {
	l           *Linker
	dir, source string
	last        string // file, which many messages have
	err         error
}

// add adds a line of the compiler or of the assembler.
func (r *reading) add(line string) {
	m := messageFile.FindStringSubmatch(line)
	if m == nil || m[2] == "{standard input}" || m[1]+m[2] == r.last || r.err != nil {
		return
	}
	r.last = m[1] + m[2]
	r.err = r.l.checkInclude(r.dir, r.source, r.last)
}

// checkFailed is checkIncludes for a C file that does not compile, of which there is no list. r has read the messages.
func (r *reading) checkFailed(ctx context.Context, flags []string) error {
	words := slices.Concat(r.l.compile, flags, []string{"-I.", "-fsyntax-only", "-H", "./" + r.source})
	c := command.Command{Path: words[0], Args: words[1:], Dir: r.dir, Timeout: buildenv.AskTimeout, Err: r.add}
	_ = c.Run(ctx) // which fails as before
	return r.err
}

// mayInclude reports whether a file is the operators', or lies in a folder of the firmware, a library or the compiler.
func (l *Linker) mayInclude(dir, file string) bool {
	shared := filepath.IsAbs(file)
	if _, known := l.included.Load(file); known {
		return true
	}

	if !shared {
		file = dir + string(filepath.Separator) + file // not Join: links come before ..
	}
	resolved, err := filepath.EvalSymlinks(file)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) // a name in a line marker, of which nothing was read
	}

	may := l.inFolder(dir, resolved)
	if may && shared {
		l.included.Store(file, true) // following its links takes a dozen system calls
	}
	return may
}

// inFolder reports whether a file lies in dir, or in a folder of the firmware, a library or the compiler.
func (l *Linker) inFolder(dir, file string) bool {
	folders := append([]string{dir}, l.includer.system...) // most are in the first: the links of others are not followed
	for _, word := range l.compile[1:] {
		if at := strings.Index(word, "/"); at >= 0 {
			folders = append(folders, word[at:])
		}
	}

	return slices.ContainsFunc(folders, func(folder string) bool {
		resolved, err := filepath.EvalSymlinks(folder)
		return err == nil && contains(resolved, file)
	})
}

// contains reports whether a file is a folder's, or is the folder itself.
func contains(folder, file string) bool {
	rel, err := filepath.Rel(folder, file)
	return err == nil && filepath.IsLocal(rel)
}

// escapes are those of make in the compiler's list.
var escapes = strings.NewReplacer("\\ ", "\x00", "\\#", "#", "$$", "$", "\\\n", " ")

// prerequisites returns the files behind the first colon of a rule of make.
func prerequisites(rule string) []string {
	_, files, _ := strings.Cut(escapes.Replace(rule), ": ")
	all := strings.Fields(files)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "\x00", " ")
	}
	return all
}
