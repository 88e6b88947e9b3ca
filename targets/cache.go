// This file lists, verifies and reduces the cache of builds.

package targets

import (
	"context"
	"fmt"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/cli/valuetext"
)

func (v *invocation) cacheList(context.Context) error {
	c, err := v.cache()
	if err != nil {
		return err
	}
	list, err := c.List()
	if err != nil {
		return err
	}
	var sum int64
	for _, e := range list {
		sum += e.Bytes
		r := jsonlines.CacheEntry{
			Key: fmt.Sprintf("%x", e.Key), Bytes: e.Bytes, Used: e.Used.UTC().Format(time.RFC3339), Folder: e.Folder,
		}
		what := ""
		if e.Folder {
			what = "  build folder"
		}
		if id, board, ok := image.ParseLabel(e.Label); ok {
			r.BuildID, r.Board = id, board
			what = fmt.Sprintf("  image of build %s for %s", id, board)
		}
		v.Printf("%x  %9d B  used %s%s", e.Key[:8], e.Bytes, e.Used.Format(time.DateTime), what)
		v.JSONLine(r)
	}
	limit, err := v.cacheLimit()
	if err != nil {
		return err
	}
	v.Printf("cache: %d entries, %s of at most %d MiB", len(list), valuetext.Bytes(sum), limit>>20)
	v.JSONLine(jsonlines.CacheSize{Entries: len(list), Bytes: sum, Limit: limit})
	return nil
}

func (v *invocation) cacheVerify(ctx context.Context) error {
	c, err := v.cache()
	if err != nil {
		return err
	}
	bar := v.Start("verify", 0)
	sweep, err := c.Verify(func(e cache.EntryInfo, good bool) error {
		if !good {
			v.Printf("%x  damaged, removed", e.Key[:8])
			v.JSONLine(jsonlines.CacheEntry{Key: fmt.Sprintf("%x", e.Key), Bytes: e.Bytes, Error: "damaged, removed"})
		}
		return ctx.Err()
	})
	bar.End()
	if err != nil {
		return err
	}
	v.tellSweep(sweep, "damaged ones")
	return nil
}

func (v *invocation) cacheGC(context.Context) error {
	limit, err := v.cacheLimit()
	if err != nil {
		return err
	}
	c, err := v.cache()
	if err != nil {
		return err
	}
	sweep, err := c.GC(limit)
	if err != nil {
		return err
	}
	v.tellSweep(sweep, "that were not used for longest")
	return nil
}

func (v *invocation) tellSweep(sweep cache.Sweep, which string) {
	v.Printf("cache: %d entries, %s; removed %d %s, %s", sweep.Entries, valuetext.Bytes(sweep.Bytes), sweep.Removed, which,
		valuetext.Bytes(sweep.Freed))
	v.JSONLine(jsonlines.CacheSweep{
		Entries: sweep.Entries, Bytes: sweep.Bytes, Removed: sweep.Removed, Freed: sweep.Freed,
	})
}
