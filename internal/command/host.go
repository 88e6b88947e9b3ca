// This file decides whether the computer was at fault when a program failed: a signal ended it, or the program or one
// that it ran reports an error of the operating system.

package command

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
)

// A HostError reports that the computer made a program fail. Its class is failure.Host.
type HostError struct {
	Line string // of the program's output that shows it; "" if a signal ended the program itself
	Err  error  // how the program ended
	next string
}

// Crashed reports whether the program, or one that it ran, was ended by a signal that an error of its own raises.
func (e *HostError) Crashed() bool {
	return crash.MatchString(e.Line) || e.Line == "" && crash.MatchString(e.Err.Error())
}

var crash = regexp.MustCompile(`(?i)bus error|segmentation fault|illegal instruction|floating point exception`)

// Error returns how the program ended.
func (e *HostError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *HostError) Unwrap() error { return e.Err }

// FailureClass returns failure.Host.
func (e *HostError) FailureClass() failure.Class { return failure.Host }

// NextStep returns how to remove the cause.
func (e *HostError) NextStep() string { return e.next }

const afterSignal = "no program ends so by itself: most often memory ran out; close other programs and repeat"

// ofHost returns a program's end as a *HostError if the computer was at fault, else the end itself. dir is the folder
// in which it ran.
func ofHost(end error, text, dir string) error {
	var exit *exec.ExitError
	if errors.As(end, &exit) {
		status, ok := exit.Sys().(interface {
			Signaled() bool
			Signal() syscall.Signal
		})
		if ok && status.Signaled() && status.Signal() != syscall.SIGABRT { // which is a program's own failed assertion
			return &HostError{Err: end, next: afterSignal}
		}
	}

	if line, next := hostWords(text); line != "" {
		if next == failure.Next(syscall.ENOSPC) { // of which disk, few programs say
			next = "make room on the disks of " + abspath.Of(cmp.Or(dir, ".")) + ", in which it ran, and of " + os.TempDir() +
				", which TMPDIR chooses, and repeat"
		}
		return &HostError{Line: line, Err: end, next: next}
	}
	return end
}

// notStarted adds the class to the error of a program that could not be started.
func (c Command) notStarted(err error) error {
	if _, noFolder := os.Stat(c.Dir); c.Dir != "" && noFolder != nil {
		return noFolder
	}
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return failure.New(failure.Host, "close other programs and repeat", "%w", err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOEXEC):
		return failure.New(failure.ToolMissing,
			"check that it is there, and that the program in its first line is installed if it is a script", "%w", err)
	}
	return err
}

// hostWords returns the first line of a program's output that reports a fault of the computer, and what to do; or "".
func hostWords(text string) (line, next string) {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if sourceLine.MatchString(line) || inSource.MatchString(line) && !fatalInSource.MatchString(line) {
			continue // text of a source, which a compiler repeats
		}
		for _, w := range hostReports {
			if w.words.MatchString(line) {
				return line, w.next
			}
		}
	}
	return "", ""
}

var (
	sourceLine    = regexp.MustCompile(`^(\d+ )?\s*\|`)
	inSource      = regexp.MustCompile(`^(\{standard input\}|[^:]+):\d+(:\d+)?: `)
	fatalInSource = regexp.MustCompile(`^[^:]+:\d+(:\d+)?: [Ff]atal error: `)
)

// A hostReport is how programs report a fault of the computer.
type hostReport struct {
	words *regexp.Regexp
	next  string
}

const (
	signals = `(Killed|Terminated|Hangup|Interrupt|Quit|Bus error|Segmentation fault|Illegal instruction|` +
		`Floating point exception|File size limit exceeded|CPU time limit exceeded)`
	// programs of a toolchain and of builds, at the end of a path or of a target's name
	builders = `(cc|gcc|g\+\+|c\+\+|cc1|cc1plus|lto1|collect2|as|ld|clang|clang\+\+|lld|ar|ranlib|objcopy|strip|make|sh)` +
		`(-[\d.]+)?`
	failedStep = `^make(\[\d+\])?: \*\*\* .*`
)

var hostReports = func() (all []hostReport) {
	for _, e := range []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EFBIG,
	} { // behind a colon, in quotes, as Python's errors or as CMake's
		words := regexp.QuoteMeta(e.Error())
		all = append(all, hostReport{
			regexp.MustCompile(`(?i): (\[Errno \d+\] )?'?` + words + `'?(: '.*')?$|\(` + words + `\):?$`), failure.Next(e),
		})
	}
	report := func(next string, patterns ...string) {
		all = append(all, hostReport{regexp.MustCompile(strings.Join(patterns, "|")), next})
	}
	report(failure.Next(syscall.ENOMEM), `: (memory exhausted|out of memory)( allocating \d+ bytes.*)?$`, `^MemoryError$`)
	report("close other programs and repeat", `fork: Resource temporarily unavailable$`,
		`posix_spawn: Resource temporarily unavailable$`)
	report(failure.Next(syscall.ENOSPC), `^/bin/sh: \d+: (echo|printf): (echo|printf): I/O error$`)
	for _, fault := range []struct {
		err  syscall.Errno
		next string
	}{
		{syscall.EIO, "check the disk, or choose a folder on another one, and repeat"},
		{syscall.EROFS, "make the disk writable, or choose a folder on another one, and repeat"},
		{syscall.ESTALE, "mount the network's folder again, and repeat"},
	} { // only by these tools: for a programmer, an input/output error is the probe's
		report(fault.next, `(?i)^\S*\b`+builders+`: .*: '?`+regexp.QuoteMeta(fault.err.Error())+`'?$`,
			`(?i)`+fatalInSource.String()+`.*: '?`+regexp.QuoteMeta(fault.err.Error())+`'?$`)
	}
	report("install the compiler again: one of its programs cannot be run", // GCC's driver, collect2, Clang's driver
		`^\S+: (fatal )?error: (cannot execute|error trying to exec) '[^']+': `, `^\S+: error trying to exec '[^']+': `,
		`^collect2: fatal error: cannot find '[^']+'$`, `error: unable to execute command: (Executable|posix_spawn failed)`)
	report("set TMPDIR to a folder that exists and can be written to, and repeat",
		`^Cannot create temporary file in `, `^\S+: (fatal )?error: unable to make temporary file: `)
	report(afterSignal,
		`^\S+: (fatal|internal compiler) error: `+signals+` signal terminated program \S+$`, // GCC's driver
		`terminated with signal \d+ \[`+signals+`(, core dumped)?\]`,                        // collect2
		`unable to execute command: `+signals,                                               // Clang's driver
		`^`+signals+`( \(core dumped\))?$`,                                                  // a shell
		failedStep+`\] `+signals+`( \(core dumped\))?$`,
		failedStep+`\] Error 1(29|[345]\d)$`, // a shell's status after a signal
	)
	return all
}()
