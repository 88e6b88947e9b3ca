// This file tests a board on the board itself, and shows which boards were accepted.

package targets

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardlab/accept"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
)

// boardAccept takes all steps of an acceptance and writes its page, also after a failed one.
func (v *invocation) boardAccept(ctx context.Context) error {
	in, b, err := v.boardOf(ctx)
	if err != nil {
		return err
	}
	page := cmp.Or(v.Env("OUTPUT"), accept.PageOf(b, v.Dir))
	if v.Env.On("DRYRUN") {
		for _, s := range accept.Steps() {
			v.Printf("%-10s %s", s.Name, s.Doc)
		}
		return v.Would("test board %s and write %s", b.Name, v.Shown(page))
	}
	desk := v.desk(in)
	if desk.Programmer != boards.NoProgrammer {
		if err := v.needKeeper(ctx, b); err != nil {
			return err
		}
	}
	bar := v.Start("testing board "+b.Name, 0)
	defer bar.End()
	passed, skipped := 0, 0
	report, err := accept.Run(ctx, accept.Trial{
		Board: in.Board.Value, Template: in.Template.Value, Which: in.Device, Builder: v.builder(in), Desk: desk,
		Log: v.log, Short: v.Env.On("SHORT"), Done: func(r accept.Result) {
			state, detail := "ok", strings.Join(r.Found, "; ")
			if r.Skipped != "" {
				skipped++
				state, detail = "skipped", r.Skipped
			} else {
				passed++
			}
			v.Printf("%-8s %-10s %s: %s", state, r.Name, r.Doc, detail)
			v.JSONLine(jsonlines.Check{
				Board: b.Name, Check: r.Name, Doc: r.Doc, Found: strings.Join(r.Found, "; "), Skipped: r.Skipped,
			})
		},
	})
	if report == nil || ctx.Err() != nil {
		return err
	}
	written := v.writePage(ctx, page, report)
	switch {
	case err != nil && written == nil:
		v.Notef("note: what was found is in %s", v.Shown(page))
		return err
	case err != nil:
		return err
	case written != nil:
		return written
	}
	v.Printf("board %s: accepted; %d steps, %d of them skipped; commit %s", b.Name, passed+skipped, skipped,
		v.Shown(page))
	v.JSONLine(jsonlines.Checked{Board: b.Name, Output: page, Passed: passed, Skipped: skipped})
	return nil
}

func (v *invocation) writePage(ctx context.Context, page string, r *accept.Report) error {
	if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
		return failure.Errorf(failure.Config, "the page of board %s: %w", r.Board, err)
	}
	if err := atomicwriter.WriteFile(page, []byte(r.Page(v.author(ctx), time.Now())), 0o644); err != nil {
		return failure.Errorf(failure.Config, "the page of board %s: %w", r.Board, err)
	}
	return nil
}

// author returns who accepts a board: BY, else git's user, else this computer's.
func (v *invocation) author(ctx context.Context) string {
	if by := v.Env("BY"); by != "" {
		return by
	}
	cmd := exec.CommandContext(ctx, "git", "config", "user.name")
	cmd.Dir = v.Dir
	if name, err := cmd.Output(); err == nil && strings.TrimSpace(string(name)) != "" {
		return strings.TrimSpace(string(name))
	}
	if u, err := user.Current(); err == nil {
		return cmp.Or(u.Name, u.Username)
	}
	return "unknown"
}

// acceptance returns who accepted a board, "" if nobody did: beside its file, or of a shipped board in a folder of the
// search path or this one.
func (v *invocation) acceptance(b *boards.Board, path []string) (accept.Signature, string) {
	for _, folder := range append([]string{v.Dir}, path...) {
		s, ok := accept.Read(accept.PageOf(b, folder))
		if !ok {
			continue
		}
		text := fmt.Sprintf("accepted by %s on %s", s.By, s.On.Format(time.DateOnly))
		if s.Digest != accept.DigestOf(b) {
			text += "; it was changed since"
		}
		if s.Short {
			text += "; few repetitions"
		}
		return s, text
	}
	return accept.Signature{}, ""
}
