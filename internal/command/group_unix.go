//go:build !windows

package command

import (
	"os"
	"os/exec"
	"syscall"
)

// systemVariables lists the variables that programs need on this system besides PATH and HOME.
var systemVariables []string

// A group is the process group of one run.
type group struct {
	cmd   *exec.Cmd
	guard *guard // the group's leader; nil without held files: the command leads then
}

// newGroup lets the command and its children inherit the open files and their locks. The first is also their
// standard input, the only file that Python programs pass on to their children.
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

// signal sends a signal to the whole group. It fails if the group is empty.
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

// end kills the remaining processes of the group, usually none.
func (g *group) end() {
	_ = g.signal(syscall.SIGKILL)
	if g.guard != nil {
		g.guard.end()
	}
}
