// This file prints scripts with which shells complete targets, boards and devices.

package targets

import (
	"bytes"
	"context"
	_ "embed"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/magefile/mage/mg"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
)

// Completion holds the targets with which shells complete what is typed: docs/command-line.md.
type Completion mg.Namespace

// Bash prints a script for bash.
func (Completion) Bash(ctx context.Context) error { return complete(ctx, "bash") }

// Zsh prints a script for zsh.
func (Completion) Zsh(ctx context.Context) error { return complete(ctx, "zsh") }

// Fish prints a script for fish.
func (Completion) Fish(ctx context.Context) error { return complete(ctx, "fish") }

//go:embed completion.tmpl
var completionText string

// completions are what a script completes.
type completions struct {
	Targets, Boards, Devices string // separated by spaces
	OfBoards                 string // targets whose argument is a board, separated by |
}

func complete(ctx context.Context, shell string) error {
	return do(ctx, "completion:"+shell, func(ctx context.Context, c *console.Console, _ struct{}) error {
		w, err := completionsOf(ctx, c)
		if err != nil {
			return err
		}
		var script bytes.Buffer
		if err := template.Must(template.New("").Parse(completionText)).ExecuteTemplate(&script, shell, w); err != nil {
			return err
		}
		c.Printf("%s", strings.TrimSpace(script.String()))
		return nil
	})
}

// completionsOf lists the targets of this program's magefile, the boards of the search path and the names in desk.json.
func completionsOf(ctx context.Context, c *console.Console) (w completions, err error) {
	program, err := os.Executable()
	if err != nil {
		return w, err
	}

	// mage's list has the targets of the user's magefile, too.
	var list bytes.Buffer
	err = command.Command{
		Path: program, Args: []string{"-l"}, Dir: c.Dir, Timeout: programTimeout, Env: console.ToolEnv(), Stdout: &list,
	}.Run(ctx)
	if err != nil {
		return w, err
	}

	var targets, ofBoards []string
	for line := range strings.Lines(list.String()) {
		// A target's line is indented; of a default target, the name ends in a star.
		if words := strings.Fields(line); strings.HasPrefix(line, "  ") && len(words) > 0 {
			name := strings.TrimSuffix(words[0], "*")
			targets = append(targets, name)
			_, of, _ := strings.Cut(name, "board:")
			if slices.Contains([]string{"show", "check", "svd"}, of) {
				ofBoards = append(ofBoards, name)
			}
		}
	}

	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return w, err
	}
	desk, err := device.ReadDeskFile(inputs.DeskFilePath(c.Dir))
	if err != nil {
		return w, err
	}

	var devices []string
	for _, d := range desk.Devices {
		devices = append(devices, d.Name)
	}

	slices.Sort(targets)
	return completions{
		Targets: strings.Join(targets, " "), Boards: strings.Join(boards.List(builder.Path), " "),
		Devices: strings.Join(devices, " "), OfBoards: strings.Join(ofBoards, "|"),
	}, nil
}
