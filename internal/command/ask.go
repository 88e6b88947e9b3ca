// This file asks programs for their versions.

package command

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

const askTimeout = 20 * time.Second

// Ask runs a tool with a flag, such as --version, and returns the first line of its output.
func Ask(ctx context.Context, path, flag string) (string, error) {
	out, _, err := Command{Path: path, Args: []string{flag}, Dir: "/", Timeout: askTimeout}.Capture(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return "", failure.New(failure.ToolMissing, cmp.Or(failure.Next(err), "check that it works"), "%w", err)
	}

	first, _, _ := strings.Cut(out, "\n")
	return strings.TrimSpace(first), nil
}
