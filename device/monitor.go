// This file shows the traffic of a device's link.

package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

// Monitoring configures Monitor. Show must be set.
type Monitoring struct {
	// called with a line for each message in either direction and for each line that the device logs, or with each line
	// of text, from one goroutine at a time
	Show   func(line string)
	Record io.Writer // receives a recording of every byte, in transport's format; nil: none

	// lines for firmware without an RPC server, which gets a newline after each; nil or closed: no more
	Send  <-chan string
	Baud  int  // bits a second, in place of the board file's, of a link that is a serial port; 0: the board file's
	Reset bool // reset the board through its probe when the link is open, with RTT just before
}

// Monitor opens the link and shows what the device sends until ctx or the link ends. i is what an emulator or a process
// runs, and for a device that keeps its image the one to expect; nil: the one that the ledger records.
//
// If the image has an RPC server, Monitor begins a session and shows logs and traffic. Otherwise, or if the ledger
// records no image, it sends only Monitoring.Send, and shows text as it is: whole lines, and an unfinished one after a
// short silence. If another program reads the port, the first line names it. Errors: those of Link and Reset; class
// config for Baud on another kind of link.
func (d *Device) Monitor(ctx context.Context, i *image.Image, m Monitoring) error {
	if m.Show == nil {
		m.Show = func(string) {}
	}
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "monitor")
	}

	running := d.runningImage(i)
	text := running == nil || isStandalone(running)

	link, err := d.openMonitored(ctx, i, m)
	if err != nil {
		return err
	}

	// The closure closes the recording, if link becomes one below.
	defer func() { link.Close() }()
	if err := transport.Shared(link, errSharedPort); err != errSharedPort {
		m.Show("-- " + err.Error())
	}

	if m.Record != nil {
		link = transport.Record(link, m.Record)
	}

	start := time.Now()
	w := &monitoredLink{
		Link: link, show: m.Show, text: text, elapsed: func() time.Duration { return time.Since(start) },
	}
	if running != nil {
		w.explain = d.explain(running)
	}

	w.in.sign, w.out.sign = "<", ">"
	if text {
		if err = w.exchangeText(ctx, m.Send); ctx.Err() != nil {
			return failure.Stopped(ctx, "monitor")
		}
		return err
	}

	log := hclog.New(&hclog.LoggerOptions{Output: logLines(m.Show), Level: hclog.Info, DisableTime: true})
	for {
		// As long as the link is open, firmware may start again, or later.
		err := receiveAll(ctx, w, log)
		var silent *transport.HandshakeError
		switch {
		case ctx.Err() != nil:
			return failure.Stopped(ctx, "monitor")
		case errors.Is(err, transport.ErrTerminated):
			m.Show("-- " + err.Error())
		case errors.As(err, &silent) && !errors.Is(err, transport.ErrClosed):
			m.Show("-- " + silent.Error() + "; asking again")
		default:
			return err
		}
	}
}

var errSharedPort = errors.New("each byte reaches only one of the two")

// receiveAll begins a session and receives the device's unsolicited messages until the session ends.
func receiveAll(ctx context.Context, link transport.Link, log hclog.Logger) error {
	s, err := transport.Dial(ctx, link, transport.SessionOptions{Log: log})
	if err != nil {
		return err
	}
	for {
		if _, err := s.Recv(ctx); err != nil {
			if !errors.Is(err, transport.ErrDamaged) {
				return err
			}
		}
	}
}

// runningImage returns i, or without it the image that the ledger records; nil: unknown.
func (d *Device) runningImage(i *image.Image) *image.Image {
	if i != nil || d.attachment == nil {
		return i
	}
	i, err := d.recordedImage()
	if err != nil {
		d.desk.log().Warn("firmware unknown: nothing is sent to it", "error", err)
		return nil
	}
	return i
}

// openMonitored opens the link at the chosen rate, and resets the board.
func (d *Device) openMonitored(ctx context.Context, i *image.Image, m Monitoring) (transport.Link, error) {
	kind := linkers[d.board.Link.Kind]
	uart := d.attachment != nil && kind.open != nil && !d.board.Link.Remote()

	switch {
	case m.Baud < 0, m.Baud > 0 && !uart:
		return nil, failure.New(failure.Config, "leave out "+nextstep.Option("Monitoring.Baud", strconv.Itoa(m.Baud)),
			"board %s has no serial port with a rate of %d", d.board.Name, m.Baud)
	case m.Reset && kind.through != nil: // the link occupies the probe
		if err := d.Reset(ctx); err != nil {
			return nil, err
		}
		m.Reset = false
	}

	link, err := d.linkAtRate(ctx, i, m.Baud)
	if err == nil && m.Reset {
		if err = d.Reset(ctx); err != nil {
			return nil, errors.Join(err, link.Close())
		}
	}
	return link, err
}

// linkAtRate is Link with another rate; 0: the board file's.
func (d *Device) linkAtRate(ctx context.Context, i *image.Image, baud int) (transport.Link, error) {
	if baud == 0 {
		return d.Link(ctx, i)
	}

	settings := d.board.Link
	settings.Baud = baud
	return d.relocateAndOpen(ctx, settings, i)
}

// Reset resets a device that keeps its image, through its probe, and lets it run. A process or an emulator without a
// probe starts when its link opens: Reset does nothing. Errors: class config without a probe; those of flasher; if the
// board was plugged in elsewhere, class config if several may be it, *LeaseError if another process leases that place.
func (d *Device) Reset(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return failure.Stopped(ctx, "reset")
	case d.closed:
		return errClosed(d.board)
	case d.attachment == nil:
		return nil
	case !d.attachment.HasProbe():
		return failure.New(failure.Config, chooseProbe, "board %s has no debug probe", d.board.Name)
	}

	if err := d.relocateProbe(ctx); err != nil {
		return err
	}
	return d.attachment.Programmer.Do(ctx, flasher.Job{Restart: true})
}

// lineTimeout is the silence after which an unfinished line, such as a prompt, is shown.
const lineTimeout = 200 * time.Millisecond

// exchangeText shows what firmware prints, and sends lines to it, until ctx or the link ends.
func (w *monitoredLink) exchangeText(ctx context.Context, lines <-chan string) error {
	ctx, stop := context.WithCancelCause(ctx)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if err := sendLines(ctx, w.Link, lines); err != nil {
			stop(err)
		}
	}()

	buffer := make([]byte, 4096)
	var err error
	for err == nil {
		err = w.readText(ctx, buffer)
	}

	w.finish(&w.in)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // the sender's error, or the caller's
	}

	// The sender uses the link until it has ended.
	stop(nil)
	<-sent
	return err
}

func sendLines(ctx context.Context, link transport.Link, lines <-chan string) error {
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return nil
			}
			if err := link.Write(ctx, []byte(line+"\n")); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// readText reads once. If a line is unfinished, it waits lineTimeout for the rest, and then shows the part.
func (w *monitoredLink) readText(ctx context.Context, buffer []byte) error {
	limited, cancel := ctx, func() {}
	if len(w.in.stray) > 0 {
		limited, cancel = context.WithTimeout(ctx, lineTimeout)
	}
	defer cancel()

	_, err := w.Read(limited, buffer)
	// Only the pause inside a line has ended.
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		w.finish(&w.in)
		return nil
	}
	return err
}

// logLines receives the lines of a logger.
type logLines func(string)

func (l logLines) Write(p []byte) (int, error) {
	l("log      " + strings.TrimSpace(strings.Replace(string(p), "[INFO]", "", 1)))
	return len(p), nil
}

// A monitoredLink shows the frames that it carries, and the device's output outside of frames.
type monitoredLink struct {
	transport.Link
	show    func(string)
	text    bool                                                     // show bytes outside of frames unchanged
	explain func(rec *fault.Record, called string) fault.Explanation // nil: the image is unknown
	elapsed func() time.Duration
	in, out direction
}

// A direction of a link.
type direction struct {
	sign   string
	frames framing.Unframer
	marked bool   // the last byte, outside of frames, may begin one
	stray  []byte // bytes outside of frames since the last newline
}

func (w *monitoredLink) Read(ctx context.Context, p []byte) (int, error) {
	n, err := w.Link.Read(ctx, p)
	w.decode(&w.in, p[:n])
	return n, err
}

func (w *monitoredLink) Write(ctx context.Context, p []byte) error {
	w.decode(&w.out, p)
	return w.Link.Write(ctx, p)
}

// messageTypes are the third bytes of messages (wire.md §2.1).
var messageTypes = map[byte]string{0x00: "Init", 0x01: "Init reply", 0x02: "Terminate", 0x03: "log", 0x10: "message"}

const (
	frameMark  = 0xFF // begins every frame, and every escape in one
	resetMark  = 0xFE // precedes the first frame
	shownBytes = 24
	strayLine  = 120
	textLine   = 4096
)

// decode processes the bytes of one direction one at a time, so that their division into pieces does not matter.
func (w *monitoredLink) decode(d *direction, p []byte) {
	for i, b := range p {
		outside := d.frames.Idle()
		_, event := d.frames.Next(p[i : i+1])

		switch {
		case event != framing.NeedMore:
			d.marked = false
			w.showFrame(d, event)
		case outside && d.frames.Idle():
			w.addStray(d, b)
		}
	}
}

func (w *monitoredLink) showFrame(d *direction, event framing.Event) {
	body := d.frames.Payload()
	if event != framing.Frame || len(body) < 3 {
		w.line(d.sign, fmt.Sprintf("%v of %d bytes", event, len(body)))
		return
	}

	kind, ok := messageTypes[body[2]]
	if !ok {
		kind = fmt.Sprintf("type 0x%02x", body[2])
	}

	more := ""
	if len(body) > 3+shownBytes {
		more = " …"
	}

	w.line(d.sign, fmt.Sprintf("%-10s session %02x%02x, %5d bytes  % x%s", kind, body[0], body[1], len(body)-3,
		body[3:min(len(body), 3+shownBytes)], more))
}

// addStray adds a byte outside of frames, such as a boot loader's output, and shows complete lines. It skips 0xff and
// the byte after it, which belong to the framing, and the byte before a session's first frame.
func (w *monitoredLink) addStray(d *direction, b byte) {
	if d.marked || b == frameMark || b == resetMark && len(d.stray) == 0 && !w.text {
		d.marked = b == frameMark
		return
	}

	// A fault record is a single line, which must not be cut.
	limit := textLine
	if !w.text && !bytes.HasPrefix(d.stray, []byte(standalone.RecordMark)) {
		limit = strayLine
	}

	if b != '\n' {
		d.stray = append(d.stray, b)
	}

	switch {
	case b == '\n' && w.showFault(d.stray):
		d.stray = nil
	case b == '\n' && w.text:
		w.show(string(bytes.TrimSuffix(d.stray, []byte("\r"))))
		d.stray = nil
	case b == '\n' || len(d.stray) >= limit:
		w.finish(d)
	}
}

// showFault shows the fault whose record firmware sent in a line, because it started again with it. It returns false
// for any other line.
func (w *monitoredLink) showFault(line []byte) bool {
	rec := standalone.RecordIn(line)
	if rec == nil {
		return false
	}

	repeated := &fault.Error{Record: rec}
	if w.explain != nil {
		repeated.Explanation = w.explain(rec, "")
	}

	w.show("-- the firmware started again after a " + repeated.Error())
	return true
}

// finish shows an unfinished line, if there is one.
func (w *monitoredLink) finish(d *direction) {
	text := bytes.TrimSpace(d.stray)
	switch {
	case w.text && len(d.stray) > 0:
		w.show(string(d.stray))
	case !w.text && len(text) > 0:
		w.line(d.sign, fmt.Sprintf("outside of frames: %q", text))
	}
	d.stray = nil
}

func (w *monitoredLink) line(sign, text string) {
	w.show(fmt.Sprintf("%8.3f %s %s", w.elapsed().Seconds(), sign, text))
}
