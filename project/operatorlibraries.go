// This file lets operators for RAM use the project's libraries.

package project

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/generator"
	"github.com/boardsmith/boardsmith/internal/library"
)

// useLibraries adds the headers of the project's libraries to the linker's compiler, and their archives to its links.
func (l *OperatorLinker) useLibraries(p *Project) error {
	l.libraries, l.archives = p.state.Libraries, map[string]string{}
	for _, s := range l.libraries {
		l.about = append(l.about, "library "+s.Name)
		dir := filepath.Join(p.dir, generator.Libraries, s.Name)
		lib, err := library.Read(dir, s.Name)
		if err != nil {
			return err
		}
		for _, h := range lib.Headers {
			l.compile = append(l.compile, "-I"+filepath.Join(dir, filepath.FromSlash(h)))
		}
		archive := p.archiveOf(s)
		switch _, err := os.Stat(archive); {
		case errors.Is(err, fs.ErrNotExist) && len(lib.Sources) == 0: // only headers
		case errors.Is(err, fs.ErrNotExist):
			return failure.New(failure.Config, "build the project first", "library %s is not compiled", s.Name)
		case err != nil:
			return err
		default:
			l.archives[s.Name] = archive
		}
	}
	return nil
}

// archiveOf returns where a build puts a library.
func (p *Project) archiveOf(s libraryState) string {
	return filepath.Join(p.dir, filepath.FromSlash(p.inBuild(path.Join(generator.Libraries, s.Name+".a"))))
}

// withLibraries returns one object of the operators and of what their entries need of the libraries, which it links in
// dir; the objects themselves if there are no libraries.
func (l *OperatorLinker) withLibraries(ctx context.Context, dir string, objects []OperatorFile, entries []string) (
	[]OperatorFile, error,
) {
	if len(l.archives) == 0 {
		return objects, nil
	}
	data := map[string][]byte{}
	for _, o := range objects {
		data[o.Name] = o.Data
	}
	if err := library.Check(l.archives, data); err != nil {
		return nil, err
	}
	if err := writeAll(dir, objects); err != nil {
		return nil, err
	}
	const joined = "../boardsmith_joined.o" // in no folder with names of operators
	words := append(l.emulation(), "-r", "-o", joined)
	for _, e := range entries {
		_, symbol := firmware.EntryNames(e)
		words = append(words, "-u", symbol)
	}
	for _, o := range objects {
		words = append(words, "./"+o.Name)
	}
	words = append(words, "--start-group")
	for _, s := range l.libraries {
		if archive := l.archives[s.Name]; archive != "" {
			words = append(words, archive)
		}
	}
	words = append(words, "--end-group")
	if err := l.run(ctx, dir, words); err != nil {
		return nil, err
	}
	linked, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(joined)))
	return []OperatorFile{{path.Base(joined), linked}}, err
}
