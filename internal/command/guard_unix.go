//go:build !windows

// This file ends a command's whole process group when this process dies. The kernel can only end direct children.

package command

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// A guard is the leader of a group. When this process dies, it kills the group.
type guard struct {
	cmd  *exec.Cmd
	life io.Closer // open for as long as this process lives
}

// guardScript waits until this process has died, then kills its own group. The guard ignores signals that ask the
// group to stop.
const guardScript = `trap '' HUP INT QUIT TERM; read -r never; kill -s KILL 0`

func newGuard(held []*os.File) (*guard, error) {
	g := &guard{cmd: exec.Command("/bin/sh", "-c", guardScript)}
	g.cmd.Dir, g.cmd.Env, g.cmd.ExtraFiles = "/", Environment("/"), held
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	life, err := g.cmd.StdinPipe()
	if err == nil {
		g.life = life
		err = g.cmd.Start()
	}

	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return g, nil
}

// end waits for the guard after its group was killed.
func (g *guard) end() {
	_ = g.life.Close()
	_ = g.cmd.Wait() // it was killed
}
