// This file runs the programmer's gdb server while gdb runs.

package flasher

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

// A DebugServer is a programmer with a gdb server.
type DebugServer interface {
	// Serve runs a gdb server on a local TCP port, with the core halted, and calls use when gdb can connect. The core is
	// reset before unless halt is Attached. The server ends when use returns, before Serve returns. Errors:
	// *ProgrammerError, those of use and of ctx.
	Serve(ctx context.Context, halt Halt, port int, use func(context.Context) error) error
	// ServeCommand returns the server's command line, for display.
	ServeCommand(halt Halt, port int) string
}

// A Halt is the way in which a core is halted for a debugger.
type Halt int

// A core is halted by a reset, before its first instruction; or where it is, and continues when the debugger detaches.
const (
	AfterReset Halt = iota
	Attached
)

// servesWithin limits the time until a server is ready.
const servesWithin = connectTime

const gdbServer = "gdb server" // for messages

var errNotServing = errors.New("the server was not ready in time")

// ServeCommand implements DebugServer.
func (o *openocd) ServeCommand(halt Halt, port int) string {
	return command.Command{Path: o.displayPath("openocd"), Args: o.serveArgs(".", halt, port)}.Typed()
}

const serving = "serving"

// serveArgs makes OpenOCD listen before it runs the last of its commands.
func (o *openocd) serveArgs(dir string, halt Halt, port int) []string {
	commands := "reset halt"
	if halt == Attached {
		commands = "halt; [target current] configure -event gdb-detach {resume}"
	}
	return append(o.connect(dir, fmt.Sprint(port)), "-c", commands+`; echo "`+mark+serving+`"`)
}

// Serve implements DebugServer.
func (o *openocd) Serve(ctx context.Context, halt Halt, port int, use func(context.Context) error) error {
	path, err := o.find()
	if err != nil {
		return err
	}
	return inFolder(func(dir string) error {
		if err := o.shadow(dir); err != nil {
			return err
		}
		gdb := server{name: gdbServer, command: o.command(path, o.serveArgs(dir, halt, port), dir), ready: mark + serving}
		return gdb.serveWatched(ctx, servesWithin, use)
	})
}

// serveArgs halts the core only: gdb resets it.
func (p *pyocd) serveArgs(port int) ([]string, error) {
	args, err := p.connect("gdbserver")
	return append(args, option("--port", fmt.Sprint(port)), option("--telnet-port", "0"), "--persist"), err
}

// ServeCommand implements DebugServer.
func (p *pyocd) ServeCommand(_ Halt, port int) string {
	args, err := p.serveArgs(port)
	return p.typed(args, err)
}

// Serve implements DebugServer.
func (p *pyocd) Serve(ctx context.Context, _ Halt, port int, use func(context.Context) error) error {
	args, err := p.serveArgs(port)
	if err != nil {
		return err
	}
	path, err := p.Find("pyocd")
	if err != nil {
		return err
	}
	return inFolder(func(dir string) error {
		gdb := server{name: gdbServer, command: p.command(path, args, dir), ready: "GDB server listening on port"}
		return gdb.serveWatched(ctx, servesWithin, use)
	})
}

// A server is a programmer's command that serves until it is ended.
type server struct {
	name    string // for messages
	command command.Command
	ready   string          // part of the line that the command prints when it serves
	ended   func(err error) // called when the command has ended; nil: not called
}

// serve runs the server, calls use once it serves, and ends it when use returns.
func (s server) serve(ctx context.Context, within time.Duration, use func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready, refused := make(chan struct{}), make(chan string, 1)
	var once sync.Once
	c := s.command
	c.Out = func(line string) {
		switch {
		case portTaken.MatchString(line):
			once.Do(func() { refused <- line })
		case strings.Contains(line, s.ready):
			once.Do(func() { close(ready) })
		}
	}
	c.Err = c.Out
	ended := make(chan error, 1)
	go func() {
		err := c.Run(ctx)
		if s.ended != nil {
			s.ended(err)
		}
		ended <- err
	}()
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case <-ready:
	case err := <-ended:
		if err == nil {
			err = fmt.Errorf("%s: %w", filepath.Base(c.Path), errNotServing)
		}
		return explain(err)
	case line := <-refused:
		stop()
		<-ended
		return explain(&command.Error{Tool: command.Name(c.Path), Text: line, Command: c.Typed(), Err: errNotServing})
	case <-limit.C:
		stop()
		<-ended
		hung := &command.Error{Tool: command.Name(c.Path), Command: c.Typed(), Err: errNotServing}
		return &ProgrammerError{Class: failure.Timeout, Hint: "the " + s.name + " hangs", Err: hung}
	}
	err := use(ctx)
	stop()
	<-ended // it was stopped: ignore its exit status
	return err
}
