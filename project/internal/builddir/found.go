// This file identifies the compiler of a board whose compiler only the build command finds.

package builddir

import (
	"context"
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// identifyFound identifies a board's compiler, whose folder does not determine what it makes, and its libraries. Not
// every compiler that a build may find names its libraries as GCC does.
func (b *Build) identifyFound(ctx context.Context, board *boards.Board) ([]buildenv.Identity, error) {
	path, err := b.Env.Program(board.Toolchain.CC, "")
	if err != nil {
		return nil, err
	}
	compiler, err := b.Env.Tools.Identify(ctx, command.Name(path), path)
	if err != nil {
		return nil, err
	}

	library, err := b.Env.Tools.Libraries(ctx, path, board)
	if err != nil && ctx.Err() == nil {
		b.Log.Warn("changes of the compiler's libraries are not noticed", "error", err)
		err = nil
	}
	return append([]buildenv.Identity{compiler}, library...), err
}

// findsAgain reports whether the compiler of a board that an earlier build completed is there, with its libraries, as
// that build found it.
func (b *Build) findsAgain(ctx context.Context, identities []buildenv.Identity, board *projectfile.Board) bool {
	if board == nil {
		return false
	}
	current, err := b.identifyFound(ctx, &board.Board)
	return err == nil && slices.Equal(current, identities)
}

// Complete returns the board with what the build command wrote about it into its folder; nil if the template names no
// such file.
func (b *Build) Complete(in *workdir.Tree) (*projectfile.Board, error) {
	name := b.State.Template.Board
	if name == "" {
		return nil, nil
	}

	data, err := in.ReadSome(name, boardfile.MaxFileBytes+1)
	if workdir.IsMissing(err) {
		// The folder may be a kept one.
		return nil, failure.New(failure.Config, b.advice()+", or the part of the project that writes this file",
			"the build command succeeded but made no %s", name)
	}
	if err != nil {
		return nil, failure.New(failure.Config, b.advice(), "%w", in.Error("read", name, err))
	}

	return b.completedBy(name, data) // its folder may be one that the next build empties
}

// completedBy returns the board with the contents of the build command's file.
func (b *Build) completedBy(name string, data []byte) (*projectfile.Board, error) {
	board, err := b.State.Board.Complete(name, data)
	if err != nil {
		how := fmt.Sprintf("set it in the board's own file, boards/%s.json, and generate again; or %s",
			b.State.Board.Name, b.advice())
		return nil, failure.New(failure.Config, how, "what the build found out about the board: %w", err)
	}

	board.Files, board.Origin = nil, nil
	return &projectfile.Board{Name: board.Name, Board: *board}, nil
}
