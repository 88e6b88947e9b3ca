// Package tvmrpc encodes and decodes packets of TVM's RPC protocol (rpc.md §1 to §4), for hosts, which write requests
// and read replies, and for servers.
//
// It sends and receives nothing: package rpc has the sessions.
package tvmrpc

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
)

// Errorf returns an error, of class transport, about received data that violate the protocol. The session is over.
func Errorf(format string, args ...any) error {
	return failure.Errorf(failure.Transport, "protocol: "+format, args...)
}

// A Code is the type of a packet.
type Code int32

// The codes of rpc.md §1.1. From GetGlobalFunc on they are system calls, all of one form.
const (
	CodeNone               Code = 0 // an empty packet, which is ignored
	CodeShutdown           Code = 1
	CodeInitServer         Code = 2
	CodeCallFunc           Code = 3
	CodeReturn             Code = 4
	CodeException          Code = 5
	CodeCopyFromRemote     Code = 6
	CodeCopyToRemote       Code = 7
	CodeCopyAck            Code = 8
	CodeGetGlobalFunc      Code = 9
	CodeFreeHandle         Code = 10
	CodeSetDevice          Code = 11
	CodeGetAttr            Code = 12
	CodeAllocData          Code = 13
	CodeFreeData           Code = 14
	CodeStreamSync         Code = 15
	CodeCopyAmongRemote    Code = 16
	CodeAllocDataWithScope Code = 17
	CodeCreateStream       Code = 18
	CodeFreeStream         Code = 19
	CodeSetStream          Code = 20
)

var codeNames = [...]string{
	"None", "Shutdown", "InitServer", "CallFunc", "Return", "Exception", "CopyFromRemote", "CopyToRemote", "CopyAck",
	"GetGlobalFunc", "FreeHandle", "SetDevice", "GetAttr", "AllocData", "FreeData", "StreamSync", "CopyAmongRemote",
	"AllocDataWithScope", "CreateStream", "FreeStream", "SetStream",
}

func (c Code) String() string {
	if c >= 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %d", int32(c))
}

// A TypeCode is the type of a value in a packed sequence.
type TypeCode int32

// The type codes of rpc.md §2. TypeNDArray occurs in results only.
const (
	TypeInt      TypeCode = 0
	TypeUint     TypeCode = 1
	TypeFloat    TypeCode = 2
	TypeHandle   TypeCode = 3
	TypeNull     TypeCode = 4
	TypeDType    TypeCode = 5
	TypeDevice   TypeCode = 6
	TypeTensor   TypeCode = 7
	TypeModule   TypeCode = 9
	TypeFunction TypeCode = 10
	TypeStr      TypeCode = 11
	TypeBytes    TypeCode = 12
	TypeNDArray  TypeCode = 13
)

// A DLDevice is DLPack's device: kind and number of the device that holds an array.
type DLDevice struct{ Type, ID int32 }

// CPU is the only device of a microcontroller.
var CPU = DLDevice{Type: 1}

// A DLTensor describes memory of the peer: compact, row-major.
type DLTensor struct {
	Data       uint64
	Device     DLDevice
	DType      ndarray.DType
	Shape      []int64
	ByteOffset uint64
}

// A Value is one element of a packed sequence. Type selects the field that holds it.
type Value struct {
	Type   TypeCode
	Word   uint64    // the eight bytes of any other type
	Data   []byte    // of TypeStr and TypeBytes
	Tensor *DLTensor // of TypeTensor
}

// A Packet is a request or a reply. Code selects the fields that it has.
type Packet struct {
	Code    Code
	Handle  uint64   // CallFunc: the function
	Version []byte   // InitServer
	Args    []Value  // InitServer, CallFunc, Return, Exception and all system calls
	Tensor  DLTensor // CopyFromRemote, CopyToRemote
	Size    uint64   // CopyFromRemote: bytes wanted
	Data    []byte   // CopyToRemote, CopyAck
}

// layout lists the parts of a packet after its code, in this order.
type layout struct{ version, handle, args, tensor, size, data bool }

func (c Code) layout() (layout, bool) {
	switch c {
	case CodeShutdown:
		return layout{}, true
	case CodeInitServer:
		return layout{version: true, args: true}, true
	case CodeCallFunc:
		return layout{handle: true, args: true}, true
	case CodeReturn, CodeException:
		return layout{args: true}, true
	case CodeCopyFromRemote:
		return layout{tensor: true, size: true}, true
	case CodeCopyToRemote:
		return layout{tensor: true, size: true, data: true}, true
	case CodeCopyAck:
		return layout{data: true}, true
	}
	return layout{args: true}, c >= CodeGetGlobalFunc
}

var le = binary.LittleEndian

// Append appends the encoded packet to dst.
func (p *Packet) Append(dst []byte) []byte { return append(p.AppendHead(dst), p.Data...) }

// AppendHead appends the encoded packet without Data, its last part, so that a long copy can be sent without
// copying.
func (p *Packet) AppendHead(dst []byte) []byte {
	start := len(dst)
	dst = le.AppendUint64(dst, 0)
	// An empty packet has no code either.
	if p.Code != CodeNone {
		dst = le.AppendUint32(dst, uint32(p.Code))
		dst = p.appendBody(dst)
		le.PutUint64(dst[start:], uint64(len(dst)-start-8+len(p.Data)))
	}
	return dst
}

func (p *Packet) appendBody(dst []byte) []byte {
	l, _ := p.Code.layout()
	if l.version {
		dst = appendText(dst, p.Version)
	}
	if l.handle {
		dst = le.AppendUint64(dst, p.Handle)
	}
	if l.args {
		dst = appendArgs(dst, p.Args)
	}
	if l.tensor {
		dst = appendTensor(dst, &p.Tensor)
	}

	// The size of a copy to the device is that of its data.
	if l.data && l.size {
		dst = le.AppendUint64(dst, uint64(len(p.Data)))
	} else if l.size {
		dst = le.AppendUint64(dst, p.Size)
	}
	return dst
}

func appendArgs(dst []byte, args []Value) []byte {
	dst = le.AppendUint32(dst, uint32(len(args)))
	for i := range args {
		dst = le.AppendUint32(dst, uint32(args[i].Type))
	}

	for i := range args {
		switch v := &args[i]; v.Type {
		case TypeNull:
		case TypeTensor:
			dst = appendTensor(dst, v.Tensor)
		case TypeStr, TypeBytes:
			dst = appendText(dst, v.Data)
		default:
			dst = le.AppendUint64(dst, v.Word)
		}
	}
	return dst
}

// ArgsSize returns the length of arguments in a packet, in bytes.
func ArgsSize(args []Value) int {
	n := 4
	for i := range args {
		n += 4
		switch v := &args[i]; v.Type {
		case TypeNull:
		case TypeTensor:
			n += 32 + 8*len(v.Tensor.Shape)
		case TypeStr, TypeBytes:
			n += 8 + len(v.Data)
		default:
			n += 8
		}
	}
	return n
}

func appendText(dst, text []byte) []byte {
	return append(le.AppendUint64(dst, uint64(len(text))), text...)
}

func appendTensor(dst []byte, t *DLTensor) []byte {
	dst = le.AppendUint64(dst, t.Data)
	dst = le.AppendUint64(dst, t.Device.word())
	dst = le.AppendUint32(dst, uint32(len(t.Shape)))
	dst = le.AppendUint32(dst, uint32(dtypeWord(t.DType)))
	for _, n := range t.Shape {
		dst = le.AppendUint64(dst, uint64(n))
	}
	return le.AppendUint64(dst, t.ByteOffset)
}

func (d DLDevice) word() uint64 { return uint64(uint32(d.Type)) | uint64(uint32(d.ID))<<32 }

// WordDevice returns the device of a Value's Word.
func WordDevice(w uint64) DLDevice { return DLDevice{int32(w), int32(w >> 32)} }

func dtypeWord(d ndarray.DType) uint64 {
	return uint64(d.Code) | uint64(d.Bits)<<8 | uint64(d.Lanes)<<16
}

// WordDType returns the data type of a Value's Word.
func WordDType(w uint64) ndarray.DType {
	return ndarray.DType{Code: uint8(w), Bits: uint8(w >> 8), Lanes: uint16(w >> 16)}
}

// Parse decodes one whole packet into p and reuses p's memory. Texts and data in p point into msg. Append encodes
// the result to the same bytes. Every error is one of Errorf.
func (p *Packet) Parse(msg []byte) error {
	*p = Packet{Args: p.Args[:0]}
	r := reader{rest: msg}

	if n := r.word(); r.err == "" && n != uint64(len(r.rest)) {
		return Errorf("packet of length %d is followed by %d bytes", n, len(r.rest))
	}

	// An empty packet: CodeNone.
	if r.err == "" && len(r.rest) == 0 {
		return nil
	}

	p.Code = Code(r.half())
	l, ok := p.Code.layout()
	if r.err == "" && !ok {
		return Errorf("packet of unknown %v", p.Code)
	}

	p.parseBody(&r, l)
	if r.err == "" && len(r.rest) > 0 {
		r.err = fmt.Sprintf("%d bytes too many", len(r.rest))
	}
	if r.err != "" {
		return Errorf("%v packet: %s", p.Code, r.err)
	}
	return nil
}

func (p *Packet) parseBody(r *reader, l layout) {
	if l.version {
		p.Version = r.text()
	}
	if l.handle {
		p.Handle = r.word()
	}
	if l.args {
		p.Args = r.args(p.Args)
	}
	if l.tensor {
		r.tensor(&p.Tensor)
	}
	if l.size {
		p.Size = r.word()
	}

	if !l.data || r.err != "" {
		return
	}
	if l.size && p.Size != uint64(len(r.rest)) {
		r.err = fmt.Sprintf("size is %d bytes, data are %d", p.Size, len(r.rest))
		return
	}

	p.Data = r.take(uint64(len(r.rest)))
}

// A reader decodes a packet. After the first error it returns zeros.
type reader struct {
	rest []byte
	err  string
}

func (r *reader) take(n uint64) []byte {
	if r.err == "" && n > uint64(len(r.rest)) {
		r.err = "cut short"
	}
	if r.err != "" {
		return nil
	}

	// Without spare capacity: an append must not write to the message.
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) word() uint64 {
	if b := r.take(8); b != nil {
		return le.Uint64(b)
	}
	return 0
}

func (r *reader) half() uint32 {
	if b := r.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (r *reader) text() []byte { return r.take(r.word()) }

// maxValues limits a packed sequence, because a Value takes many times the memory of its type code.
const maxValues = 1 << 16

// args reads a packed sequence. Memory is allocated only for type codes that are present.
func (r *reader) args(into []Value) []Value {
	n := uint64(r.half())
	codes := r.take(4 * n)
	if n > maxValues && r.err == "" {
		r.err = fmt.Sprintf("%d values, at most %d are possible", n, maxValues)
	}

	for ; len(codes) > 0 && r.err == ""; codes = codes[4:] {
		into = append(into, r.value(TypeCode(le.Uint32(codes))))
	}
	return into
}

func (r *reader) value(t TypeCode) Value {
	v := Value{Type: t}

	switch t {
	case TypeNull:
	case TypeTensor:
		v.Tensor = new(DLTensor)
		r.tensor(v.Tensor)
	case TypeStr, TypeBytes:
		v.Data = r.text()
	case TypeInt, TypeUint, TypeFloat, TypeHandle, TypeDType, TypeDevice, TypeModule, TypeFunction:
		v.Word = r.word()
	default:
		r.err = fmt.Sprintf("value of unknown type %d", t)
	}
	return v
}

func (r *reader) tensor(t *DLTensor) {
	t.Data = r.word()
	t.Device = WordDevice(r.word())
	rank := uint64(r.half())
	t.DType = WordDType(uint64(r.half()))

	// The rank is the peer's: memory is allocated only if the whole shape is there.
	if shape := r.take(8 * rank); r.err == "" {
		t.Shape = make([]int64, rank)
		for i := range t.Shape {
			t.Shape[i] = int64(le.Uint64(shape[8*i:]))
		}
	}

	t.ByteOffset = r.word()
}

// Constructors of values, one per type.

// Int is an integer, also a boolean.
func Int(n int64) Value { return Value{Type: TypeInt, Word: uint64(n)} }

// Float is a floating point number.
func Float(f float64) Value { return Value{Type: TypeFloat, Word: math.Float64bits(f)} }

// Null is the absent value.
func Null() Value { return Value{Type: TypeNull} }

// Opaque is a handle with a kind.
func Opaque(h uint64) Value { return Value{Type: TypeHandle, Word: h} }

// Text is a string.
func Text(s string) Value { return Value{Type: TypeStr, Data: []byte(s)} }

// Raw is a byte array.
func Raw(b []byte) Value { return Value{Type: TypeBytes, Data: b} }

// DType is a data type.
func DType(d ndarray.DType) Value { return Value{Type: TypeDType, Word: dtypeWord(d)} }

// OnDevice is a device.
func OnDevice(d DLDevice) Value { return Value{Type: TypeDevice, Word: d.word()} }

// TensorOf is a tensor.
func TensorOf(t *DLTensor) Value { return Value{Type: TypeTensor, Tensor: t} }

// signatures lists the type codes of the system calls' arguments (rpc.md §4.5), from GetGlobalFunc on.
var signatures = [...][]TypeCode{
	{TypeStr},
	{TypeHandle, TypeInt},
	{TypeDevice},
	{TypeDevice, TypeInt},
	{TypeDevice, TypeInt, TypeInt, TypeDType},
	{TypeDevice, TypeHandle},
	{TypeDevice, TypeHandle},
	{TypeTensor, TypeTensor, TypeHandle},
	{TypeTensor, TypeNull}, // or a string, the memory scope
	{TypeDevice},
	{TypeDevice, TypeHandle},
	{TypeDevice, TypeHandle},
}

// CheckArgs returns an error unless a system call has the required arguments. Other packets may have any.
func (p *Packet) CheckArgs() error {
	if p.Code < CodeGetGlobalFunc {
		return nil
	}

	k := int(p.Code - CodeGetGlobalFunc)
	if k >= len(signatures) {
		return Errorf("unknown system call %d", p.Code)
	}
	want := signatures[k]
	if len(p.Args) != len(want) {
		return Errorf("%v: %d arguments instead of %d", p.Code, len(p.Args), len(want))
	}

	for i, v := range p.Args {
		scope := p.Code == CodeAllocDataWithScope && v.Type == TypeStr && i == 1
		if v.Type != want[i] && !scope {
			return Errorf("%v: argument %d has type %d instead of %d", p.Code, i, v.Type, want[i])
		}
	}
	return nil
}

// Exception returns the reply to a request that cannot be carried out.
func Exception(text string) *Packet { return &Packet{Code: CodeException, Args: []Value{Text(text)}} }
