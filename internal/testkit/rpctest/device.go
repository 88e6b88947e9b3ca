// Package rpctest provides a simulated device for tests: it answers RPC packets as firmware does, with its own
// memory and functions given by the test.
//
// It does not simulate a microcontroller: it has no clock, and only the limits that the test sets.
package rpctest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/transport"
)

// A Func is a function of the device. It returns its result as on the wire: the type as an integer, then the value
// (see Nothing, IntResult and the like).
type Func func(d *Device, args []tvmrpc.Value) ([]tvmrpc.Value, error)

// A Device answers requests. Set its fields before the first request; maps may be nil.
type Device struct {
	Globals map[string]Func // in addition to those that every device has
	Module  map[string]Func // the system library
	// longest message, bytes, as GetCRTMaxPacketSize returns it; 0 means that there is no such function
	Packet  int
	Streams bool    // it has boardsmith.crc32
	Seed    byte    // its session's nonce; 0 means a random one
	Damage  string  // its answer to a damaged request; "" means none
	Unit    float64 // seconds; the time evaluator's samples are 1, 2, 3 … times Unit; 0 means a microsecond
	Record  []byte  // its next answer to boardsmith.fault, if Globals has rpctest.Fault

	// Counters of what it did so far.
	Requests []tvmrpc.Code
	Longest  int // message received, bytes, with the session's header
	Freed    []tvmrpc.TypeCode
	Resets   int

	memory    map[uint64][]byte // by address
	next      uint64
	functions []named
	resetting bool
	running   uint32
}

type named struct {
	name string
	f    Func
}

// Handles, as a CRT makes them.
const (
	moduleHandle = 0x8000
	firstGlobal  = 0x80028000
	firstModule  = 0x80008000
)

// Nothing is the result of a function that returns none.
func Nothing() []tvmrpc.Value {
	return []tvmrpc.Value{tvmrpc.Int(int64(tvmrpc.TypeNull)), tvmrpc.Null()}
}

// Result is a result of the type of its only value.
func Result(v tvmrpc.Value) []tvmrpc.Value { return []tvmrpc.Value{tvmrpc.Int(int64(v.Type)), v} }

// HandleResult is a module or a function.
func HandleResult(t tvmrpc.TypeCode, h uint64) []tvmrpc.Value {
	return []tvmrpc.Value{tvmrpc.Int(int64(t)), tvmrpc.Opaque(h)}
}

// ArrayResult is a tensor of the device that the host has to free.
func ArrayResult(t *tvmrpc.DLTensor, h uint64) []tvmrpc.Value {
	return []tvmrpc.Value{tvmrpc.Int(int64(tvmrpc.TypeNDArray)), tvmrpc.TensorOf(t), tvmrpc.Opaque(h)}
}

// Reset resets the device, as a fault does, instead of answering the current request: it discards everything but
// record, which Fault returns next, and begins a new session on the link.
func (d *Device) Reset(record []byte) {
	d.Record, d.resetting = record, true
}

// Running returns the handle of the called function as a record holds it.
func (d *Device) Running() uint32 { return d.running }

// Fault is boardsmith.fault, for Globals.
func Fault(d *Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
	record := d.Record
	if record == nil {
		return Nothing(), nil
	}
	if len(args) == 0 {
		d.Record = nil
	} else if uint32(args[0].Word) == binary.LittleEndian.Uint32(record[len(record)-4:]) {
		d.Record = nil
		return Nothing(), nil
	}
	return Result(tvmrpc.Raw(record)), nil
}

// FaultOnce is Fault of firmware that takes no argument.
func FaultOnce(d *Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
	if len(args) > 0 {
		return nil, errors.New("error 0x800")
	}
	return Fault(d, nil)
}

// Serve answers requests over link until the link ends or the host shuts the device down.
func (d *Device) Serve(ctx context.Context, link transport.Link) error {
	for {
		if err := d.serve(ctx, link); err != nil {
			return err
		}
		d.memory, d.functions, d.resetting = nil, nil, false
		d.Resets++
	}
}

// serve serves until a reset, or an error.
func (d *Device) serve(ctx context.Context, link transport.Link) error {
	s, err := transporttest.Boot(ctx, link, d.Seed)
	if err != nil {
		return err
	}
	s.OnSession = func() { d.memory = nil }
	for {
		msg, err := s.Recv(ctx)
		var reply []byte
		switch {
		case err == nil:
			reply = d.Answer(msg)
		case err != transporttest.ErrDamaged:
			return err
		case d.Damage != "":
			reply = tvmrpc.Exception(d.Damage).Append(nil)
		}
		if d.resetting {
			return nil
		}
		if reply == nil {
			continue
		}
		if err := s.Send(ctx, reply); err != nil {
			return err
		}
	}
}

// Answer returns the answer to one packet, or nil if it has none.
func (d *Device) Answer(msg []byte) []byte {
	d.Longest = max(d.Longest, len(msg)+3)
	var p tvmrpc.Packet
	if err := p.Parse(msg); err != nil {
		return tvmrpc.Exception(err.Error()).Append(nil)
	}
	if p.Code == tvmrpc.CodeNone || p.Code == tvmrpc.CodeShutdown {
		return nil
	}
	d.Requests = append(d.Requests, p.Code)
	reply, err := d.execute(&p)
	if err != nil {
		return tvmrpc.Exception(err.Error()).Append(nil)
	}
	return reply.Append(nil)
}

func (d *Device) execute(p *tvmrpc.Packet) (*tvmrpc.Packet, error) {
	if err := p.CheckArgs(); err != nil {
		return nil, err
	}
	void := []tvmrpc.Value{tvmrpc.Null()}
	switch p.Code {
	case tvmrpc.CodeInitServer, tvmrpc.CodeStreamSync, tvmrpc.CodeFreeStream, tvmrpc.CodeSetStream:
		return values(void, nil)
	case tvmrpc.CodeCallFunc:
		return values(d.call(p.Handle, p.Args))
	case tvmrpc.CodeCopyFromRemote:
		b, err := d.Memory(&p.Tensor, p.Size)
		return &tvmrpc.Packet{Code: tvmrpc.CodeCopyAck, Data: b}, err
	case tvmrpc.CodeCopyToRemote:
		b, err := d.Memory(&p.Tensor, p.Size)
		copy(b, p.Data)
		return values(void, err)
	case tvmrpc.CodeCopyAmongRemote:
		return values(void, d.copyAmong(p.Args[0].Tensor, p.Args[1].Tensor))
	case tvmrpc.CodeGetGlobalFunc:
		return values([]tvmrpc.Value{tvmrpc.Opaque(d.lookUp(firstGlobal, d.globals(), string(p.Args[0].Data)))}, nil)
	case tvmrpc.CodeFreeHandle:
		d.Freed = append(d.Freed, tvmrpc.TypeCode(p.Args[1].Word))
		if p.Args[1].Word == uint64(tvmrpc.TypeNDArray) {
			delete(d.memory, p.Args[0].Word)
		}
		return values(void, nil)
	case tvmrpc.CodeFreeData:
		return values(void, d.freeData(p.Args[1].Word))
	case tvmrpc.CodeAllocData:
		return d.allocate(int(p.Args[1].Word))
	case tvmrpc.CodeAllocDataWithScope:
		n, err := ndarray.Bytes(p.Args[0].Tensor.DType, p.Args[0].Tensor.Shape)
		if err != nil {
			return nil, err
		}
		return d.allocate(n)
	}
	return nil, fmt.Errorf("%v not supported", p.Code)
}

func values(v []tvmrpc.Value, err error) (*tvmrpc.Packet, error) {
	return &tvmrpc.Packet{Code: tvmrpc.CodeReturn, Args: v}, err
}

// Allocate takes memory and returns its address.
func (d *Device) Allocate(n int) uint64 {
	if d.memory == nil {
		d.memory, d.next = map[uint64][]byte{}, 0x20000000
	}
	at := d.next
	d.memory[at] = make([]byte, n)
	d.next += uint64(n+127) &^ 63
	return at
}

func (d *Device) allocate(n int) (*tvmrpc.Packet, error) {
	const arena = 64 << 20
	if n < 0 || n > arena {
		return nil, errors.New("out of memory")
	}
	return values([]tvmrpc.Value{tvmrpc.Opaque(d.Allocate(n))}, nil)
}

func (d *Device) freeData(at uint64) error {
	if _, ok := d.memory[at]; !ok {
		return fmt.Errorf("no memory at %#x", at)
	}
	delete(d.memory, at)
	d.Freed = append(d.Freed, tvmrpc.TypeHandle)
	return nil
}

// Live returns the number of allocations.
func (d *Device) Live() int { return len(d.memory) }

// Memory returns n bytes of a tensor's memory, from where it begins.
func (d *Device) Memory(t *tvmrpc.DLTensor, n uint64) ([]byte, error) {
	at := t.Data + t.ByteOffset
	for base, b := range d.memory {
		if at >= base && at-base <= uint64(len(b)) && n <= uint64(len(b))-(at-base) {
			return b[at-base:][:n], nil
		}
	}
	return nil, errors.New("tensor outside known memory")
}

// Content returns all of a tensor's memory.
func (d *Device) Content(t *tvmrpc.DLTensor) ([]byte, error) {
	n, err := ndarray.Bytes(t.DType, t.Shape)
	if err != nil {
		return nil, err
	}
	return d.Memory(t, uint64(n))
}

func (d *Device) copyAmong(from, to *tvmrpc.DLTensor) error {
	src, err := d.Content(from)
	if err != nil {
		return err
	}
	dst, err := d.Memory(to, uint64(len(src)))
	copy(dst, src)
	return err
}

// lookUp returns a handle for a function, or 0 if the device has no such function.
func (d *Device) lookUp(base uint64, in map[string]Func, name string) uint64 {
	f, ok := in[name]
	if !ok {
		return 0
	}
	d.functions = append(d.functions, named{name, f})
	return base + uint64(len(d.functions)-1)
}

func (d *Device) call(handle uint64, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
	for _, base := range []uint64{firstGlobal, firstModule} {
		if i := handle - base; i < uint64(len(d.functions)) {
			d.running = uint32(handle)
			return d.functions[i].f(d, args)
		}
	}
	return nil, fmt.Errorf("invalid function index: %04x", handle&0x7fff)
}

func (d *Device) globals() map[string]Func {
	all := map[string]Func{
		"runtime.SystemLib": func(*Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
			return HandleResult(tvmrpc.TypeModule, moduleHandle), nil
		},
		"tvm.rpc.server.ModuleGetFunction": moduleGetFunction,
		"runtime.RPCTimeEvaluator":         timeEvaluator,
	}
	if d.Packet > 0 {
		all["tvm.rpc.server.GetCRTMaxPacketSize"] = func(_ *Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
			n := d.Packet
			if len(args) == 0 {
				n = min(n, 2048) // what TVM's host can receive
			}
			return Result(tvmrpc.Int(int64(n - 11))), nil
		}
	}
	if d.Streams {
		all["boardsmith.crc32"] = func(d *Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
			b, err := d.Content(args[0].Tensor)
			return Result(tvmrpc.Int(int64(crc32.ChecksumIEEE(b)))), err
		}
	}
	for name, f := range d.Globals {
		all[name] = f
	}
	return all
}

func moduleGetFunction(d *Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
	if len(args) != 3 || args[0].Type != tvmrpc.TypeModule || args[1].Type != tvmrpc.TypeStr ||
		args[2].Type != tvmrpc.TypeInt {
		return Nothing(), nil
	}
	h := d.lookUp(firstModule, d.Module, string(args[1].Data))
	if h == 0 {
		return Nothing(), nil
	}
	return HandleResult(tvmrpc.TypeFunction, h), nil
}

// timeEvaluator returns a function whose samples are 1, 2, 3 … times the device's Unit. It calls the timed function
// once, then number × repeat times.
func timeEvaluator(d *Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
	types := []tvmrpc.TypeCode{9, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11}
	if len(args) != len(types) {
		return nil, errors.New("error 0x800")
	}
	for i, v := range args {
		if v.Type != types[i] {
			return nil, errors.New("error 0x801")
		}
	}
	f, ok := d.Module[string(args[1].Data)]
	if !ok {
		return nil, errors.New("error 0x100")
	}
	number, repeat := int(args[4].Word), int(args[5].Word)
	evaluate := func(d *Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
		for range 1 + number*repeat {
			if _, err := f(d, args); err != nil {
				return nil, err
			}
		}
		unit := d.Unit
		if unit == 0 {
			unit = 1e-6
		}
		var samples []byte
		for i := range repeat {
			samples = binary.LittleEndian.AppendUint64(samples, math.Float64bits(float64(i+1)*unit))
		}
		return Result(tvmrpc.Raw(samples)), nil
	}
	d.functions = append(d.functions, named{"evaluator", evaluate})
	return HandleResult(tvmrpc.TypeFunction, firstGlobal+uint64(len(d.functions)-1)), nil
}
