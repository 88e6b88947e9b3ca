// This file makes Builders of users' repositories.

package project

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
)

// Repository returns a Builder with boards, templates and libraries of the boardsmith.json in dir or the nearest folder
// above it: its Path, Templates, Libraries and LockFile. Without one, it is a zero Builder. Folders of Path in
// git repositories are fetched. The file's defaults, such as its board, are for mage. Errors: class config, and those
// of Fetch.
func Repository(ctx context.Context, dir string) (*Builder, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "repository %s", dir)
	}
	c, err := boardsmithjson.Find(dir)
	if err != nil {
		return nil, err
	}

	b := &Builder{Templates: c.Templates, Libraries: c.Libraries}
	if c.File != "" {
		b.LockFile = filepath.Join(filepath.Dir(c.File), boardsmithjson.LockName)
	}

	for _, place := range c.Path {
		if gitfolder.IsRef(place) {
			if place, err = b.Fetch(ctx, place); err != nil {
				return nil, fmt.Errorf("%s: path: %w", c.File, err)
			}
		}
		b.Path = append(b.Path, place)
	}

	return b, nil
}
