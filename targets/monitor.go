// This file shows what a device sends, and sends lines to it.

package targets

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/jsonlines"
)

// monitor shows what the device sends until it is interrupted, and sends lines of standard input.
func (v *invocation) monitor(ctx context.Context) (err error) {
	m := device.Monitoring{Reset: v.Env.On("RESET")}
	if m.Baud, err = v.baud(); err != nil {
		return err
	}
	d, image, err := v.monitored(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = v.detach() }()
	log, err := v.openLog()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	m.Show = func(line string) { v.showLine(log, line) }
	var recording bytes.Buffer
	if v.in.Output != "" {
		if err := v.canWriteOutput(); err != nil {
			return err
		}
		m.Record = &recording
	}
	if command.HasInput(os.Stdin) {
		m.Send = linesOf(os.Stdin)
	}
	v.Notef("monitor: Ctrl-C ends it")
	err = d.Monitor(ctx, image, m)
	if m.Record != nil {
		if failed := atomicwriter.WriteFile(v.in.Output, recording.Bytes(), 0o644); failed != nil {
			return failure.New(failure.Config, "choose an OUTPUT that can be written", "OUTPUT: %w", failed)
		}
		v.Notef("wrote %s", v.in.Output)
	}
	if ctx.Err() != nil {
		return nil // the usual end
	}
	return err
}

// baud returns BAUD; 0: the board file's.
func (v *invocation) baud() (int, error) {
	text := v.Env("BAUD")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, failure.New(failure.Config, "name the bits a second, as in BAUD=115200", "BAUD=%s is no rate", text)
	}
	return n, nil
}

// openLog opens LOG to append to it; without LOG nothing is written.
func (v *invocation) openLog() (io.WriteCloser, error) {
	path := v.Env("LOG")
	if path == "" {
		return noLog{io.Discard}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, failure.New(failure.Config, "choose a LOG that can be written", "LOG: %w", err)
	}
	return f, nil
}

type noLog struct{ io.Writer }

func (noLog) Close() error { return nil }

// showLine prints a line, with TIMESTAMPS after its time, and writes it to LOG.
func (v *invocation) showLine(log io.Writer, line string) {
	now := time.Now()
	text := line
	if v.Env.On("TIMESTAMPS") {
		text = now.Format("15:04:05.000 ") + line
	}
	v.Printf("%s", text)
	v.JSONLine(jsonlines.Monitor{Status: jsonlines.StatusRunning, Line: line, Time: now.Format(time.RFC3339Nano)})
	if _, err := fmt.Fprintf(log, "%s %s\n", now.Format("2006-01-02T15:04:05.000Z07:00"), line); err != nil {
		v.Notef("LOG: %v", err)
	}
}

// linesOf returns the lines of a reader as they come; the channel is closed at its end. The goroutine ends with the
// reader, or with the process.
func linesOf(r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewReader(r); ; {
			line, err := in.ReadString('\n')
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
func (v *invocation) monitored(ctx context.Context) (*device.Device, *image.Image, error) {
	in, b, err := v.boardOf(ctx)
	if err != nil {
		return nil, nil, err
	}
	desk := v.desk(in)
	d, err := v.attach(ctx, b, in.Device, desk)
	if err != nil {
		return nil, nil, err
	}
	v.device = d
	if d.KeepsImage() {
		return d, nil, nil
	}
	image, err := v.built(ctx)
	return d, image, err
}
