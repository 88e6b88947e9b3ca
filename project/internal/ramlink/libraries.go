// This file lets operators for RAM use the project's libraries.

package ramlink

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/library"
	"github.com/boardsmith/boardsmith/mlf"
)

// useLibraries adds the headers of the project's libraries to the linker's compiler, and their archives to its links.
func (l *Linker) useLibraries() error {
	l.archives = map[string]string{}
	for _, s := range l.setting.Libraries {
		l.about = append(l.about, "library "+s.Name)
		lib, err := library.Read(s.Folder, s.Name)
		if err != nil {
			return err
		}

		for _, h := range lib.Headers {
			l.compile = append(l.compile, "-I"+filepath.Join(s.Folder, filepath.FromSlash(h)))
		}

		switch _, err := os.Stat(s.Archive); {
		case errors.Is(err, fs.ErrNotExist) && len(lib.Sources) == 0: // only headers
		case errors.Is(err, fs.ErrNotExist):
			return failure.New(failure.Config, "build the project first", "library %s is not compiled", s.Name)
		case err != nil:
			return err
		default:
			l.archives[s.Name] = s.Archive
		}
	}
	return nil
}

// withLibraries returns one object of the operators and of what their entries need of the libraries, which it links in
// dir; the objects themselves if there are no libraries.
func (l *Linker) withLibraries(ctx context.Context, dir string, objects []mlf.File, entries []string) (
	[]mlf.File, error,
) {
	if len(l.archives) == 0 {
		return objects, nil
	}

	link := library.Link{Archives: l.archives}
	for _, o := range objects {
		link.Objects = append(link.Objects, library.Object{Name: o.Name, Data: o.Data})
	}
	if err := link.Check(); err != nil {
		return nil, err
	}

	if err := writeAll(dir, objects); err != nil {
		return nil, err
	}

	const joined = "../boardsmith_joined.o" // in no folder with names of operators
	words := append(l.emulation(), "-r", "-o", joined)

	// An entry may be in an archive, from which the linker takes only what is undefined.
	for _, e := range entries {
		_, symbol := firmware.EntryNames(e)
		words = append(words, "-u", symbol)
	}
	for _, o := range objects {
		words = append(words, "./"+o.Name)
	}

	words = append(words, "--start-group")
	for _, s := range l.setting.Libraries {
		if archive := l.archives[s.Name]; archive != "" {
			words = append(words, archive)
		}
	}
	words = append(words, "--end-group")

	if err := l.run(ctx, dir, words); err != nil {
		return nil, err
	}

	linked, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(joined)))
	return []mlf.File{{Name: path.Base(joined), Data: linked}}, err
}
