// This file tests a board on the board itself.

package targets

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/targets/internal/accept"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Accept tests BOARD on the board itself, and writes a page of the results to OUTPUT. SHORT=1 repeats less.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	OUTPUT       the page [beside the board file]
//	TIMEOUT      limit for one call on the device: 60 (seconds), 2m30s [60 s]
//	FORCE=1      uses and flashes the board also if another one is named
//	DRYRUN=1     prints the checks that would run
//	SHORT=1      fewer repetitions
//	BY           who tests the board [the user of git, else of this computer]
func (Board) Accept(ctx context.Context) error { return doAccept(ctx) }

var doAccept = jobTarget("board:accept", "", acceptBoard)

// acceptInputs are the variables of board:accept.
type acceptInputs struct {
	inputs.OnBoard
	inputs.OfCall
	inputs.Dry
	Options  []string `var:"OPTIONS" between:" "`
	Template string   `var:"TEMPLATE"`
	Output   string   `var:"OUTPUT"`
	Short    bool     `var:"SHORT"`
	By       string   `var:"BY"`
}

func acceptBoard(ctx context.Context, j *job, v acceptInputs) error {
	b, err := j.board()
	if err != nil {
		return err
	}

	// Before the tests, which take long: a page that cannot be written is an error at once.
	page, err := acceptPage(j, b)
	if err != nil {
		return err
	}

	if j.DryRun {
		for _, s := range accept.Steps() {
			j.Printf("%-10s %s", s.Name, s.Doc)
		}
		return j.Would("test board %s and write %s", b.Name, j.Shown(page))
	}

	desk := j.desk()
	if desk.Programmer != boards.NoProgrammer {
		if err := needKeeper(ctx, j.Console, b); err != nil {
			return err
		}
	}

	bar := j.Start("testing board "+b.Name, 0)
	defer bar.End()

	passed, skipped := 0, 0
	report, err := accept.Run(ctx, accept.Trial{
		Board: j.in.Board, Template: j.in.Template, Which: j.in.Device, Builder: j.builder(), Desk: desk,
		Log: newLog(j.Console), Short: v.Short, Done: func(r accept.Result) {
			state, detail := "ok", strings.Join(r.Details, "; ")
			if r.Skipped != "" {
				skipped++
				state, detail = "skipped", r.Skipped
			} else {
				passed++
			}
			j.Printf("%-8s %-10s %s: %s", state, r.Name, r.Doc, detail)
			j.JSONLine(jsonlines.Check{
				Board: b.Name, Check: r.Name, Doc: r.Doc, Result: strings.Join(r.Details, "; "), Skipped: r.Skipped,
			})
		},
	})

	// Without a report nothing was tested, and after an interrupt the page would have a wrong result.
	if report == nil || ctx.Err() != nil {
		return err
	}

	written := writePage(ctx, j.Console, page, v.By, report)

	switch {
	case err != nil && written == nil:
		j.Notef("note: what was found is in %s", j.Shown(page))
		return err
	case err != nil:
		return err
	case written != nil:
		return written
	}

	j.Printf("board %s: accepted; %d steps, %d of them skipped; commit %s", b.Name, passed+skipped, skipped,
		j.Shown(page))
	j.JSONLine(jsonlines.Checked{Board: b.Name, Output: page, Passed: passed, Skipped: skipped})
	return nil
}

// acceptPage returns the file of a board's page, which can be written.
func acceptPage(j *job, b *boards.Board) (string, error) {
	page := cmp.Or(j.in.Output, accept.PageOf(b, j.Dir))
	if err := console.CheckFormat("OUTPUT", page, []string{".md"}); err != nil {
		return "", err
	}
	if err := regularfile.Writable(page); err != nil && !errors.Is(err, fs.ErrNotExist) { // its folder may have to be made
		return "", failure.New(failure.Config, "choose an OUTPUT that can be written", "the page of board %s: %w", b.Name,
			err)
	}

	return page, nil
}

func writePage(ctx context.Context, c *console.Console, page, by string, r *accept.Report) error {
	if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
		return failure.Errorf(failure.Config, "the page of board %s: %w", r.Board, err)
	}
	if err := regularfile.Write(page, []byte(r.Page(cmp.Or(by, author(ctx, c)), time.Now())), 0o644); err != nil {
		return failure.Errorf(failure.Config, "the page of board %s: %w", r.Board, err)
	}
	return nil
}

// author returns who accepts a board: git's user, else this computer's.
func author(ctx context.Context, c *console.Console) string {
	// Pages are kept in the repository, where git knows the author.
	cmd := exec.CommandContext(ctx, "git", "config", "user.name")
	cmd.Dir = c.Dir
	if name, err := cmd.Output(); err == nil && strings.TrimSpace(string(name)) != "" {
		return strings.TrimSpace(string(name))
	}

	if u, err := user.Current(); err == nil {
		return cmp.Or(u.Name, u.Username)
	}

	return "unknown"
}
