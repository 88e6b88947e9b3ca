package command

import (
	"context"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

const askTimeout = 20 * time.Second

// Ask returns the first line that a tool answers to a flag.
func Ask(ctx context.Context, path, flag string) (string, error) {
	out, _, err := Command{Path: path, Args: []string{flag}, Dir: "/", Timeout: askTimeout}.Capture(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return "", failure.New(failure.ToolMissing, "check that it works", "%w", err)
	}
	first, _, _ := strings.Cut(out, "\n")
	return strings.TrimSpace(first), nil
}
