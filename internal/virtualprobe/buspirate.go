// This file is the front end for OpenOCD's SWD: a Bus Pirate on a serial line, in its binary modes
// (dangerousprototypes.com, "Bitbang" and "Raw-wire (binary)").

package virtualprobe

import (
	"bufio"
	"io"
)

// Commands of the raw-wire mode.
const (
	rawExit     = 0x00
	rawVersion  = 0x01
	rawReadByte = 0x06
	rawReadBit  = 0x07
	rawPeek     = 0x08
	rawTick     = 0x09
	rawDataLow  = 0x0C
	rawDataHigh = 0x0D
	rawBulk     = 0x10 // 0001nnnn: n+1 bytes follow
	rawTicks    = 0x20 // 0010nnnn: n+1 ticks
	rawBits     = 0x30 // 0011nnnn: n+1 bits of the byte that follows
	bangRawWire = 0x05
	bangReset   = 0x0F
)

// A busPirate is one client's state.
type busPirate struct {
	swd  *swd
	raw  bool
	lsb  bool  // least significant bit first
	data uint8 // level of the data line, driven by the host
	last uint8 // the last bit that the device drove
}

// serveBusPirate serves one client until it disconnects.
func (c *Chip) serveBusPirate(rw io.ReadWriter) error {
	free := c.claim(claimsWire)
	if free == nil {
		return errBusy
	}
	defer free()
	p := &busPirate{swd: newSWD(c.dap), lsb: true, data: 1, last: 1}
	r, w := bufio.NewReaderSize(rw, 64<<10), bufio.NewWriter(rw)
	for {
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
		b, err := r.ReadByte()
		if err != nil {
			return err
		}
		if err := p.command(c, b, r, w); err != nil {
			return err
		}
		if p.swd.gone {
			return errUnplugged
		}
	}
}

func (p *busPirate) command(c *Chip, b byte, r *bufio.Reader, w *bufio.Writer) (err error) {
	if !p.raw {
		return p.bitbang(b, w)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case b == rawExit:
		p.raw = false
		_, err = w.WriteString("BBIO1")
	case b == rawVersion:
		_, err = w.WriteString("RAW1")
	case b == rawReadByte:
		err = w.WriteByte(p.receive(8))
	case b == rawReadBit:
		err = w.WriteByte(p.receive(1))
	case b == rawPeek:
		err = w.WriteByte(p.last)
	case b == rawTick:
		p.tick(1)
		err = w.WriteByte(1)
	case b == rawDataLow || b == rawDataHigh:
		p.data = b & 1
		err = w.WriteByte(1)
	case b&0xF0 == rawBulk:
		err = p.bulk(int(b&0xF)+1, r, w)
	case b&0xF0 == rawTicks:
		p.tick(int(b&0xF) + 1)
		err = w.WriteByte(1)
	case b&0xF0 == rawBits:
		err = p.bits(int(b&0xF)+1, r, w)
	case b&0xF0 == 0x80:
		p.lsb = b&2 != 0
		err = w.WriteByte(1)
	default: // power, pull-ups, speed, start and stop bits: nothing to do here
		err = w.WriteByte(1)
	}
	return err
}

func (p *busPirate) bitbang(b byte, w *bufio.Writer) (err error) {
	switch b {
	case 0:
		_, err = w.WriteString("BBIO1")
	case bangRawWire:
		p.raw = true
		_, err = w.WriteString("RAW1")
	default: // back to the terminal, pin directions
		err = w.WriteByte(1)
	}
	return err
}

// bulk sends n bytes and answers each.
func (p *busPirate) bulk(n int, r *bufio.Reader, w *bufio.Writer) error {
	if err := w.WriteByte(1); err != nil {
		return err
	}
	for range n {
		b, err := r.ReadByte()
		if err != nil {
			return err
		}
		p.transmit(b, 8)
		if err := w.WriteByte(1); err != nil {
			return err
		}
	}
	return nil
}

func (p *busPirate) bits(n int, r *bufio.Reader, w *bufio.Writer) error {
	b, err := r.ReadByte()
	if err != nil {
		return err
	}
	p.transmit(b, min(n, 8))
	_, err = w.Write([]byte{1, 1})
	return err
}

func (p *busPirate) transmit(b byte, n int) {
	for i := range n {
		bit := b >> (7 - i) & 1
		if p.lsb {
			bit = b >> i & 1
		}
		p.data = bit
		p.last = p.swd.edge(bit)
	}
}

// receive clocks n bits in while the host does not drive the line.
func (p *busPirate) receive(n int) (b byte) {
	for i := range n {
		p.last = p.swd.edge(1)
		if p.lsb {
			b |= p.last << i
		} else {
			b = b<<1 | p.last
		}
	}
	return b
}

func (p *busPirate) tick(n int) {
	for range n {
		p.last = p.swd.edge(p.data)
	}
}
