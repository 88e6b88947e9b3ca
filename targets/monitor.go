// This file shows what a device sends, and sends lines to it.

package targets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Monitor shows the board's logs and all traffic, until interrupted. Of firmware that prints text it is a console:
// docs/devices.md. BAUD, RESET=1, TIMESTAMPS=1 and LOG configure it; OUTPUT records every byte; TRACE shows that.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [rpc]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	OUTPUT       a recording of the link [not written]
//	TRACE        the recording to show, in place of a device
//	TIMEOUT      limit for one call on the device: 60 (seconds), 2m30s [60 s]
//	FORCE=1      uses and flashes the board also if another one is named
//	BAUD         bits a second of a serial port [the board file's link.baud]
//	RESET=1      reset the board through its probe when the link is open
//	TIMESTAMPS=1 the time before each line
//	LOG          a new file, or an earlier log, to which each line is appended with date and time [not written]
func Monitor(ctx context.Context) error { return doMonitor(ctx) }

var doMonitor = jobTarget("monitor", "", monitorDevice)

// monitorInputs are the variables of monitor.
type monitorInputs struct {
	inputs.OfModel
	inputs.OfCall
	Output     string `var:"OUTPUT" write:"recording"`
	Trace      string `var:"TRACE"`
	Baud       int    `var:"BAUD" range:"1 1e9" else:" is no rate" next:"name the bits a second, as in BAUD=115200"`
	Reset      bool   `var:"RESET"`
	Timestamps bool   `var:"TIMESTAMPS"`
	Log        string `var:"LOG" write:"log"`
}

func monitorDevice(ctx context.Context, j *job, v monitorInputs) (err error) {
	if name := j.in.Trace; name != "" {
		return showTrace(j, name)
	}

	m := device.Monitoring{Reset: v.Reset, Baud: v.Baud}
	d, image, err := monitored(ctx, j)
	if err != nil {
		return err
	}

	defer func() { _ = j.detach() }()

	// The first error of writing a file ends the session, too.
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	files, err := openStreams(v, end)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, files.close()) }()

	m.Show = func(line string) { showLine(j.Console, files.log, line, v.Timestamps) }
	if files.record != nil {
		m.Record = files.record
	}

	if command.HasInput(os.Stdin) {
		m.Send = linesOf(os.Stdin)
	}

	j.Notef("monitor: Ctrl-C ends it")
	err = d.Monitor(running, image, m)

	switch {
	case ctx.Err() != nil:
		return nil // the usual end
	case running.Err() != nil:
		return context.Cause(running)
	}
	return err
}

// showTrace shows a recording.
func showTrace(j *job, name string) error {
	f, err := regularfile.Open(j.Abs(name))
	if err != nil {
		next := "record it: TRACE=" + command.Quote(name) + " " + nextstep.Target("run")
		return failure.New(failure.Config, next, "TRACE: %w", err)
	}
	defer f.Close()

	m := device.Monitoring{Show: func(line string) { j.Printf("%s", line) }}
	if err := m.Replay(f); err != nil {
		return fmt.Errorf("TRACE=%s: %w", name, err)
	}

	return nil
}

// A stream is a file that is written as its content arrives, so that it has all of it however the process ends. The
// first error of writing ends the target.
type stream struct {
	variable string // that names the file
	file     *os.File
	end      context.CancelCauseFunc
}

// Write implements io.Writer. A nil stream drops everything.
func (s *stream) Write(p []byte) (int, error) {
	if s == nil {
		return len(p), nil
	}
	n, err := s.file.Write(p)
	if err != nil {
		s.end(s.explained(err))
	}

	return n, err
}

func (s *stream) explained(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.variable, err)
}

// streams are LOG, which grows, and OUTPUT, which is replaced; nil: none.
type streams struct{ log, record *stream }

// openStreams opens the files that the target writes. end ends it.
func openStreams(v monitorInputs, end context.CancelCauseFunc) (s streams, err error) {
	if s.log, err = openStream("LOG", v.Log, os.O_APPEND, end); err != nil {
		return s, err
	}
	if s.record, err = openStream("OUTPUT", v.Output, os.O_TRUNC, end); err != nil {
		return s, errors.Join(err, s.close())
	}

	return s, nil
}

func openStream(variable, path string, flag int, end context.CancelCauseFunc) (*stream, error) {
	if path == "" {
		return nil, nil
	}

	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flag, 0o644)
	if err != nil {
		return nil, failure.New(failure.Config, "choose a file that can be written", "%s: %w", variable, err)
	}

	return &stream{variable: variable, file: f, end: end}, nil
}

func (s streams) close() (err error) {
	for _, each := range []*stream{s.log, s.record} {
		if each != nil {
			err = errors.Join(err, each.explained(each.file.Close()))
		}
	}
	return err
}

// showLine prints a line, if timed after its time, and writes it to LOG.
func showLine(c *console.Console, log *stream, line string, timed bool) {
	received := time.Now()
	text := line
	if timed {
		text = received.Format("15:04:05.000 ") + line
	}

	c.Printf("%s", text)
	c.JSONLine(jsonlines.Monitor{Status: jsonlines.StatusRunning, Line: line, Time: received.Format(time.RFC3339Nano)})
	_, _ = fmt.Fprintf(log, "%s %s\n", received.Format("2006-01-02T15:04:05.000Z07:00"), line) // an error ends the target
}

// linesOf returns the lines of a reader as they come; the channel is closed at its end. The goroutine ends with the
// reader, or with the process.
func linesOf(r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewReader(r); ; {
			line, err := in.ReadString('\n')
			// The last line may have no end.
			if err == nil || line != "" {
				lines <- strings.TrimRight(line, "\r\n")
			}

			if err != nil {
				return
			}
		}
	}()
	return lines
}

// monitored is the device to listen to: one that keeps its image is taken as it is, any other runs the image that was
// built.
func monitored(ctx context.Context, j *job) (*device.Device, *image.Image, error) {
	b, err := j.board()
	if err != nil {
		return nil, nil, err
	}

	desk := j.desk()
	d, err := attach(ctx, j.Console, b, j.in.Device, desk)
	if err != nil {
		return nil, nil, err
	}

	j.device = d
	if d.KeepsImage() {
		return d, nil, nil
	}

	image, err := j.built(ctx)
	return d, image, err
}
