// This file compiles an empty file, for what the object tells about the compiler and its flags.

package command

import (
	"context"
	"os"
	"path/filepath"
	"slices"
)

// CompileEmpty returns the object that a C compiler makes of an empty file.
func CompileEmpty(ctx context.Context, cc string, flags []string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "boardsmith-empty-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, object := filepath.Join(dir, "empty.c"), filepath.Join(dir, "empty.o")
	if err := os.WriteFile(source, nil, 0o600); err != nil {
		return nil, err
	}
	args := slices.Concat(flags, []string{"-c", source, "-o", object})
	if err := (Command{Path: cc, Args: args, Dir: dir, Timeout: askTimeout}).Run(ctx); err != nil {
		return nil, err
	}
	return os.ReadFile(object)
}
