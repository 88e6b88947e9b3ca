// This file asks a template's tools: whether what the template needs is on this computer, and which boards they know.

package project

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/toolwords"
)

// A TemplateNeed is a folder, a program or something else that the builds of a template, or for a board, need.
type TemplateNeed struct {
	Template string
	Board    string // of a program that the board's post_link runs; then there is no Template
	Name     string // of a variable with the folder's path, of a program or of a check
	Found    string // the folder, the program's version, or the last line of what the check printed
	Err      error  // why it is missing; nil if it is there
	Install  string // how to get it
}

// Needs looks for what the builds of templates need besides compilers of boards, for projects in dir, and for the
// programs of boards' post_link. It returns an error only for a template that cannot be read, or if ctx has ended.
func (b *Builder) Needs(ctx context.Context, dir string) (all []TemplateNeed, err error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "templates")
	}
	dir = abspath.Of(dir)
	b.anchor()
	for _, name := range blueprint.Names(b.Path) {
		t, err := blueprint.Find(name, b.Path)
		if err != nil {
			return nil, err
		}
		found, err := questionsAbout(t, b, dir).needs(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return append(all, b.postLinkNeeds()...), nil
}

// questionsAbout returns a project that was not generated, for questions about the template.
func questionsAbout(t *blueprint.Template, b *Builder, dir string) *Project {
	return &Project{dir: dir, builder: b, state: state{Template: templateState{Name: t.Name, Blueprint: t.Blueprint}}}
}

func (p *Project) needs(ctx context.Context) (all []TemplateNeed, err error) {
	t := p.state.Template
	for _, s := range t.Find {
		all = append(all, TemplateNeed{
			Name: s.Name, Found: p.variable(s.Name), Install: s.Install, Err: p.checkVariable(s.Name),
		})
	}
	for _, tool := range t.Tools {
		n := TemplateNeed{Name: tool.Name, Install: tool.Install}
		path, err := p.findTool(tool)
		if n.Err = err; err == nil {
			n.Found, _ = command.Ask(ctx, path, "--version") // it need not have this flag
		}
		all = append(all, n)
	}
	for _, c := range t.Checks {
		n := TemplateNeed{Name: c.Name, Install: c.Install}
		n.Found, n.Err = p.ask(ctx, c.Command)
		n.Found = lastLine(n.Found)
		all = append(all, n)
	}
	for i := range all {
		all[i].Template = t.Name
	}
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "template %s", t.Name)
	}
	return all, nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndex(text, "\n")+1:])
}

const setupTimeout = time.Minute

// ask runs a command of the template's in the environment of the build command, and returns what it printed.
func (p *Project) ask(ctx context.Context, words []string) (string, error) {
	path, err := p.findProgram(words[0], "")
	if err != nil {
		return "", err
	}
	c := command.Command{Path: path, Dir: os.TempDir(), Timeout: setupTimeout}
	for _, word := range words[1:] {
		if first, below, _ := strings.Cut(word, "/"); strings.HasPrefix(first, "$") {
			folder := p.variable(first[1:])
			if folder == "" {
				return "", p.variableMissing(first[1:])
			}
			word = filepath.Join(folder, filepath.FromSlash(below))
		}
		c.Args = append(c.Args, word)
	}
	if c.Env, _, err = p.environment(""); err != nil {
		c.Env = p.toolPath() // a variable that no word begins with is not needed here
	}
	out, _, err := c.Capture(ctx)
	if failed := (*command.Error)(nil); errors.As(err, &failed) {
		class, message, _ := toolwords.Explain(failed.Stderr, failed.Text)
		message = cmp.Or(message, failed.LastLine())
		return "", failure.New(class, "to see it again: "+failed.Command, "%s: %w: %s", failed.Tool, failed.Err,
			strings.Join(strings.Fields(message), " "))
	}
	return out, err
}

// SystemBoards lists the names of the boards that templates find out about, such as those of an operating system's
// tree, for projects in dir. unlisted are families of boards of which no list could be made, with the reasons.
func (b *Builder) SystemBoards(ctx context.Context, dir string) (names []string, unlisted map[string]error, err error) {
	if ctx.Err() != nil {
		return nil, nil, failure.Stopped(ctx, "boards")
	}
	dir = abspath.Of(dir)
	b.anchor()
	unlisted = map[string]error{}
	for _, family := range boards.Families(b.Path) {
		any, err := boards.Find(family+"/any", b.Path)
		if err != nil {
			unlisted[family] = err
			continue
		}
		t, err := blueprint.Find(any.Templates[0], b.Path)
		if err != nil {
			return nil, nil, err
		}
		known, err := questionsAbout(t, b, dir).knownBoards(ctx)
		if ctx.Err() != nil {
			return nil, nil, failure.Stopped(ctx, "boards")
		}
		if err != nil {
			unlisted[family] = err
		}
		for _, name := range known {
			names = append(names, family+"/"+name)
		}
	}
	return names, unlisted, nil
}

// knownBoards returns the first words of the lines that the template's command for it prints.
func (p *Project) knownBoards(ctx context.Context) (names []string, err error) {
	if len(p.state.Template.Boards) == 0 {
		return nil, errors.New("the template names no command that lists them")
	}
	for _, s := range p.state.Template.Find {
		if err := p.checkVariable(s.Name); err != nil {
			return nil, err
		}
	}
	out, err := p.ask(ctx, p.state.Template.Boards)
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) > 0 {
			names = append(names, words[0])
		}
	}
	return names, err
}

// checkBoard adds to an error about the board, of a build that could not be configured, that the board is not in the
// template's list.
func (p *Project) checkBoard(ctx context.Context, err error) error {
	var tool *ToolError
	if !errors.As(err, &tool) || tool.Class != failure.Config || len(p.state.Template.Boards) == 0 {
		return err
	}
	known, failed := p.knownBoards(ctx)
	name := p.state.Board.Zephyr()
	base, _, _ := strings.Cut(name, "/") // the list may have no variants
	base, _, _ = strings.Cut(base, "@")  // and no revisions
	if failed != nil || slices.Contains(known, name) || slices.Contains(known, base) {
		return err
	}
	if !aboutBoard.MatchString(tool.Message) {
		return err // the list may lack boards from folders of the user's
	}
	return failure.New(failure.Config, "choose one that "+failure.Target("boards")+" lists, or let the project's "+
		"settings name the folder that has it", "%w\nboard %q is not known%s",
		err, name, jsonfile.DidYouMean(name, known))
}

var aboutBoard = regexp.MustCompile(`(?i)\bboard\b`)
