// This file recodes packets between a client's encoding and that of package rpc (rpc_tcp.md §2): TVM 0.21 changed the
// packed sequence and its type codes; all else in a packet is the same.

package serve

import (
	"encoding/binary"
	"fmt"

	"github.com/boardsmith/boardsmith/internal/tvmrpc"
)

// An era is an encoding of packed sequences.
type era uint8

const (
	unknownEra era = iota // no packet has distinguished the eras
	oldEra                // TVM 0.9 to 0.20: all type codes, then all values
	newEra                // TVM 0.21 to 0.27: each value behind its type code
)

// Type codes that package rpc has not.
const (
	oldObject = 8
	oldBool   = 15 // TVM 0.18 to 0.20

	newShortStr, newShortBytes = 11, 12 // objects of up to 7 bytes
	newStr, newBytes           = 65, 66 // objects
	newTensor                  = 70
)

// maxValues bounds a packed sequence. A client's longest one holds an operator's arguments.
const maxValues = 1 << 12

// toOld maps the type codes of values that TVM 0.21 and later send.
var toOld = map[uint32]tvmrpc.TypeCode{
	0: tvmrpc.TypeNull, 1: tvmrpc.TypeInt, 2: tvmrpc.TypeInt, 3: tvmrpc.TypeFloat, 4: tvmrpc.TypeHandle,
	5: tvmrpc.TypeDType,
	6: tvmrpc.TypeDevice, 7: tvmrpc.TypeTensor, 8: tvmrpc.TypeStr, 9: tvmrpc.TypeBytes, newShortStr: tvmrpc.TypeStr,
	newShortBytes: tvmrpc.TypeBytes, newStr: tvmrpc.TypeStr, newBytes: tvmrpc.TypeBytes, 68: tvmrpc.TypeFunction,
	73: tvmrpc.TypeModule,
}

// toNew maps the type codes of package tvmrpc to those of values that TVM 0.21 and later receive.
var toNew = map[tvmrpc.TypeCode]uint32{
	tvmrpc.TypeNull: 0, tvmrpc.TypeInt: 1, tvmrpc.TypeUint: 1, tvmrpc.TypeFloat: 3, tvmrpc.TypeHandle: 4,
	tvmrpc.TypeDType:  5,
	tvmrpc.TypeDevice: 6, tvmrpc.TypeTensor: 7, tvmrpc.TypeStr: 8, tvmrpc.TypeBytes: 9, tvmrpc.TypeFunction: 68,
	tvmrpc.TypeModule:  73,
	tvmrpc.TypeNDArray: newTensor,
}

// An item is a value of a packed sequence: its type and its encoded bytes, which are the same in both eras.
type item struct {
	kind tvmrpc.TypeCode
	data []byte
}

var le = binary.LittleEndian

// decode decodes a whole packet of a client, with the length in front. The result points into msg or into a copy.
func (e era) decode(msg []byte) (*tvmrpc.Packet, error) {
	p := &tvmrpc.Packet{}
	head, ok := sequenceStart(msg)
	// Without a sequence the encodings are the same; a wrong length is an error of Parse.
	if !ok || le.Uint64(msg) != uint64(len(msg)-8) {
		return p, p.Parse(msg)
	}

	items, err := e.items(msg[head:])
	if err != nil {
		return nil, fmt.Errorf("%v packet: %w", tvmrpc.Code(le.Uint32(msg[8:])), err)
	}
	return p, p.Parse(withSequence(msg[:head], items, oldEra))
}

// encode encodes a packet for a client.
func (e era) encode(p *tvmrpc.Packet) []byte {
	msg := p.Append(nil)
	head, ok := sequenceStart(msg)
	if !ok || e != newEra {
		return msg
	}

	items, err := oldEra.items(msg[head:])
	if err != nil {
		return tvmrpc.Exception(err.Error()).Append(nil) // not reached: Append encodes what items decodes
	}

	// A function's result begins with its type code as an integer, which differs, too.
	if p.Code == tvmrpc.CodeReturn && len(items) > 1 && items[0].kind == tvmrpc.TypeInt {
		items[0] = item{tvmrpc.TypeInt, le.AppendUint64(nil, uint64(resultType(items)))}
	}
	return withSequence(msg[:head], items, newEra)
}

// resultType returns the type code in front of a function's result. Its value has the shorter form of strings and
// bytes.
func resultType(items []item) uint32 {
	kind := tvmrpc.TypeCode(le.Uint64(items[0].data))
	code := toNew[kind]

	const inObject = 7 // bytes that an object of a short string holds
	short := len(items[1].data) <= 8+inObject

	switch {
	case kind == tvmrpc.TypeStr && short:
		code = newShortStr
	case kind == tvmrpc.TypeStr:
		code = newStr
	case kind == tvmrpc.TypeBytes && short:
		code = newShortBytes
	case kind == tvmrpc.TypeBytes:
		code = newBytes
	}
	return code
}

// detect returns the era of a packet, unknownEra if clients of both or of none can have sent it.
func detect(msg []byte) era {
	head, ok := sequenceStart(msg)
	if !ok {
		return unknownEra
	}

	_, oldErr := oldEra.items(msg[head:])
	_, newErr := newEra.items(msg[head:])

	switch {
	case oldErr == nil && newErr != nil:
		return oldEra
	case newErr == nil && oldErr != nil:
		return newEra
	case newErr != nil:
		return unknownEra
	}

	// a device and a handle have the same length in both: the types of a system call's arguments decide
	switch inOld, inNew := oldEra.isCall(msg), newEra.isCall(msg); {
	case inOld && !inNew:
		return oldEra
	case inNew && !inOld:
		return newEra
	}
	return unknownEra
}

// isCall reports whether a packet has the arguments that its system call requires.
func (e era) isCall(msg []byte) bool {
	p, err := e.decode(msg)
	return err == nil && p.CheckArgs() == nil
}

// sequenceStart returns the offset of the packed sequence in a packet; false if it has none or is cut short.
func sequenceStart(msg []byte) (int, bool) {
	const body = 12
	if len(msg) < body {
		return 0, false
	}

	start := body
	switch code := tvmrpc.Code(le.Uint32(msg[8:])); {
	case code == tvmrpc.CodeInitServer:
		if len(msg) < start+8 || le.Uint64(msg[start:]) > uint64(len(msg)-start-8) {
			return 0, false
		}
		start += 8 + int(le.Uint64(msg[start:]))
	case code == tvmrpc.CodeCallFunc:
		start += 8
	case code == tvmrpc.CodeReturn, code == tvmrpc.CodeException, code >= tvmrpc.CodeGetGlobalFunc:
	default:
		return 0, false
	}

	return start, start <= len(msg)
}

// withSequence returns a packet of this head and a sequence.
func withSequence(head []byte, items []item, e era) []byte {
	size := len(head) + 4
	for _, i := range items {
		size += 4 + len(i.data)
	}

	msg := append(make([]byte, 0, size), head...)
	msg = le.AppendUint32(msg, uint32(len(items)))
	for _, i := range items {
		if e == newEra {
			msg = append(le.AppendUint32(msg, toNew[i.kind]), i.data...)
		} else {
			msg = le.AppendUint32(msg, uint32(i.kind))
		}
	}

	// In the old era all values follow all type codes.
	for _, i := range items {
		if e != newEra {
			msg = append(msg, i.data...)
		}
	}

	le.PutUint64(msg, uint64(len(msg)-8))
	return msg
}

// items splits a packed sequence of a client, which must fill seq.
func (e era) items(seq []byte) ([]item, error) {
	r := cursor{rest: seq}
	n := r.half()
	if n > maxValues {
		return nil, fmt.Errorf("%d values, at most %d are possible", n, maxValues)
	}

	codes := cursor{}
	if e != newEra {
		codes.rest = r.take(4 * uint64(n))
	}

	items := make([]item, 0, n)
	for range n {
		if e != newEra {
			items = append(items, r.old(codes.half()))
		} else {
			items = append(items, r.new(r.half()))
		}
		if r.err != nil {
			return nil, r.err
		}
	}

	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.rest))
	}
	return items, r.err
}

// A cursor reads a packed sequence. After the first error it returns nothing.
type cursor struct {
	rest []byte
	err  error
}

func (r *cursor) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.rest)) {
		r.err = fmt.Errorf("cut short")
	}
	if r.err != nil {
		return nil
	}

	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

func (r *cursor) half() uint32 {
	if b := r.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (r *cursor) old(code uint32) item {
	kind := tvmrpc.TypeCode(int32(code))
	if kind == oldBool {
		kind = tvmrpc.TypeInt
	}

	if kind < 0 || kind == oldObject || kind >= tvmrpc.TypeNDArray {
		r.fail(code)
		return item{}
	}
	return item{kind, r.value(kind)}
}

func (r *cursor) new(code uint32) item {
	kind, ok := toOld[code]
	object := code

	switch code {
	case newShortStr:
		object = newStr
	case newShortBytes:
		object = newBytes
	}

	// An object has its type code once more; a short one, that of a long one.
	if object >= newStr && object <= newBytes && r.half() != object || !ok {
		r.fail(code)
		return item{}
	}
	return item{kind, r.value(kind)}
}

func (r *cursor) fail(code uint32) {
	if r.err == nil {
		r.err = fmt.Errorf("a board does not accept a value of type %d", int32(code))
	}
}

// value returns the bytes of a value.
func (r *cursor) value(kind tvmrpc.TypeCode) []byte {
	switch kind {
	case tvmrpc.TypeNull:
		return nil
	case tvmrpc.TypeStr, tvmrpc.TypeBytes:
		return r.sized(0, func(b []byte) uint64 { return le.Uint64(b) })
	case tvmrpc.TypeTensor: // data, device, rank, type, shape, offset (rpc.md §2.1)
		return r.sized(16, func(b []byte) uint64 { return 8*uint64(le.Uint32(b)) + 8 })
	}
	return r.take(8)
}

// sized returns a value whose head, of skip bytes and 8 more, determines how many bytes follow.
func (r *cursor) sized(skip int, following func([]byte) uint64) []byte {
	head := skip + 8
	if r.err == nil && head > len(r.rest) {
		r.err = fmt.Errorf("cut short")
	}
	if r.err != nil {
		return nil
	}

	n := following(r.rest[skip:head])
	if n > uint64(len(r.rest)) { // the sum below would overflow
		r.err = fmt.Errorf("cut short")
		return nil
	}

	return r.take(uint64(head) + n)
}
