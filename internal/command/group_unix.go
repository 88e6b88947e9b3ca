//go:build !windows

package command

import (
	"os"
	"os/exec"
	"syscall"
)

// systemVariables are what a program needs on this system besides PATH and HOME.
var systemVariables []string

// A group is the processes of one run.
type group struct {
	cmd   *exec.Cmd
	guard *guard // its leader; nil where no files are held, and the command leads it
}

// newGroup has the command and its children keep the files open, and with them a lock on them. The first is their standard
// input too: programs in Python hand that alone on to those that they start.
func newGroup(cmd *exec.Cmd, held []*os.File) (*group, error) {
	g := &group{cmd: cmd}
	if len(held) == 0 {
		return g, nil
	}
	var err error
	if g.guard, err = newGuard(held); err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.ExtraFiles, cmd.SysProcAttr.Pgid = held[0], held, g.guard.cmd.Process.Pid
	return g, nil
}

func (g *group) started() error { return nil }

// signal sends a signal to all of the group. It fails where nobody is left.
func (g *group) signal(s syscall.Signal) error {
	leader := g.cmd
	if g.guard != nil {
		leader = g.guard.cmd
	}
	if leader.Process == nil {
		return nil
	}
	return syscall.Kill(-leader.Process.Pid, s)
}

// interrupt asks all processes of the group to stop, as Ctrl-C does.
func (g *group) interrupt() error { return g.signal(syscall.SIGINT) }

// end ends what is left of the group; most often that is nothing.
func (g *group) end() {
	_ = g.signal(syscall.SIGKILL)
	if g.guard != nil {
		g.guard.end()
	}
}
