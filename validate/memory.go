// This file adds to a report what the firmware takes of its memory.

package validate

import (
	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/project"
)

// AddMemory adds what is known of an image of the project: the depth of the stack that was computed, and the workspace
// of standalone firmware or the arena of firmware with an RPC server. Errors: those of Project.Usage.
func (r *Report) AddMemory(p *project.Project, i *image.Image) error {
	u, err := p.Usage(i)
	if err != nil {
		return err
	}

	if u.Stack != nil {
		used := StackUse{Size: u.Stack.Have}
		// Run may have measured it.
		if r.Memory.Stack != nil {
			used = *r.Memory.Stack
		}
		used.Computed = u.Stack.Need
		r.Memory.Stack = &used
	}

	if p.Options().App != boards.Standalone {
		if u.Arena.Need > 0 {
			r.Memory.Arena = &ArenaUse{Used: u.Arena.Need, Size: u.Arena.Have, Unsure: append([]string{}, u.Arena.Unsure...)}
		}
		return nil
	}

	// The workspace of standalone firmware is planned when its code is generated.
	a, m, err := p.Model()
	if err != nil {
		return err
	}
	code, err := cmodel.Generate(a, m, cmodel.Options{})
	if err != nil {
		return err
	}

	workspace := code.WorkspaceBytes()
	r.Memory.Workspace = &workspace
	return nil
}
