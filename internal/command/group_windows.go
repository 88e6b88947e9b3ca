package command

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// systemVariables lists the variables that programs need on this system besides PATH and HOME.
var systemVariables = []string{"SystemRoot", "TEMP", "TMP", "PATHEXT", "USERPROFILE"}

func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// A group is a job object: the command and its children, which end when the last handle to the job is closed. Held
// files need no inheritance: no process of the group outlives this one.
type group struct {
	cmd *exec.Cmd
	job windows.Handle
}

func newGroup(cmd *exec.Cmd, _ []*os.File) (*group, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("job: %w", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		windows.CloseHandle(job)
		return nil, fmt.Errorf("job: %w", err)
	}
	return &group{cmd, job}, nil
}

// started puts the command into the job. Children that it starts in the microseconds before are not in it.
func (g *group) started() error {
	const access = windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE | windows.SYNCHRONIZE
	h, err := windows.OpenProcess(access, false, uint32(g.cmd.Process.Pid))
	if err != nil {
		return fmt.Errorf("job: %w", err)
	}
	defer windows.CloseHandle(h)
	err = windows.AssignProcessToJobObject(g.job, h)
	// a process that has ended joins no job
	if ended, _ := windows.WaitForSingleObject(h, 0); err != nil && ended != windows.WAIT_OBJECT_0 {
		return fmt.Errorf("job: %w", err)
	}
	return nil
}

// end kills the remaining processes of the group.
func (g *group) end() { windows.CloseHandle(g.job) }

// interrupt kills the command: Windows has no interrupt signal for a program without a console.
func (g *group) interrupt() error { return g.cmd.Process.Kill() }
