// This file runs the emulator: one QEMU process, halted before its first instruction, with its control channels.

package virtualprobe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/transport"
)

// startTimeout bounds the emulator's start.
const startTimeout = 20 * time.Second

// A machine is one running emulator. It is not safe for concurrent use, except dead and serial; the chip's lock
// protects the rest.
type machine struct {
	program string
	args    []string
	log     hclog.Logger
	dead    atomic.Bool        // the emulator has ended
	gaveUp  atomic.Bool        // it ended itself, as QEMU does when its core would lock up
	process *transport.Process // QMP uses its standard input and output
	said    chan qmpLine       // relevant lines; closed when the emulator has ended
	resets  atomic.Int64       // resets by the chip itself
	folder  *scratch.Folder
	adapt   func(*machine) error // called after the start, before the core runs; nil: nothing to adapt
	*qtest
	gdb    *gdbStub
	serial atomic.Pointer[net.Conn] // the first UART
}

// startMachine runs program with args, which choose the machine.
func startMachine(ctx context.Context, program string, args []string, log hclog.Logger) (*machine, error) {
	folder, err := scratch.Make("virtualprobe")
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	m := &machine{folder: folder, program: program, args: args, log: log}
	if err := m.start(ctx); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// restart starts the emulator again after it has ended. All its memory is lost.
func (m *machine) restart(ctx context.Context) error {
	_ = m.end() // the reason of the end was logged
	return m.start(ctx)
}

func (m *machine) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	ends := make([]*net.UnixListener, 3) // the emulator connects to them
	for i, name := range []string{"qtest", "gdb", "serial"} {
		// gone when it is closed
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(m.folder.Dir, name), Net: "unix"})
		if err != nil {
			return fmt.Errorf("emulator: %w", err)
		}
		defer l.Close()
		ends[i] = l
	}

	socket := func(name string) string { return "socket,id=" + name + ",path=" + filepath.Join(m.folder.Dir, name) }
	all := append([]string{
		"-S", "-nodefaults", "-display", "none", "-accel", "tcg", "-qmp", "stdio",
		"-chardev", socket("qtest"), "-qtest", "chardev:qtest", "-qtest-log", "none",
		"-chardev", socket("gdb"), "-gdb", "chardev:gdb",
		"-chardev", socket("serial"), "-serial", "chardev:serial",
	}, m.args...)

	p, err := transport.StartProcess(ctx,
		transport.ProcessConfig{Path: m.program, Args: all, Env: []string{"PATH=" + os.Getenv("PATH")}, Log: m.log})
	if err != nil {
		return err
	}
	m.process, m.said = p, make(chan qmpLine, 16)

	var conns [3]net.Conn
	for i, l := range ends {
		if d, ok := ctx.Deadline(); ok {
			_ = l.SetDeadline(d) // Accept returns the error
		}
		conn, err := l.Accept()
		if err != nil {
			_, ended := p.Read(ctx, make([]byte, 1)) // its error is the reason
			return fmt.Errorf("emulator: %w: %w", err, ended)
		}
		conns[i] = limitedConn{conn, answerTimeout}
	}

	m.qtest = newQtest(conns[0])
	m.serial.Store(&conns[2])
	if m.gdb, err = dialGDB(conns[1]); err != nil {
		return err
	}

	m.dead.Store(false)
	go m.listen(p, m.said)
	if m.adapt != nil {
		if err := m.adapt(m); err != nil {
			return err
		}
	}

	// QMP accepts no command before this one.
	return m.qmp("qmp_capabilities", "")
}

// A limitedConn ends a write that its peer does not take in time: an emulator that hangs, or the UART of a halted core.
type limitedConn struct {
	net.Conn
	within time.Duration // for a write
}

func (c limitedConn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.within)) // the write returns the error
	return c.Conn.Write(p)
}

// A qmpLine is a line of the emulator on its control channel.
type qmpLine struct {
	Return *json.RawMessage
	Error  *struct{ Desc string }
	Event  string
	Data   struct {
		Guest bool // the chip reset itself
	}
}

// listen reads the control channel to its end. If firmware crashes at once, the emulator reports resets without end.
func (m *machine) listen(p *transport.Process, into chan<- qmpLine) {
	defer close(into)
	defer m.dead.Store(true)
	lines := bufio.NewReader(qmpReader{p})
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			var ended *transport.ProcessError
			m.gaveUp.Store(errors.As(err, &ended) && ended.GaveUp())
			return
		}

		var said qmpLine
		if json.Unmarshal(line, &said) != nil {
			continue
		}

		switch {
		case said.Event == resetEvent && said.Data.Guest:
			m.resets.Add(1)
		case said.Return != nil || said.Error != nil || said.Event == resetEvent:
			select {
			case into <- said:
			case <-time.After(answerTimeout): // no function waits for it
			}
		}
	}
}

type qmpReader struct{ p *transport.Process }

func (r qmpReader) Read(b []byte) (int, error) { return r.p.Read(context.Background(), b) }

const resetEvent = "RESET"

// qmp executes a command and, if event is not "", waits for that event too.
func (m *machine) qmp(command, event string) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	if err := m.process.Write(ctx, fmt.Appendf(nil, "{\"execute\":%q}\n", command)); err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}

	// Answer and event come in any order.
	for returned, occurred := false, event == ""; !returned || !occurred; {
		select {
		case message, ok := <-m.said:
			if !ok {
				return ErrGone
			}
			if message.Error != nil {
				return fmt.Errorf("emulator: %s: %s", command, message.Error.Desc)
			}
			returned = returned || message.Return != nil
			occurred = occurred || message.Event == event
		case <-ctx.Done():
			return fmt.Errorf("%w: no answer to %s in %v", ErrGone, command, answerTimeout)
		}
	}
	return nil
}

// reset resets the machine, which stays halted if it was.
func (m *machine) reset() error {
	if err := m.drain(); err != nil {
		return err
	}
	return m.qmp("system_reset", resetEvent)
}

// close ends the emulator and removes its folder.
func (m *machine) close() error { return errors.Join(m.end(), m.folder.Remove()) }

func (m *machine) end() error {
	if c := m.serial.Swap(nil); c != nil {
		_ = (*c).Close() // discards what was not read yet
	}
	if m.qtest != nil {
		_ = m.qtest.conn.Close()
	}
	if m.gdb != nil {
		_ = m.gdb.conn.Close()
	}

	if m.process == nil {
		return nil
	}
	return m.process.Close()
}
