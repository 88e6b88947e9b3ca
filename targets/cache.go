// This file lists, verifies and reduces the cache of builds.

package targets

import (
	"context"
	"fmt"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Cache holds the targets about what was built before, and is kept.
type Cache mg.Namespace

// List lists the entries, the one used last first.
func (Cache) List(ctx context.Context) error { return do(ctx, "cache:list", listCache) }

func listCache(_ context.Context, c *console.Console, _ struct{}) error {
	store, limit, err := openCache(c)
	if err != nil {
		return err
	}
	list, err := store.List()
	if err != nil {
		return err
	}

	var sum int64
	for _, e := range list {
		sum += e.Bytes
		r := jsonlines.CacheEntry{
			Key: fmt.Sprintf("%x", e.Key), Bytes: e.Bytes, Used: e.Used.UTC().Format(time.RFC3339), Folder: e.Folder,
		}

		content := ""
		if e.Folder {
			content = "  build folder"
		}
		if id, board, _, ok := firmware.ParseLabel(e.Label); ok {
			r.BuildID, r.Board = id, board
			content = fmt.Sprintf("  image of build %s for %s", id, board)
		}

		c.Printf("%x  %24s  used %s%s", e.Key[:8], format.Bytes(e.Bytes), e.Used.Format(time.DateTime), content)
		c.JSONLine(r)
	}

	c.Printf("cache: %d entries, %s of at most %d MiB", len(list), format.Bytes(sum), limit>>20)
	c.JSONLine(jsonlines.CacheSize{Entries: len(list), Bytes: sum, Limit: limit})
	return nil
}

// Verify reads all entries and removes those that are damaged.
func (Cache) Verify(ctx context.Context) error { return do(ctx, "cache:verify", verifyCache) }

func verifyCache(ctx context.Context, c *console.Console, _ struct{}) error {
	store, _, err := openCache(c)
	if err != nil {
		return err
	}

	bar := c.Start("verify", 0)
	sweep, err := store.Verify(func(e cache.EntryInfo, good bool) error {
		if !good {
			c.Printf("%x  damaged, removed", e.Key[:8])
			c.JSONLine(jsonlines.CacheEntry{Key: fmt.Sprintf("%x", e.Key), Bytes: e.Bytes, Error: "damaged, removed"})
		}
		return ctx.Err()
	})
	bar.End()

	if err != nil {
		return err
	}
	printSweep(c, sweep, "damaged ones")
	return nil
}

// Gc removes what was not used for longest, until the rest takes at most CACHE_MIB.
//
// Variables:
//
//	CACHE_MIB    size limit of the build cache, MiB [2048]
func (Cache) Gc(ctx context.Context) error { return do(ctx, "cache:gc", reduceCache) }

func reduceCache(_ context.Context, c *console.Console, _ struct{}) error {
	store, limit, err := openCache(c)
	if err != nil {
		return err
	}
	sweep, err := store.GC(limit)
	if err != nil {
		return err
	}
	printSweep(c, sweep, "that were not used for longest")
	return nil
}

func printSweep(c *console.Console, sweep cache.Sweep, which string) {
	c.Printf("cache: %d entries, %s; removed %d %s, %s", sweep.Entries, format.Bytes(sweep.Bytes), sweep.Removed, which,
		format.Bytes(sweep.Freed))
	c.JSONLine(jsonlines.CacheSweep{Sweep: sweep})
}
