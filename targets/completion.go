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

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
)

// Completion prints a script with which bash, fish or zsh completes what is typed.
func Completion(ctx context.Context, shell string) error { return doCompletion(ctx, shell) }

var doCompletion = namedTarget("completion", complete)

//go:embed completion.tmpl
var completionText string

// completions are what a script completes.
type completions struct {
	Targets, Boards, Devices string // separated by spaces
	OfBoards                 string // targets whose argument is a board, separated by |
}

func complete(ctx context.Context, c *console.Console, _ struct{}, shell string) error {
	if !slices.Contains([]string{"bash", "fish", "zsh"}, shell) {
		return failure.New(failure.Config, "name bash, fish or zsh", "completion: there is no script for the shell %q", shell)
	}

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
