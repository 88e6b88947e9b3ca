// This file finds templates where they are: by name, in a folder, or in a git repository.

package project

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/sourcetree"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// Fetch returns the path of a folder or file of a git repository, URL//PATH@REVISION, in the cache. It needs no network
// if the commit was fetched before, and is named or in LockFile. Do not change what is there.
func (b *Builder) Fetch(ctx context.Context, place string) (string, error) {
	b.anchor()
	r, err := gitfolder.Parse(place)
	if err != nil {
		return "", err
	}

	f, err := b.fetch(ctx, r)
	if err != nil {
		return "", err
	}
	return f.Path, nil
}

// Update looks up the commit of a branch or tag, fetches it, and writes it to LockFile. It returns the former commit
// there, "" without one, and the present one. A place that names a commit stays. Errors: those of Fetch.
func (b *Builder) Update(ctx context.Context, place string) (old, commit string, err error) {
	b.anchor()
	r, err := gitfolder.Parse(place)
	if err != nil {
		return "", "", err
	}

	store, err := b.store(r)
	if err != nil {
		return "", "", err
	}
	return store.Update(ctx, r)
}

func (b *Builder) store(r gitfolder.Ref) (*gitfolder.Store, error) {
	c := cache.OrDefault(b.Cache)
	if c == nil {
		return nil, failure.New(failure.Config, "set BOARDSMITH_HOME to a folder", "fetch %s: there is no cache folder", r)
	}
	return &gitfolder.Store{Dir: c.Fetched(), Pins: b.LockFile}, nil
}

func (b *Builder) fetch(ctx context.Context, r gitfolder.Ref) (*gitfolder.Folder, error) {
	store, err := b.store(r)
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, r)
}

// fromOf returns how project.json in the folder dir records a place as in Spec: a path is relative to the folder, which
// can then be moved together with what it names. Neither has a symbolic link on its way: so each name of the folder
// leads there. No place remains "".
func fromOf(dir, place string) string {
	if place == "" || gitfolder.IsRef(place) {
		return place
	}
	place = abspath.Of(place)
	place = filepath.Join(abspath.Resolved(filepath.Dir(place)), filepath.Base(place)) // a link's name is the board's
	if relative, err := filepath.Rel(abspath.Resolved(dir), place); err == nil {       // else on another drive of Windows
		place = relative
	}
	return filepath.ToSlash(place)
}

// inSpec returns as in Spec what project.json in the folder dir records, by fromOf or, if from is "", by its name.
func inSpec(dir, from, name string) string {
	path := filepath.FromSlash(from)
	switch {
	case from == "":
		return name
	case gitfolder.IsRef(from), filepath.IsAbs(path):
		return from
	}
	return filepath.Join(abspath.Resolved(dir), path)
}

// templateFrom returns how project.json in the folder dir records the place of a template as in Spec; "" of a name.
func (b *Builder) templateFrom(dir, text string) string {
	if b.Templates[text] != "" || !gitfolder.IsRef(text) && !strings.ContainsAny(text, `/\`) {
		return ""
	}
	return fromOf(dir, text)
}

// findTemplate finds a template by the text in Spec. The origin is nil if git does not know it.
func (b *Builder) findTemplate(ctx context.Context, text string) (*templatefile.Template, *projectfile.Origin, error) {
	name, place := "", text
	if named := b.Templates[text]; named != "" {
		name, place = text, named
	}

	if !gitfolder.IsRef(place) {
		t, err := b.findHere(name, place)

		// A template that was found by its name has no origin of its own.
		if err != nil || !strings.ContainsAny(place, `/\`) {
			return t, nil, err
		}

		commit, changed, err := sourcetree.Commit(ctx, place)
		if commit == "" || err != nil {
			return t, nil, err
		}
		return t, &projectfile.Origin{Commit: commit, Changed: changed}, nil
	}

	r, err := gitfolder.Parse(place)
	if err != nil {
		return nil, nil, err
	}
	f, err := b.fetch(ctx, r)
	if err != nil {
		return nil, nil, err
	}

	if name == "" {
		name = r.Name()
	}
	t, err := templatefile.FindIn(f.Path, name, b.Path)
	if err != nil {
		return nil, nil, failure.Errorf(failure.Config, "%s: %w", r, err)
	}

	return t, &projectfile.Origin{URL: place, Commit: f.Commit}, nil
}

// findHere finds a template of this computer; name, if any, is that of the folder at place.
func (b *Builder) findHere(name, place string) (*templatefile.Template, error) {
	if _, err := os.Stat(place); strings.ContainsAny(place, `/\`) && errors.Is(err, fs.ErrNotExist) {
		return nil, failure.New(failure.Config, "name the folder with "+templatefile.TemplateFile+": "+
			nextstep.Option("Spec.Template", "FOLDER"), "template %s: there is no folder %s",
			cmp.Or(name, filepath.Base(place)), place)
	}

	if name != "" {
		return templatefile.FindIn(place, name, b.Path)
	}

	t, err := templatefile.Find(place, b.Path)
	if named := slices.Sorted(maps.Keys(b.Templates)); err != nil && len(named) > 0 && !strings.ContainsAny(place, `/\`) &&
		!slices.Contains(templatefile.Names(b.Path), place) {
		names := append(templatefile.Names(b.Path), named...)
		return nil, failure.New(failure.Config, "choose one of: "+strings.Join(names, ", "), "template %q is not known%s",
			place, jsonfile.DidYouMean(place, names))
	}
	return t, err
}
