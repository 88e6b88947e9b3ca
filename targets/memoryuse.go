// This file prints how much memory each part of a firmware takes, and how much the board has.

package targets

import (
	"context"
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/stackdepth"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Size prints how much memory each part of the built firmware takes.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [rpc]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	FIXED_INPUT  with APP=standalone: .npz with the inputs that are compiled in [those of the project]
//	PARAMS       ram makes the parameters of graph models variables [flash]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
func Size(ctx context.Context) error { return doSize(ctx) }

var doSize = jobTarget("size", "", printSize)

// sizeInputs are the variables of size.
type sizeInputs struct {
	inputs.OfProject
	FixedInput string `var:"FIXED_INPUT"`
	Params     string `var:"PARAMS"`
}

func printSize(ctx context.Context, j *job, _ sizeInputs) error {
	if j.in.Library {
		return librarySize(ctx, j)
	}

	image, err := j.built(ctx)
	if err != nil {
		return err
	}

	u, err := j.project.Usage(image)
	if err != nil {
		return err
	}

	r := jsonlines.Size{Project: j.projectLine(), Sizes: partLines(u), Arena: u.Arena, Stack: u.Stack}
	// A process has no regions: the system places it.
	if len(u.Regions) == 0 {
		printKinds(j.Console, u)
	} else {
		printRegions(j.Console, u)
		r.Regions = regionLines(u)
	}

	printArena(j.Console, u.Arena)
	if u.Stack != nil {
		printStack(j.Console, u.Stack)
	}

	j.JSONLine(r)
	return nil
}

// printKinds prints the sizes of a process, whose memory has no limits known here.
func printKinds(c *console.Console, u *project.Usage) {
	c.Printf("%-18s %10s %10s %10s   bytes", "", "text", "data", "bss")
	for _, p := range append(u.Parts, fit.PartUse{Name: "all", Size: u.Total()}) {
		if p.Size != (image.Size{}) {
			c.Printf("%-18s %10d %10d %10d", p.Name, p.Text, p.Data, p.BSS)
		}
	}
}

// printRegions prints a column for each memory of a board.
func printRegions(c *console.Console, u *project.Usage) {
	row := func(name string, cell func(i int) string) {
		line := fmt.Sprintf("%-18s", name)
		for i := range u.Regions {
			line += fmt.Sprintf(" %10s", cell(i))
		}
		c.Printf("%s", line)
	}
	number := func(f func(r fit.RegionUse) int64) func(int) string {
		return func(i int) string { return fmt.Sprint(f(u.Regions[i])) }
	}

	row("", func(i int) string { return u.Regions[i].Name })
	for _, p := range u.Parts {
		if p.Size == (image.Size{}) {
			continue
		}
		row(p.Name, func(i int) string {
			if p.In[i] == 0 {
				return "-"
			}
			return fmt.Sprint(p.In[i])
		})
	}

	row("used", number(func(r fit.RegionUse) int64 { return r.Used }))
	row("free", number(func(r fit.RegionUse) int64 { return r.Size - r.Used }))
	row("of", number(func(r fit.RegionUse) int64 { return r.Size }))
	row("", func(i int) string {
		return fmt.Sprintf("%.1f %%", 100*float64(u.Regions[i].Used)/float64(max(u.Regions[i].Size, 1)))
	})
}

func partLines(u *project.Usage) (lines []jsonlines.Part) {
	for _, p := range append(u.Parts, fit.PartUse{Name: "all", Size: u.Total()}) {
		l := jsonlines.Part{Part: p.Name, Size: p.Size}
		if len(p.In) > 0 {
			l.In = map[string]int64{}
			for i, n := range p.In {
				if n != 0 {
					l.In[u.Regions[i].Name] = n
				}
			}
		}
		lines = append(lines, l)
	}
	return lines
}

func regionLines(u *project.Usage) (lines []jsonlines.Region) {
	for _, r := range u.Regions {
		lines = append(lines, jsonlines.Region{RegionUse: r, Free: r.Size - r.Used})
	}
	return lines
}

func printArena(c *console.Console, a fit.ArenaUse) {
	subject := "arena"
	switch {
	case a.Need == 0: // standalone firmware has no arena, but a workspace of planned size
		subject = "workspace"
	case a.Used > 0:
		c.Printf("arena: %v", a)
	case a.Have == 0:
		c.Printf("arena: the running model takes %d bytes; the image has no section that areas of template.json names",
			a.Need)
	default:
		c.Printf("arena: the running model takes %d of %d bytes", a.Need, a.Have)
	}

	for _, doubt := range a.Unsure {
		c.Printf("%s: it may be more: %s", subject, doubt)
	}
}

func printStack(c *console.Console, u *stackdepth.Use) {
	c.Printf("stack: %d of %d bytes at worst: %s", u.Need, u.Have, strings.Join(u.Path, ", "))
	for _, doubt := range u.Unsure {
		c.Printf("stack: it may be more: %s", doubt)
	}
	if u.Room > 0 {
		c.Printf("stack of interrupt handlers: %d of %d bytes at worst", u.Handlers, u.Room)
	}
}
