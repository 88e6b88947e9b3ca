// This file lists what a build command may read besides the folder in which it runs.

package buildenv

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/command"
)

// ofSystem are patterns of what belongs to the operating system and to programs: in the home folder, where these keep
// settings, caches and themselves. Other hidden folders hold vendors' SDKs, too, whose changes must count.
var ofSystem = []string{
	"/bin", "/dev", "/etc", "/gnu", "/lib*", "/nix", "/proc", "/sbin", "/sys", "/usr/*", "/usr/local/*",
	"~/.cache", "~/.ccache", "~/.cmake", "~/.config", "~/.gitconfig", "~/.local/bin", "~/.local/lib", "~/.local/share",
	"~/.westconfig", "~/.zephyrrc", "~/.asdf", "~/.pyenv", "~/.rustup",
}

// notOfSystem are folders that have also what is installed by hand. The other folders in them are in ofSystem.
var notOfSystem = []string{"/", "/usr", "/usr/local", "/usr/local/include", "/usr/local/src"}

// Reads returns the files and folders outside of its own folder that the build command may read: those that count for
// the build, folders of programs, what belongs to those that are known to run, and the template's reads. cc is the path
// of the board's compiler, "" if only the build finds it. It is nil, without a limit, where the system enforces none,
// and for a program in a snap, which a limited process cannot start.
func (e Env) Reads(ctx context.Context, cc string, flags []string) []string {
	if !command.Confines() {
		return nil
	}
	all := slices.Concat(e.found(ofSystem), filepath.SplitList(os.Getenv("PATH")), e.toolFolders())

	programs := []string{cc}
	for _, tool := range e.Template.Tools {
		path, _ := e.Tool(tool) // it was found before
		programs = append(programs, path)
	}
	for _, words := range append(slices.Clone(e.Template.Prepare), e.Template.Build, []string{"python3"}) {
		path, _ := e.ProgramOf(words) // python3 need not be there
		programs = append(programs, path)
	}
	for _, path := range programs {
		real, _ := filepath.EvalSymlinks(path)
		if filepath.Base(real) == "snap" {
			return nil
		}
		all = append(all, around(filepath.Dir(path)), around(filepath.Dir(real)))
	}
	if cc != "" {
		all = append(all, e.ofCompiler(ctx, cc, flags)...)
	}

	// Whatever led to such a folder, a compiler's variable that is /usr, too, only a place whose contents count opens it.
	all = append(all, e.found(e.Template.Reads)...)
	all = slices.DeleteFunc(all, func(path string) bool {
		return slices.Contains(notOfSystem, filepath.Clean(path)) && !slices.Contains(e.Template.Reads, path)
	})
	all = append(all, e.found(slices.Concat(e.Template.Outside, e.Template.Trees))...)

	// A program that was not found has the folder ".", which is this process's, not the command's.
	return slices.DeleteFunc(all, func(path string) bool { return !filepath.IsAbs(path) })
}

// found returns the files and folders that places stand for.
func (e Env) found(places []string) (all []string) {
	for _, place := range places {
		for _, path := range e.places(place) {
			found, _ := filepath.Glob(path)

			if len(found) == 0 && !strings.Contains(place, "/") { // the beginning of programs' names, as in CROSS_COMPILE
				found = []string{around(filepath.Dir(path))}
			}
			all = append(all, found...)
		}
	}
	return all
}

// around returns the folder whose bin a folder is, or else the folder itself.
func around(dir string) string {
	above := filepath.Dir(dir)
	home, _ := os.UserHomeDir()

	// Around /bin and ~/bin are all other files.
	if filepath.Base(dir) != "bin" || above == home || above == "/" {
		return dir
	}
	return above
}

var (
	absolute    = regexp.MustCompile(`/[^:\n]+`)
	belowPrefix = regexp.MustCompile(`/lib(64|exec)?/gcc/.*`)
)

// ofCompiler asks a compiler for its folders: a program of its name may be a script that starts it.
func (e Env) ofCompiler(ctx context.Context, cc string, flags []string) (all []string) {
	for _, question := range []string{"-print-search-dirs", "-print-sysroot"} { // not every compiler has both
		words := append(slices.Clone(flags), question)
		text, _ := Once(ctx, e.Tools, cc, strings.Join(words, "\x00"), func() (string, error) {
			text, _, err := command.Command{Path: cc, Args: words, Dir: "/", Timeout: AskTimeout}.Capture(ctx)
			return text, err
		})

		for _, dir := range absolute.FindAllString(text, -1) {
			all = append(all, around(belowPrefix.ReplaceAllString(filepath.Clean(dir), "")))
		}
	}
	return all
}
