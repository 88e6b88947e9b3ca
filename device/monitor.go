// This file shows the traffic of a device's link.

package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/transport"
)

// Monitoring configures Monitor. Show must be set.
type Monitoring struct {
	// called with a line for each message in either direction and for each line that the device logs
	Show   func(line string)
	Record io.Writer // receives a recording of every byte, in transport's format; nil: none
}

// Monitor opens the link, begins a session, and shows logs and traffic until ctx or the link ends. i is what an
// emulator or a process runs; nil for a device that keeps its image.
func (d *Device) Monitor(ctx context.Context, i *image.Image, m Monitoring) error {
	if m.Show == nil {
		m.Show = func(string) {}
	}
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "monitor")
	}
	link, err := d.Link(ctx, i)
	if err != nil {
		return err
	}
	defer func() { link.Close() }()
	if m.Record != nil {
		link = transport.Record(link, m.Record)
	}
	link = &watched{Link: link, show: m.Show, began: time.Now(), in: direction{sign: "<"}, out: direction{sign: ">"}}
	log := hclog.New(&hclog.LoggerOptions{Output: logLines(m.Show), Level: hclog.Info, DisableTime: true})
	listen := listen
	if speaksLines(i) {
		listen = overhear
	}
	for {
		err := listen(ctx, link, log)
		var ended *transport.TerminatedError
		var mute *transport.HandshakeError
		switch {
		case ctx.Err() != nil:
			return failure.Stopped(ctx, "monitor")
		case errors.As(err, &ended):
			m.Show("-- " + ended.Error())
		case errors.As(err, &mute) && !errors.Is(err, transport.ErrClosed):
			m.Show("-- " + mute.Error() + "; asking again")
		default:
			return err
		}
	}
}

// listen holds one session and waits for unsolicited messages of the device.
func listen(ctx context.Context, link transport.Link, log hclog.Logger) error {
	s, err := transport.Dial(ctx, link, transport.SessionOptions{Log: log})
	if err != nil {
		return err
	}
	for {
		if _, err := s.Recv(ctx); err != nil {
			var damaged *transport.DamagedError
			if !errors.As(err, &damaged) {
				return err
			}
		}
	}
}

// overhear reads what standalone firmware sends, which asks for no session.
func overhear(ctx context.Context, link transport.Link, _ hclog.Logger) error {
	buffer := make([]byte, 4096)
	for {
		if _, err := link.Read(ctx, buffer); err != nil {
			return err
		}
	}
}

// logLines passes on the lines of a logger.
type logLines func(string)

func (l logLines) Write(p []byte) (int, error) {
	l("log      " + strings.TrimSpace(strings.Replace(string(p), "[INFO]", "", 1)))
	return len(p), nil
}

// A watched link shows the frames that it carries, and the device's output outside of frames.
type watched struct {
	transport.Link
	show    func(string)
	began   time.Time
	in, out direction
}

// A direction of a link.
type direction struct {
	sign   string
	un     transport.Unframer
	marked bool   // the last byte, outside of frames, may begin one
	stray  []byte // bytes outside of frames since the last newline
}

func (w *watched) Read(ctx context.Context, p []byte) (int, error) {
	n, err := w.Link.Read(ctx, p)
	w.look(&w.in, p[:n])
	return n, err
}

func (w *watched) Write(ctx context.Context, p []byte) error {
	w.look(&w.out, p)
	return w.Link.Write(ctx, p)
}

// messageTypes are the third bytes of messages (wire.md §2.1).
var messageTypes = map[byte]string{0x00: "Init", 0x01: "Init reply", 0x02: "Terminate", 0x03: "log", 0x10: "message"}

const (
	frameMark  = 0xFF // begins every frame, and every escape in one
	shownBytes = 24
	strayLine  = 120
)

// look takes the bytes of one direction one at a time, so that their division into pieces does not matter.
func (w *watched) look(d *direction, p []byte) {
	for i, b := range p {
		outside := d.un.Idle()
		_, event := d.un.Next(p[i : i+1])
		switch {
		case event != transport.NeedMore:
			d.marked = false
			w.frame(d, event)
		case outside && d.un.Idle():
			w.outside(d, b)
		}
	}
}

func (w *watched) frame(d *direction, event transport.Event) {
	body := d.un.Payload()
	if event != transport.Frame || len(body) < 3 {
		w.line(d.sign, fmt.Sprintf("%v of %d bytes", event, len(body)))
		return
	}
	kind, known := messageTypes[body[2]]
	if !known {
		kind = fmt.Sprintf("type 0x%02x", body[2])
	}
	more := ""
	if len(body) > 3+shownBytes {
		more = " …"
	}
	w.line(d.sign, fmt.Sprintf("%-10s session %02x%02x, %5d bytes  % x%s", kind, body[0], body[1], len(body)-3,
		body[3:min(len(body), 3+shownBytes)], more))
}

// outside takes a byte outside of frames, such as a boot loader's output, and shows whole lines. It skips 0xff and
// the byte after it, which belong to the framing.
func (w *watched) outside(d *direction, b byte) {
	if d.marked || b == frameMark {
		d.marked = b == frameMark
		return
	}
	if b != '\n' {
		d.stray = append(d.stray, b)
	}
	if b != '\n' && len(d.stray) < strayLine {
		return
	}
	if text := bytes.TrimSpace(d.stray); len(text) > 0 {
		w.line(d.sign, fmt.Sprintf("outside of frames: %q", text))
	}
	d.stray = nil
}

func (w *watched) line(way, text string) {
	w.show(fmt.Sprintf("%8.3f %s %s", time.Since(w.began).Seconds(), way, text))
}
