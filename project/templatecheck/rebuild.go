// This file checks that a build after a change has the result of a build from nothing.

package templatecheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/internal/builddir"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

func (c *checking) again(ctx context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	second, err := c.p.Build(ctx)
	if err != nil {
		return "", err
	}

	if !second.UpToDate || second.Digest != c.image.Digest {
		return "", errors.New("nothing was changed, but the image was built again")
	}
	return "", nil
}

// modelSource returns a C file of the model.
func (c *checking) modelSource() (string, error) {
	var all []string
	folders := c.state.Template.Landmarks.Folders
	for name := range c.state.Files {
		generated := name == path.Join(folders.OfModel(), generator.AdapterFile) ||
			name == path.Join(folders.OfModel(), generator.SignaturesFile)
		if folders.InModel(name) && strings.HasSuffix(name, ".c") && !generated {
			all = append(all, name)
		}
	}

	if len(all) == 0 {
		return "", skipped("the archive has no C file")
	}

	// All checks change the same file.
	slices.Sort(all)
	return all[0], nil
}

// with builds the project with a line at the end of a C file of the model, calls check, and restores the file.
func (c *checking) with(ctx context.Context, line string, check func(name string, err error) error) error {
	if err := c.needsBuild(); err != nil {
		return err
	}

	name, err := c.modelSource()
	if err != nil {
		return err
	}
	source, err := os.ReadFile(c.at(name))
	if err != nil {
		return err
	}

	if err := os.WriteFile(c.at(name), slices.Concat(source, []byte("\n"+line+"\n")), 0o644); err != nil {
		return err
	}

	// The file is restored whatever the check finds.
	_, failed := c.p.Build(ctx)
	if err := errors.Join(check(name, failed), os.WriteFile(c.at(name), source, 0o644)); err != nil {
		return err
	}

	restored, err := c.p.Build(ctx)
	if err == nil && restored.Digest != c.image.Digest {
		err = fmt.Errorf("%s has its former content, but the image is another one", name)
	}
	return err
}

func (c *checking) operator(ctx context.Context) (result string, err error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	before, err := c.objects()
	if err != nil {
		return "", err
	}

	err = c.with(ctx, "int boardsmith_changed;", func(name string, err error) error {
		if err != nil {
			return err
		}

		i, err := c.p.Built()
		if err != nil {
			return err
		}
		current, err := c.objects()
		if err == nil && len(current) > 0 {
			result, err = recompiled(before, current, name)
		}
		if err == nil && i.BuildID == c.image.BuildID {
			err = fmt.Errorf("%s was changed, but the build id is the same: it must be a hash, as of -Wl,--build-id=md5", name)
		}
		return err
	})
	if err == nil && result == "" {
		err = skipped("the build folder has no objects")
	}
	return result, err
}

// An objectState is what is known about an object file.
type objectState struct {
	modified time.Time
	digest   string
}

// objects returns the objects of the project's sources, by their paths, in its build folder and in kept folders, with
// those that CMake makes of several sources.
func (c *checking) objects() (map[string]objectState, error) {
	sources := map[string]bool{}
	for name := range c.state.Files {
		if workdir.IsSource(name) {
			base := path.Base(name)
			sources[base], sources[strings.TrimSuffix(base, path.Ext(base))] = true, true
		}
	}
	all := map[string]objectState{}

	// The project and the cache with the kept folders are both in home.
	err := filepath.WalkDir(c.home, func(at string, d fs.DirEntry, err error) error {
		stem := strings.TrimSuffix(d.Name(), filepath.Ext(at))
		if err != nil || !slices.Contains([]string{".o", ".obj"}, filepath.Ext(at)) ||
			!sources[stem] && !unityObject.MatchString(stem) {
			return err
		}

		info, err := d.Info()
		if err != nil {
			return err
		}

		sum, err := buildenv.DigestOfFile(at)
		all[at] = objectState{info.ModTime(), sum}
		return err
	})
	return all, err
}

// unityObject matches CMake's names of sources that include others (its property UNITY_BUILD), and the Makefile's.
var unityObject = regexp.MustCompile(`^unity_.+_(c|c\.c|cxx\.cxx)$`)

// recompiled returns an error if the object of a changed source is the same, or if another one was compiled again to
// the same bytes: then nothing that it depends on was changed.
func recompiled(before, after map[string]objectState, source string) (string, error) {
	var compiled, needless []string
	changed := false
	for path, object := range after {
		old := before[path]
		if object.modified.Equal(old.modified) && object.digest == old.digest {
			continue
		}

		name := filepath.Base(path)
		compiled = append(compiled, name)
		if object.digest == old.digest {
			needless = append(needless, name)
		}

		changed = changed || strings.HasPrefix(name, strings.TrimSuffix(filepath.Base(source), "c"))
	}

	slices.Sort(compiled)
	slices.Sort(needless)
	switch {
	case !changed:
		return "", fmt.Errorf("%s was changed, but it was not compiled again", source)
	case len(needless) > 0:
		return "", fmt.Errorf("only %s was changed, but these were compiled again: %s", source, strings.Join(needless, ", "))
	}
	return "compiled: " + strings.Join(compiled, ", "), nil
}

// inFolder compares builds in the folder of the first one with builds from nothing.
func (c *checking) inFolder(ctx context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}

	source, err := c.modelSource()
	if err != nil {
		return "", err
	}
	fresh, err := c.fresh.Generate(ctx, filepath.Join(c.home, "fresh"), c.Spec)
	if err != nil {
		return "", err
	}
	defer fresh.Close()
	headers, err := c.headers(ctx, fresh) // first: the folder has what the project was built from
	if err != nil {
		return "", err
	}

	// The line is empty: all these files change, but nothing that is compiled.
	if err := withLine(ctx, fresh, c.lineable(), ""); err != nil {
		return "", c.blamed(ctx, fresh, err)
	}

	more := path.Join(path.Dir(source), "boardsmith_more.c")
	renamed := path.Join(path.Dir(source), "boardsmith_renamed.c")
	const text = "const int boardsmith_more = 1;\n"
	for _, step := range []struct{ change, write, remove string }{
		{"there is a file more, " + more, more, ""},
		{more + " has another name, " + renamed, renamed, more},
		{renamed + " was removed", "", renamed},
	} {
		if step.write != "" {
			err = os.WriteFile(inProject(fresh, step.write), []byte(text), 0o644)
		}
		if step.remove != "" {
			err = errors.Join(err, os.Remove(inProject(fresh, step.remove)))
		}
		if err == nil {
			_, err = fresh.Build(ctx)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", step.change, err)
		}
	}
	return fmt.Sprintf("%d changes", 4+headers), nil
}

// headers has each header of the template, the board and the model not compile. Where a build from nothing fails, so
// must one in the folder. It returns how many it changed.
func (c *checking) headers(ctx context.Context, fresh *project.Project) (n int, err error) {
	for _, name := range c.lineable() {
		if !boardfile.IsHeader(name) || strings.HasPrefix(name, "crt/") {
			continue
		}

		n++
		if _, err := c.p.Build(ctx); err != nil { // without the last header's change
			return n, err
		}

		// An error shows whether any source with the header was compiled again.
		const line = "#error changed"
		noticed := withLine(ctx, c.p, []string{name}, line) != nil
		if !noticed && withLine(ctx, fresh, []string{name}, line) != nil && ctx.Err() == nil {
			return n, fmt.Errorf("%s was changed so that it does not compile, but sources that include it were not compiled "+
				"again: the build must depend on it, as by -MMD", name)
		}

		if ctx.Err() != nil {
			return n, ctx.Err()
		}
	}
	return n, nil
}

// lineable lists the inputs that get a line in a check of the build's folder: those whose contents do not choose it,
// but for objects.
func (c *checking) lineable() (names []string) {
	b := builddir.Build{State: c.state}
	for name := range c.state.Files {
		if c.state.Template.IsInput(name) && !b.Configures(name) && path.Ext(name) != ".o" {
			names = append(names, name)
		}
	}

	slices.Sort(names)
	return names
}

// withLine builds a project with a line at the end of files, and restores them.
func withLine(ctx context.Context, p *project.Project, names []string, line string) error {
	former := map[string][]byte{}
	defer func() {
		for name, text := range former {
			_ = os.WriteFile(inProject(p, name), text, 0o644) // the next check finds that it has changed
		}
	}()

	for _, name := range names {
		text, err := os.ReadFile(inProject(p, name))
		if err != nil {
			return err
		}
		former[name] = text
		if err := os.WriteFile(inProject(p, name), slices.Concat(text, []byte(line+"\n")), 0o644); err != nil {
			return err
		}
	}

	_, err := p.Build(ctx)
	return err
}

// blamed returns the error for the one file that a build after changes of all files misses, else err.
func (c *checking) blamed(ctx context.Context, fresh *project.Project, err error) error {
	for _, name := range c.lineable() {
		if _, failed := fresh.Build(ctx); failed != nil {
			return err // also without a change
		}
		if failed := withLine(ctx, fresh, []string{name}, ""); failed != nil {
			return failed
		}
	}
	return err
}

func (c *checking) byHand(ctx context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}

	p, err := c.builder.Generate(ctx, filepath.Join(c.home, "another-folder", "by-hand"), c.Spec)
	if err != nil {
		return "", err
	}
	defer p.Close()
	t, err := workdir.Open(p.Dir())
	if err != nil {
		return "", err
	}
	defer t.Close()
	s, err := projectfile.Read(p.Dir())
	if err != nil {
		return "", err
	}

	words, err := c.newBuild(s, t).ByHand(ctx)
	if err != nil {
		return "", err
	}

	digest, err := t.Digest(s.Template.ELF)
	if err == nil && digest != c.image.Digest {
		err = c.otherFile(c.at(s.Template.ELF), filepath.Join(p.Dir(), filepath.FromSlash(s.Template.ELF)))
	}
	return strings.Join(words, " "), err
}

// otherFile returns the error for images of two folders that differ, perhaps in the build id alone.
func (c *checking) otherFile(paths ...string) error {
	digests := map[string]bool{}
	for _, path := range paths {
		digest, err := loadedDigest(path)
		if err != nil {
			return err
		}
		digests[digest] = true
	}

	if len(digests) == 1 {
		return fmt.Errorf("%s: another folder gives another build id or other debugging information: the id must be a hash "+
			"of the file, not uuid", c.found.ELF)
	}
	return fmt.Errorf("%s: another folder gives another file", c.found.ELF)
}

var errSucceeded = errors.New("it succeeded")
