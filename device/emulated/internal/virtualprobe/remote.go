// This file implements the front end for pyOCD: its remote probe protocol, version 1. A request is one line of JSON,
// and so is its answer.

package virtualprobe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Statuses of an answer.
const (
	remoteOK           = 0
	remoteError        = 1
	remoteDisconnected = 2
	remoteProbe        = 3
	remoteTimeout      = 11
	remoteFault        = 12
)

// maxRequest is the maximum length of a line.
const maxRequest = 4 << 20

type remoteRequest struct {
	ID        int               `json:"id"`
	Request   string            `json:"request"`
	Arguments []json.RawMessage `json:"arguments"`
}

type remoteAnswer struct {
	ID     int    `json:"id"`
	Status int    `json:"status"`
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

var (
	errFault = errors.New("transfer fault")               // the chip answered FAULT
	errWait  = errors.New("the chip kept answering WAIT") // to each repetition by the probe
	errBusy  = errors.New("the probe is busy: another program has it open")
)

// probeRepeats is the number of times that such a probe repeats a transfer that is answered with WAIT.
const probeRepeats = 100

// A remote is one client of the remote probe protocol.
type remote struct {
	chip     *Chip
	protocol any // name of the wire protocol once connected
	gone     bool
	busy     bool // another client has the probe
}

// serveRemote answers requests until the client disconnects.
func (c *Chip) serveRemote(rw io.ReadWriter) error {
	s := &remote{chip: c}
	// Without the probe, each request is answered with an error.
	free := c.claim(claimsRemote)
	s.busy = free == nil
	if !s.busy {
		defer free()
	}

	lines := bufio.NewScanner(rw)
	lines.Buffer(make([]byte, 64<<10), maxRequest)
	w := bufio.NewWriter(rw)
	out := json.NewEncoder(w)

	for lines.Scan() {
		answer, ended := s.answer(lines.Bytes())
		if err := out.Encode(answer); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if ended != nil { // reported for any request, as a driver reports that the device was unplugged
			s.gone = true
		}
	}
	return lines.Err()
}

// answer answers one request. An error means that the probe was unplugged.
func (s *remote) answer(line []byte) (a remoteAnswer, err error) {
	var q remoteRequest
	if err := json.Unmarshal(line, &q); err != nil {
		return remoteAnswer{Status: remoteError, Error: err.Error()}, nil
	}

	a.ID = q.ID
	handler := remoteHandlers[q.Request]
	if handler == nil {
		a.Status, a.Error = remoteError, "unknown request "+q.Request
		return a, nil
	}

	switch {
	case s.gone:
		err = errUnplugged
	case s.busy:
		err = errBusy
	default:
		s.chip.exclusively(func() { a.Result, err = handler(s, q.Arguments) })
	}

	switch {
	case errors.Is(err, errUnplugged):
		a.Status, a.Error = remoteDisconnected, err.Error()
		return a, err
	case errors.Is(err, errFault):
		a.Status, a.Error = remoteFault, err.Error()
	case errors.Is(err, errWait):
		a.Status, a.Error = remoteTimeout, err.Error()
	case errors.Is(err, errBusy):
		a.Status, a.Error = remoteProbe, err.Error()
	case err != nil:
		a.Status, a.Error = remoteError, err.Error()
	}
	return a, nil
}

// remoteHandlers has a function for each request. Requests that only move lines do nothing.
var remoteHandlers = map[string]func(*remote, []json.RawMessage) (any, error){
	"hello":        nothing,
	"open":         nothing,
	"close":        nothing,
	"lock":         nothing,
	"unlock":       nothing,
	"disconnect":   nothing,
	"set_clock":    nothing,
	"flush":        nothing,
	"swj_sequence": nothing,
	"swd_sequence": nothing,
	"connect":      (*remote).connect,
	"readprop":     (*remote).property,
	"reset":        (*remote).pulse,
	"assert_reset": (*remote).line,
	"is_reset_asserted": func(s *remote, _ []json.RawMessage) (any, error) {
		return s.chip.held, nil
	},
	"read_dp":                     (*remote).readDP,
	"write_dp":                    (*remote).writeDP,
	"read_ap":                     (*remote).readAP,
	"write_ap":                    (*remote).writeAP,
	"read_ap_multiple":            (*remote).readAPs,
	"write_ap_multiple":           (*remote).writeAPs,
	"get_memory_interface_for_ap": nothing,
}

func nothing(*remote, []json.RawMessage) (any, error) { return nil, nil }

func (s *remote) connect([]json.RawMessage) (any, error) {
	s.protocol = "SWD"
	return nil, nil
}

func (s *remote) property(args []json.RawMessage) (any, error) {
	var name string
	if err := decode(args, &name); err != nil {
		return nil, err
	}

	switch name {
	case "vendor_name":
		return "boardsmith", nil
	case "product_name":
		return "virtual probe", nil
	case "supported_wire_protocols":
		return []string{"DEFAULT", "SWD"}, nil
	case "wire_protocol":
		return s.protocol, nil
	case "capabilities":
		return []string{"SWJ_SEQUENCE"}, nil
	}
	return nil, fmt.Errorf("no property %q", name)
}

func (s *remote) pulse([]json.RawMessage) (any, error) {
	s.chip.resetLine(true)
	s.chip.resetLine(false)
	return nil, nil
}

func (s *remote) line(args []json.RawMessage) (any, error) {
	var low bool
	if err := decode(args, &low); err != nil {
		return nil, err
	}
	s.chip.resetLine(low)
	return nil, nil
}

func (s *remote) readDP(args []json.RawMessage) (any, error) {
	var reg uint32
	if err := decode(args, &reg); err != nil {
		return nil, err
	}
	v, a := s.chip.dap.readDP(reg & 0xC)
	return v, a.error()
}

func (s *remote) writeDP(args []json.RawMessage) (any, error) {
	var reg, v uint32
	if err := decode(args, &reg, &v); err != nil {
		return nil, err
	}
	return nil, s.chip.dap.writeDP(reg&0xC, v).error()
}

func (s *remote) readAP(args []json.RawMessage) (any, error) {
	var reg uint32
	if err := decode(args, &reg); err != nil {
		return nil, err
	}
	v, a := s.access(reg)
	return v, a.error()
}

// access reads a register of the access port. Like a probe, it repeats the read while the answer is WAIT.
func (s *remote) access(reg uint32) (v uint32, a ack) {
	if !s.ready() {
		return 0, ackWait
	}
	return s.chip.dap.readAP(reg & 0xC)
}

func (s *remote) change(reg, v uint32) ack {
	if !s.ready() {
		return ackWait
	}
	return s.chip.dap.writeAP(reg&0xC, v)
}

// ready repeats a transfer until the answer is not WAIT, and clears the resulting flags.
func (s *remote) ready() bool {
	for range probeRepeats {
		if !s.chip.dap.busy() {
			return true
		}
		s.chip.dap.overrun = false
	}
	return false
}

func (s *remote) writeAP(args []json.RawMessage) (any, error) {
	var reg, v uint32
	if err := decode(args, &reg, &v); err != nil {
		return nil, err
	}
	return nil, s.change(reg, v).error()
}

func (s *remote) readAPs(args []json.RawMessage) (any, error) {
	var reg, n uint32
	if err := decode(args, &reg, &n); err != nil {
		return nil, err
	}
	if n > maxRequest/16 {
		return nil, fmt.Errorf("%d reads at once", n)
	}

	values := make([]uint32, n)
	for i := range values {
		v, a := s.access(reg)
		if a != ackOK {
			return nil, a.error()
		}
		values[i] = v
	}
	return values, nil
}

func (s *remote) writeAPs(args []json.RawMessage) (any, error) {
	var reg uint32
	var values []uint32
	if err := decode(args, &reg, &values); err != nil {
		return nil, err
	}

	for _, v := range values {
		if a := s.change(reg, v); a != ackOK {
			return nil, a.error()
		}
	}
	return nil, nil
}

func (a ack) error() error {
	switch a {
	case ackFault:
		return errFault
	case ackWait:
		return errWait
	case ackGone:
		return errUnplugged
	}
	return nil
}

// decode reads the arguments. It ignores additional ones.
func decode(args []json.RawMessage, into ...any) error {
	if len(args) < len(into) {
		return fmt.Errorf("%d arguments where %d are needed", len(args), len(into))
	}

	for i, p := range into {
		if err := json.Unmarshal(args[i], p); err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
	}
	return nil
}
