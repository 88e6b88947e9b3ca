// This file identifies the compiler of a board whose compiler only the build command finds.

package project

import (
	"context"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/command"
)

// identifyFound identifies a board's compiler, whose folder does not determine what it makes, and its libraries. Not
// every compiler that a build may find names its libraries as GCC does.
func (p *Project) identifyFound(ctx context.Context, b *boards.Board) ([]toolState, error) {
	path, err := p.findProgram(b.Toolchain.CC, "")
	if err != nil {
		return nil, err
	}
	compiler, err := p.builder.identify(ctx, command.Name(path), path)
	if err != nil {
		return nil, err
	}
	library, err := p.libraries(ctx, path, b)
	if err != nil && ctx.Err() == nil {
		p.builder.log().Warn("changes of the compiler's libraries are not noticed", "error", err)
		err = nil
	}
	return append([]toolState{compiler}, library...), err
}

// findsAgain reports whether the compiler of a board that an earlier build completed is there, with its libraries, as
// that build found it.
func (p *Project) findsAgain(ctx context.Context, found []toolState, board *boardState) bool {
	if board == nil {
		return false
	}
	now, err := p.identifyFound(ctx, &board.Board)
	return err == nil && slices.Equal(now, found)
}
