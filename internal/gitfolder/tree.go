// This file writes the files of a commit, with those of its submodules.

package gitfolder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/boardsmith/boardsmith/failure"
)

const (
	maxFiles      = 1 << 20
	maxFile       = 128 << 20 // bytes of one, which go-git holds in memory
	maxModules    = 256       // submodules, with those in them
	maxModuleDeep = 16
	maxLink       = 4 << 10
)

// A checkout writes the files of commits into one folder, which did not exist.
type checkout struct {
	root    *os.Root
	objects string // a folder for git's objects
	left    int64  // bytes that may still be fetched or written
	links   map[string]string
	files   int
	modules int
}

// commit writes the files of a commit of the repository at url below a slash path; the repository is deep submodules
// below the first.
func (c *checkout) commit(ctx context.Context, url, commit, at string, deep int) error {
	r, err := connect(ctx, url)
	if err != nil {
		return err
	}
	return c.from(ctx, r, commit, at, deep)
}

func (c *checkout) from(ctx context.Context, r *remote, commit, at string, deep int) (err error) {
	objects, err := os.MkdirTemp(c.objects, "objects-") // which goes with the whole
	if err != nil {
		return err
	}
	top, store, err := r.fetch(ctx, commit, objects, c.left)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	// What git's objects take counts, too.
	c.left -= sizeOf(objects)
	tree, err := top.Tree()
	if err != nil {
		return err
	}

	modules := map[string]string{} // by slash path in the repository
	if err := c.tree(ctx, tree, at, "", modules); err != nil {
		return err
	}

	if len(modules) == 0 {
		return nil
	}
	urls, err := moduleURLs(tree)
	if err != nil {
		return err
	}

	for at1, commit := range modules {
		if err := c.module(ctx, r.url, urls[at1], path.Join(at, at1), commit, deep); err != nil {
			return fmt.Errorf("submodule %s: %w", at1, err)
		}
	}
	return nil
}

// tree writes the files of a folder of the repository; it notes links, for later, and submodules.
func (c *checkout) tree(ctx context.Context, t *object.Tree, at, below string, modules map[string]string) error {
	for _, e := range t.Entries {
		name := path.Join(at, below, e.Name)

		// A name may lead out of the folder, or be one of git's own.
		if err := checkName(e.Name); err != nil {
			return hostile("%s: %w", path.Join(below, e.Name), err)
		}

		if c.files++; c.files > maxFiles {
			return errTooMuch
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}

		var err error
		switch e.Mode {
		case filemode.Dir:
			var inner *object.Tree
			if inner, err = t.Tree(e.Name); err == nil {
				err = c.root.Mkdir(filepath.FromSlash(name), 0o755)
			}
			if err == nil {
				err = c.tree(ctx, inner, at, path.Join(below, e.Name), modules)
			}
		case filemode.Submodule:
			modules[path.Join(below, e.Name)] = e.Hash.String()
			err = c.root.Mkdir(filepath.FromSlash(name), 0o755)
		case filemode.Symlink, filemode.Regular, filemode.Deprecated, filemode.Executable:
			err = c.file(t, e, name)
		default:
			err = hostile("%s: a file of unknown kind %v", name, e.Mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hostile reports a repository whose files cannot be written safely.
func hostile(format string, args ...any) error {
	return failure.New(failure.Config, "do not use this repository, or report it to its owner",
		"the repository is refused: "+format, args...)
}

func (c *checkout) file(t *object.Tree, e object.TreeEntry, name string) error {
	f, err := t.TreeEntryFile(&e)
	if err != nil {
		return err
	}

	if f.Size > maxFile {
		return fmt.Errorf("%w: a file of more than %d MiB", errTooMuch, maxFile>>20)
	}
	if c.left -= f.Size; c.left < 0 {
		return errTooMuch
	}

	from, err := f.Reader()
	if err != nil {
		return err
	}
	defer from.Close()

	// Links are made after all files.
	if e.Mode == filemode.Symlink {
		target, err := io.ReadAll(io.LimitReader(from, maxLink))
		if err == nil && checkLink(name, string(target)) != nil {
			err = hostile("%s -> %s: %w", name, target, checkLink(name, string(target)))
		}
		c.links[name] = string(target)
		return err
	}

	mode := os.FileMode(0o644)
	if e.Mode == filemode.Executable {
		mode = 0o755
	}
	to, err := c.root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}

	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// makeLinks makes the links, after all files, so that no file is written through one.
func (c *checkout) makeLinks() error {
	for name, target := range c.links {
		if err := c.root.Symlink(filepath.FromSlash(target), filepath.FromSlash(name)); err != nil {
			return err
		}
	}
	return nil
}

// moduleURLs returns the URLs in .gitmodules by the submodules' paths.
func moduleURLs(t *object.Tree) (map[string]string, error) {
	f, err := t.File(".gitmodules")
	if err != nil {
		return nil, nil // each submodule then lacks its URL
	}
	text, err := f.Contents()
	if err != nil {
		return nil, err
	}

	m := config.NewModules()
	if err := m.Unmarshal([]byte(text)); err != nil {
		return nil, fmt.Errorf(".gitmodules: %w", err)
	}

	urls := map[string]string{}
	for _, s := range m.Submodules {
		urls[path.Clean(s.Path)] = s.URL
	}
	return urls, nil
}

// module writes the files of a submodule.
func (c *checkout) module(ctx context.Context, parent, to, at, commit string, deep int) error {
	c.modules++
	switch {
	case to == "":
		return errors.New("no URL in .gitmodules")
	case deep >= maxModuleDeep || c.modules > maxModules:
		return fmt.Errorf("%w: too many submodules", errTooMuch)
	}

	to, err := moduleURL(parent, to)
	if err != nil {
		return err
	}
	return classed(ctx, to, c.commit(ctx, to, commit, at, deep+1))
}

// moduleURL returns a submodule's URL, which may be relative to that of its parent. A repository on a server cannot
// name one on this computer.
func moduleURL(parent, to string) (string, error) {
	if strings.HasPrefix(to, "./") || strings.HasPrefix(to, "../") {
		start := hasScheme.FindString(parent)
		// git@host:path has no scheme.
		if start == "" {
			host, below, _ := strings.Cut(parent, ":")
			return host + ":" + path.Join(below, to), nil
		}

		u, err := url.Parse(parent)
		if err != nil {
			return "", err
		}
		u.Path = path.Join(u.Path, to)
		return u.String(), nil
	}

	if !IsRef(to) {
		return "", hostile("%s is not a URL", to)
	}
	if strings.HasPrefix(strings.ToLower(to), "file:") && !strings.HasPrefix(parent, "file:") {
		return "", hostile("%s is on this computer", to)
	}
	return to, nil
}
