// This file looks after the cache of what was built.

package targets

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/cache"
)

func (s *invocation) cacheList(context.Context) error {
	c, err := s.cache()
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
		r := fields{"status": "done", "key": fmt.Sprintf("%x", e.Key), "bytes": e.Bytes, "used": e.Used.UTC().Format(time.RFC3339)}
		what := ""
		if e.Label != "" {
			id, board, _ := strings.Cut(e.Label, "-")
			r["build_id"], r["board"] = id, board
			what = fmt.Sprintf("  image of build %s for %s", id, board)
		}
		s.Printf("%x  %9d B  used %s%s", e.Key[:8], e.Bytes, e.Used.Format(time.DateTime), what)
		s.JSONLine(r)
	}
	limit, err := s.cacheLimit()
	if err != nil {
		return err
	}
	s.Printf("cache: %d entries, %s of at most %d MiB", len(list), bytesText(sum), limit>>20)
	s.JSONLine(fields{"status": "done", "entries": len(list), "bytes": sum, "limit": limit})
	return nil
}

func (s *invocation) cacheVerify(ctx context.Context) error {
	c, err := s.cache()
	if err != nil {
		return err
	}
	bar := s.Start("verify", 0)
	sweep, err := c.Verify(func(e cache.EntryInfo, good bool) error {
		if !good {
			s.Printf("%x  damaged, removed", e.Key[:8])
			s.JSONLine(fields{"status": "done", "key": fmt.Sprintf("%x", e.Key), "bytes": e.Bytes, "error": "damaged, removed"})
		}
		return ctx.Err()
	})
	bar.End()
	if err != nil {
		return err
	}
	s.tellSweep(sweep, "damaged ones")
	return nil
}

func (s *invocation) cacheGC(context.Context) error {
	limit, err := s.cacheLimit()
	if err != nil {
		return err
	}
	c, err := s.cache()
	if err != nil {
		return err
	}
	sweep, err := c.GC(limit)
	if err != nil {
		return err
	}
	s.tellSweep(sweep, "that were not used for longest")
	return nil
}

func (s *invocation) tellSweep(sweep cache.Sweep, which string) {
	s.Printf("cache: %d entries, %s; removed %d %s, %s", sweep.Entries, bytesText(sweep.Bytes), sweep.Removed, which, bytesText(sweep.Freed))
	s.JSONLine(fields{"status": "done", "entries": sweep.Entries, "bytes": sweep.Bytes, "removed": sweep.Removed, "freed": sweep.Freed})
}
