// Package sourcetree identifies source trees outside of projects, such as an operating system's with its modules: too
// many files to read for each build.
package sourcetree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

const gitTimeout = time.Minute

// States returns the state of each of these folders, by its name: git's commit and what differs from it or, without
// git, names, sizes and times of the files.
func States(ctx context.Context, dirs map[string]string) (map[string]string, error) {
	names := slices.Sorted(maps.Keys(dirs))
	states := make([]string, len(names))
	var asks errgroup.Group
	asks.SetLimit(runtime.NumCPU())
	for i, name := range names {
		asks.Go(func() (err error) {
			states[i], err = stateOf(ctx, dirs[name])
			if err != nil && ctx.Err() == nil {
				err = failure.New(failure.Config, "check the variable it begins with", "source tree %s: %w", name, err)
			}
			return err
		})
	}
	err := asks.Wait()
	all := make(map[string]string, len(names))
	for i, name := range names {
		all[name] = states[i]
	}
	return all, err
}

// stateOf returns a tree's commit and, if tracked files differ from it, a digest of these. If git does not know the
// tree, it returns a digest of the names, sizes and times of all files.
func stateOf(ctx context.Context, dir string) (string, error) {
	if isRepository(dir) {
		if git, err := exec.LookPath("git"); err == nil {
			state, err := gitState(ctx, git, dir)
			if err == nil || ctx.Err() != nil {
				return state, err
			}
		}
	}
	return fileTimes(ctx, dir)
}

// Commit returns the commit of a folder that is git's work tree, and a digest of the tracked files that differ from it,
// "" if none. The commit is "" for any other folder, and without git.
func Commit(ctx context.Context, dir string) (commit, changed string, err error) {
	if dir == "" || !isRepository(dir) {
		return "", "", nil
	}
	state, err := stateOf(ctx, dir)
	if ctx.Err() != nil {
		return "", "", failure.Stopped(ctx, "git status of %s", dir)
	}
	commit, ok := strings.CutPrefix(state, "git ")
	if err != nil || !ok {
		return "", "", nil
	}
	commit, changed, _ = strings.Cut(commit, ", changed: ")
	return commit, changed, nil
}

// Top returns the top of the git work tree that a folder is in, "" if it is in none. isOwn: that is the folder itself,
// or a submodule, whose file .git names a folder of its superproject (gitrepository-layout(5)).
func Top(dir string) (top string, isOwn bool) {
	dir, err := filepath.Abs(dir)
	for top = dir; err != nil || !isRepository(top); top = filepath.Dir(top) {
		if err != nil || filepath.Dir(top) == top {
			return "", false
		}
	}
	link, _ := os.ReadFile(filepath.Join(top, ".git")) // none of a folder
	return top, top == dir || bytes.Contains(link, []byte("/modules/"))
}

func isRepository(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ".git"))
	return err == nil
}

var errNoCommit = errors.New("git names no commit")

// gitState returns the commit of a tree, and a digest of what differs from it, in submodules too.
func gitState(ctx context.Context, git, dir string) (string, error) {
	var out bytes.Buffer
	// --no-optional-locks: others may use the tree
	err := command.Command{
		Path: git, Dir: dir, Timeout: gitTimeout, Stdout: &out,
		Args: []string{
			"--no-optional-locks", "status", "--porcelain=v2", "--branch", "--no-ahead-behind", "-z", "--untracked-files=no",
			"--ignore-submodules=untracked",
		},
	}.Run(ctx)
	if err != nil {
		return "", err
	}
	commit, changed := "", false
	h := sha256.New()
	entries := strings.Split(out.String(), "\x00")
	for i := 0; i < len(entries); i++ {
		entry := entries[i]
		if oid, ok := strings.CutPrefix(entry, "# branch.oid "); ok {
			commit = oid
		}
		if fields, known := entryFields[strings.SplitN(entry, " ", 2)[0]]; known {
			changed = true
			words := strings.SplitN(entry, " ", fields)
			at := filepath.Join(dir, filepath.FromSlash(words[len(words)-1]))
			content := contentOf(at)
			if isRepository(at) {
				if content, err = gitState(ctx, git, at); err != nil {
					return "", err
				}
			}
			fmt.Fprintf(h, "%q %s\n", entry, content)
		}
	}
	if len(commit) < 40 {
		return "", errNoCommit
	}
	if changed {
		return fmt.Sprintf("git %s, changed: %x", commit, h.Sum(nil)[:16]), nil
	}
	return "git " + commit, nil
}

// entryFields are the numbers of fields of git's entries for changed files; the last one is the path.
var entryFields = map[string]int{"1": 9, "2": 10, "u": 11}

// contentOf returns a digest of a changed file, or what else is there.
func contentOf(path string) string {
	if to, err := os.Readlink(path); err == nil {
		return "link " + to
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "unreadable"
	}
	return fmt.Sprintf("SHA-256 %x", sha256.Sum256(data))
}

// fileTimes returns a digest of the names, sizes and times of a tree's files.
func fileTimes(ctx context.Context, dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return failure.Stopped(ctx, "build")
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, name)
		fmt.Fprintf(h, "%q %d %d\n", filepath.ToSlash(below), info.Size(), info.ModTime().UnixNano())
		return err
	})
	return fmt.Sprintf("files %x", h.Sum(nil)[:16]), err
}
