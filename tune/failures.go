package tune

import (
	"errors"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/project"
)

// newFailure returns the failure of an error. It blames the computer for errors of class host and tool-missing, and the
// candidate for others.
func newFailure(err error) *Failure {
	f := &Failure{Class: failure.Of(err), Blame: BlameCandidate, Message: err.Error()}
	if f.Class == failure.Host || f.Class == failure.ToolMissing {
		f.Blame = BlameHost
	}
	f.Retry = f.Blame != BlameCandidate
	return f
}

// buildFailure returns the failure of a candidate that could not be built, or nil if err is neither the candidate's
// fault nor the computer's.
func buildFailure(err error) *Failure {
	f := newFailure(err)
	// Code may make a compiler crash: Run.measure decides after several attempts.
	var host *command.HostError
	if errors.As(err, &host) && host.Crashed() {
		f.suspected = failure.Compile
	}

	var tool *project.ToolError
	// A compiler that names no code may have failed by the computer's fault.
	if errors.As(err, &tool) && (f.Class == failure.Compile || f.Class == failure.Link) &&
		!diagnostics.NamesCode(tool.Error()) {
		f.suspected = f.Class
		f.Class, f.Blame, f.Retry = failure.Host, BlameHost, true
	}

	switch f.Class {
	case failure.Compile, failure.Link, failure.DoesNotFit, failure.Timeout, failure.Config, failure.Host,
		failure.ToolMissing:
		return f
	}
	return nil
}

// isWorn reports whether err is of a board whose flash must not be written any more.
func isWorn(err error) bool {
	var worn *device.WearError
	return errors.As(err, &worn)
}
