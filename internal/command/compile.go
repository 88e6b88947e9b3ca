// This file compiles an empty file, whose object has the attributes of the compiler and its flags.

package command

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/internal/files/scratch"
)

// CompileEmpty returns the object that a C compiler makes of an empty file.
func CompileEmpty(ctx context.Context, cc string, flags []string) ([]byte, error) {
	folder, err := scratch.Make("boardsmith-empty-")
	if err != nil {
		return nil, err
	}
	defer folder.Remove()
	source, object := filepath.Join(folder.Dir, "empty.c"), filepath.Join(folder.Dir, "empty.o")
	if err := os.WriteFile(source, nil, 0o600); err != nil {
		return nil, err
	}
	args := slices.Concat(flags, []string{"-c", source, "-o", object})
	if err := (Command{Path: cc, Args: args, Dir: folder.Dir, Timeout: askTimeout}).Run(ctx); err != nil {
		return nil, err
	}
	return os.ReadFile(object)
}
