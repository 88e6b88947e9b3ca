// This file controls the emulated core through QEMU's gdbstub: halt, resume, step, registers, breakpoints. It does not
// access memory: any packet pauses the machine, and writes bypass the flash controller.

package virtualprobe

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"time"
)

// A gdbStub is a connection to QEMU's gdbstub. The machine is halted when it is made.
type gdbStub struct {
	conn    net.Conn
	said    chan string // packets from the stub; closed when the connection has ended
	running bool
}

// dialGDB connects and reads the target description, without which the stub refuses access to single registers.
func dialGDB(conn net.Conn) (*gdbStub, error) {
	g := &gdbStub{conn: conn, said: make(chan string, 16)}
	go g.listen()

	for _, hello := range []string{"qSupported:xmlRegisters=arm", "qXfer:features:read:target.xml:0,ffb", "?"} {
		if _, err := g.ask(hello); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// listen reads packets and acknowledges them, until the connection ends.
func (g *gdbStub) listen() {
	defer close(g.said)
	r := bufio.NewReader(g.conn)
	for {
		if _, err := r.ReadString('$'); err != nil {
			return
		}

		body, err := r.ReadString('#')
		if err != nil {
			return
		}
		if _, err := r.Discard(2); err != nil { // the checksum, which is not needed on a socket
			return
		}

		if _, err := g.conn.Write([]byte("+")); err != nil {
			return
		}
		g.said <- body[:len(body)-1]
	}
}

func (g *gdbStub) send(packet string) error {
	sum := byte(0)
	for i := range len(packet) {
		sum += packet[i]
	}
	_, err := fmt.Fprintf(g.conn, "$%s#%02x", packet, sum)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return nil
}

// receive waits for one packet.
func (g *gdbStub) receive() (string, error) {
	timeout := time.NewTimer(answerTimeout)
	defer timeout.Stop()
	select {
	case body, ok := <-g.said:
		if !ok {
			return "", ErrGone
		}
		return body, nil
	case <-timeout.C:
		return "", fmt.Errorf("%w: gdbstub gave no answer in %v", ErrGone, answerTimeout)
	}
}

func (g *gdbStub) ask(packet string) (string, error) {
	if err := g.send(packet); err != nil {
		return "", err
	}

	answer, err := g.receive()
	if err == nil && strings.HasPrefix(answer, "E") {
		err = fmt.Errorf("gdbstub: %s answered %s", packet, answer)
	}
	return answer, err
}

// resume runs the core.
func (g *gdbStub) resume() error {
	if g.running {
		return nil
	}
	g.running = true
	return g.send("c")
}

// halt stops the core. It may already have stopped by itself.
func (g *gdbStub) halt() error {
	if !g.running {
		return nil
	}

	// The byte 3 interrupts the core, outside of packets.
	if _, err := g.conn.Write([]byte{3}); err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}

	// One answer follows, whether this or a breakpoint has stopped the core.
	_, err := g.receive()
	g.running = false
	return err
}

// stopped reports whether the core has stopped by itself at a breakpoint since resume.
func (g *gdbStub) stopped() (bool, error) {
	if !g.running {
		return true, nil
	}
	select {
	case _, ok := <-g.said:
		if !ok {
			return false, ErrGone
		}
		g.running = false
		return true, nil
	default:
		return false, nil
	}
}

func (g *gdbStub) step() error {
	_, err := g.ask("s")
	return err
}

// Registers are numbered as in the description: 0 to 15, and the program status.
const gdbXPSR = 0x19

func (g *gdbStub) readRegister(n int) (uint32, error) {
	s, err := g.ask(fmt.Sprintf("p%x", n))
	if err != nil {
		return 0, err
	}

	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 4 {
		return 0, fmt.Errorf("gdbstub: register %d is %q", n, s)
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (g *gdbStub) writeRegister(n int, v uint32) error {
	_, err := g.ask(fmt.Sprintf("P%x=%x", n, binary.LittleEndian.AppendUint32(nil, v)))
	return err
}

// setBreakpoint sets or clears a hardware breakpoint on a halfword.
func (g *gdbStub) setBreakpoint(addr uint32, on bool) error {
	verb := "z"
	if on {
		verb = "Z"
	}
	_, err := g.ask(fmt.Sprintf("%s1,%x,2", verb, addr))
	return err
}

// load writes memory that the guest itself cannot write: a flash that QEMU emulates as plain ROM.
func (g *gdbStub) load(addr uint32, data []byte) error {
	const most = 2000 // bytes of one packet: the stub accepts 4 KiB of text
	for len(data) > 0 {
		n := min(len(data), most)
		if _, err := g.ask(fmt.Sprintf("M%x,%x:%x", addr, n, data[:n])); err != nil {
			return err
		}
		addr, data = addr+uint32(n), data[n:]
	}
	return nil
}
