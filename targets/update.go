// This file renews the commits of branches and tags of git repositories.

package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Update writes the present commits of branches and tags to boardsmith.lock.json. They are those in boardsmith.json and
// the lock file, or the one in NAME: docs/templates.md.
//
// Variables:
//
//	DRYRUN=1     prints what would be done, without doing it
//	NAME         the one place to look up, URL@REVISION [all places]
func Update(ctx context.Context) error { return doUpdate(ctx) }

var doUpdate = target("update", updatePlaces)

// updateInputs are the variables of update.
type updateInputs struct {
	inputs.Dry
	Name string `var:"NAME"`
}

func updatePlaces(ctx context.Context, c *console.Console, v updateInputs) error {
	config, err := boardsmithjson.Find(c.Dir)
	if err != nil {
		return err
	}

	lockFile := inputs.LockFile(config, c.Dir)
	pinned, err := gitfolder.Pinned(lockFile)
	if err != nil {
		return err
	}

	places := append(config.Refs(), pinned...) // those of TEMPLATE and LIBRARIES are in the lock file only
	slices.Sort(places)
	places = slices.Compact(places)

	if name := v.Name; name != "" {
		if !slices.Contains(places, name) {
			next := "choose one of: " + strings.Join(places, ", ")
			if len(places) == 0 {
				next = "name places in boardsmith.json: it has none of a branch or tag"
			}

			return failure.New(failure.Config, next,
				"NAME=%s: no branch or tag in boardsmith.json or boardsmith.lock.json", name)
		}

		places = []string{name}
	}

	if c.DryRun {
		return c.Would("look up %d places", len(places))
	}

	builder := newBuilder(c, config)
	// One server that does not answer does not keep the others' places from being renewed.
	var failed []error
	for _, place := range places {
		old, commit, err := builder.Update(ctx, place)

		if ctx.Err() != nil {
			return err
		}
		// A place that only the lock file names may be one that nobody uses any more.
		if err != nil {
			if !slices.Contains(config.Refs(), place) {
				err = fmt.Errorf("%w (only %s names it: remove its entry there if it is no more)", err, c.Shown(lockFile))
			}
			failed = append(failed, err)
			continue
		}

		text := "is still at " + commit
		if old != commit {
			text = cmp.Or(old, "nothing") + " -> " + commit
		}
		c.Printf("update: %s: %s", place, text)
		c.JSONLine(jsonlines.Updated{Place: place, Old: old, Commit: commit})
	}

	if len(failed) > 0 {
		return errors.Join(failed...)
	}

	c.Printf("update: %d places in %s", len(places), c.Shown(lockFile))
	return nil
}
