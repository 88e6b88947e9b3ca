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

// servesWithin limits the time until a server is ready.
const servesWithin = connectTime

const gdbServer = "gdb server" // for messages

var errNotServing = errors.New("the server was not ready in time")

// ServeCommand returns the command line of Serve, for display.
func (o *openocd) ServeCommand(attach bool, port int) string {
	return command.Command{Path: o.displayPath("openocd"), Args: o.serveArgs(".", attach, port)}.Typed()
}

const serving = "serving"

// serveArgs makes OpenOCD listen before it runs the last of its commands.
func (o *openocd) serveArgs(dir string, attach bool, port int) []string {
	commands := "reset halt"
	if attach {
		commands = "set core [target current]; $core configure -event gdb-attach {halt}; " +
			"$core configure -event gdb-detach {resume}"
	}
	return append(o.connect(dir, fmt.Sprint(port)), "-c", commands+`; echo "`+mark+serving+`"`)
}

// Serve runs a gdb server. The core is reset and halted before its first instruction. With attach it runs until the
// debugger connects, and continues when that detaches.
func (o *openocd) Serve(ctx context.Context, attach bool, port int, use func(context.Context) error) error {
	return o.serve(ctx, server{name: gdbServer}, func(dir string) []string { return o.serveArgs(dir, attach, port) }, use)
}

// serve runs OpenOCD as a server, with arguments for its working folder.
func (o *openocd) serve(
	ctx context.Context, s server, args func(dir string) []string, use func(context.Context) error,
) error {
	path, err := o.find()
	if err != nil {
		return err
	}

	return inFolder(func(dir string) error {
		if err := o.shadow(dir); err != nil {
			return err
		}
		s.command, s.ready = o.command(path, args(dir), dir), mark+serving
		return s.serveWatched(ctx, servesWithin, use)
	})
}

// serveArgs halts the core only: gdb resets it. With attach, the core runs until gdb connects.
func (p *pyocd) serveArgs(attach bool, port int) ([]string, error) {
	mode := "halt"
	if attach {
		mode = "attach"
	}

	args, err := p.connect("gdbserver", mode)
	return append(args, option("--port", fmt.Sprint(port)), option("--telnet-port", "0"), "--persist"), err
}

// ServeCommand returns the command line of Serve, for display.
func (p *pyocd) ServeCommand(attach bool, port int) string {
	args, err := p.serveArgs(attach, port)
	return p.typed(args, err)
}

// Serve runs a gdb server.
func (p *pyocd) Serve(ctx context.Context, attach bool, port int, use func(context.Context) error) error {
	args, err := p.serveArgs(attach, port)
	if err != nil {
		return err
	}

	path, err := p.tool("pyocd")
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

	// Of a port that is taken and a server that runs on, only the first line counts.
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
		// No process may be left behind.
		stop()
		<-ended
		hung := &command.Error{Tool: command.Name(c.Path), Command: c.Typed(), Err: errNotServing}
		return failure.Errorf(failure.Timeout, "the %s hangs (%w)", s.name, hung)
	}

	err := use(ctx)
	stop()
	<-ended // it was stopped: ignore its exit status
	return err
}
