// This file runs templates' tools to check that their needs are installed, and to list the boards that they support.

package project

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// Needs looks for what the builds of templates need besides compilers of boards, for projects in dir, and for the
// programs of boards' post_link. It returns an error only for a template that cannot be read, or if ctx has ended.
func (b *Builder) Needs(ctx context.Context, dir string) (all []buildenv.Need, err error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "templates")
	}

	dir = abspath.Of(dir)
	b.anchor()

	for _, name := range templatefile.Names(b.Path) {
		t, err := templatefile.Find(name, b.Path)
		if err != nil {
			return nil, err
		}

		needs, err := b.env(&t.Description, "", dir).Needs(ctx)
		if err != nil {
			return nil, err
		}
		for _, n := range needs {
			n.Template = name
			all = append(all, n)
		}
	}
	return append(all, b.postLinkNeeds()...), nil
}

// env returns what a template needs, for projects in dir.
func (b *Builder) env(t *templatefile.Description, board, dir string) buildenv.Env {
	return buildenv.Env{Template: t, Board: board, Dir: dir, Variables: b.Variables, Programs: b.Programs, Tools: &b.tools}
}

// env returns what the builds of the project need of this computer.
func (p *Project) env() buildenv.Env {
	return p.builder.env(&p.state.Template.Description, p.state.Board.Name, p.dir)
}

// SystemBoards lists the names of the boards that templates find out about, such as those of an operating system's
// tree, for projects in dir. unlisted are families of boards that could not be listed, with the reasons.
func (b *Builder) SystemBoards(ctx context.Context, dir string) (names []string, unlisted map[string]error, err error) {
	if ctx.Err() != nil {
		return nil, nil, failure.Stopped(ctx, "boards")
	}

	dir = abspath.Of(dir)
	b.anchor()

	unlisted = map[string]error{}
	for _, family := range boards.Families(b.Path) {
		// The template is the same for all boards of the family: any name finds it.
		any, err := boards.Find(family+"/any", b.Path)
		if err != nil {
			unlisted[family] = err
			continue
		}

		t, err := templatefile.Find(any.Templates[0], b.Path)
		if err != nil {
			return nil, nil, err
		}

		list, err := b.env(&t.Description, "", dir).Boards(ctx)
		if ctx.Err() != nil {
			return nil, nil, failure.Stopped(ctx, "boards")
		}
		if err != nil {
			unlisted[family] = err
		}
		for _, name := range list {
			names = append(names, family+"/"+name)
		}
	}
	return names, unlisted, nil
}

// checkBoard adds to an error about the board, of a build that could not be configured, that the board is not in the
// template's list.
func (p *Project) checkBoard(ctx context.Context, err error) error {
	var tool *ToolError
	if !errors.As(err, &tool) || tool.Class != failure.Config || len(p.state.Template.Boards) == 0 {
		return err
	}

	list, failed := p.env().Boards(ctx)
	name := p.state.Board.Zephyr()
	base, _, _ := strings.Cut(name, "/") // the list may have no variants
	base, _, _ = strings.Cut(base, "@")  // and no revisions

	if failed != nil || slices.Contains(list, name) || slices.Contains(list, base) {
		return err
	}
	if !aboutBoard.MatchString(tool.Message) {
		return err // the list may lack boards from folders of the user's
	}

	return failure.New(failure.Config, "choose one that "+nextstep.Target("boards")+" lists, or let the project's "+
		"settings name the folder that has it", "%w\nboard %q is not known%s",
		err, name, jsonfile.DidYouMean(name, list))
}

var aboutBoard = regexp.MustCompile(`(?i)\bboard\b`)

// postLinkNeeds returns whether the programs are there that boards of the search path run after the link.
func (b *Builder) postLinkNeeds() (all []buildenv.Need) {
	for _, name := range boards.List(b.Path) {
		board, err := boards.Find(name, b.Path)
		if err != nil || board.PostLink.IsZero() || strings.HasPrefix(board.PostLink.Words[0], boardfile.BoardWord) {
			continue // Find returns the error of a board file
		}

		n := buildenv.Need{Board: name, Name: board.PostLink.Words[0]}
		n.Result, n.Err = command.Find(n.Name, "")
		all = append(all, n)
	}
	return all
}
