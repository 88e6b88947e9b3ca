// This file checks the installed tools and this user's access to boards.

package targets

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/cli/toolbox"
)

func (v *invocation) doctor(ctx context.Context) error {
	p := v.Start("looking for tools", len(toolbox.Tools()))
	all, err := toolbox.Look(ctx)
	p.End()
	if err != nil {
		return err
	}
	v.Printf("go       %s %s/%s, working folder %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, v.Dir)
	var lacking []string
	for _, f := range all {
		toolbox.Print(v.Console, f)
		if !f.Here && f.Needed {
			lacking = append(lacking, f.Name)
		}
	}
	if err := v.templateNeeds(ctx); err != nil {
		return err
	}
	for _, f := range toolbox.Access() {
		toolbox.Print(v.Console, f)
	}
	if runtime.GOOS != "linux" {
		v.Printf("The host board needs Linux; on this system use a hardware or a QEMU board.")
	}
	if len(lacking) > 0 {
		return failure.New(failure.ToolMissing, toolbox.HowToInstall(all), "missing: %s", strings.Join(lacking, ", "))
	}
	v.JSONLine(jsonlines.Done{})
	return nil
}

// templateNeeds prints what templates need besides the tools that doctor looks for anyway.
func (v *invocation) templateNeeds(ctx context.Context) error {
	builder, err := v.search(ctx)
	if err != nil {
		return err
	}
	needs, err := builder.Needs(ctx, v.Dir)
	if err != nil {
		return err
	}
	for _, n := range needs {
		if slices.ContainsFunc(toolbox.Tools(), func(t toolbox.Tool) bool { return t.Apt != "" && t.Name == n.Name }) {
			continue
		}
		f := toolbox.Finding{
			Tool: toolbox.Tool{Name: n.Name, Use: "template " + n.Template}, Here: n.Err == nil,
			Version: cmp.Or(n.Found, "works"), Fix: "to get it: " + n.Install,
		}
		if n.Board != "" {
			f.Use, f.Fix = "post_link of board "+n.Board, "install it, or put its folder on PATH"
		}
		if n.Err != nil {
			f.Version, f.Why = "", n.Err.Error()
		}
		toolbox.Print(v.Console, f)
	}
	return nil
}

// setup installs what is missing, or with CHECK only looks.
func (v *invocation) setup(ctx context.Context) error {
	if v.Env.On("CHECK") {
		return v.doctor(ctx)
	}
	return toolbox.Setup(ctx, v.Console)
}
