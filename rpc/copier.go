// This file copies memory in messages of a length that the device accepts, and verifies copies over a lossy link.

package rpc

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/transport"
)

// A copier copies between the host and the device's memory. It is the layer of a Session above caller.
type copier struct {
	caller
	limits     limits // until a reset
	damages    int    // damaged copies so far
	unresolved bool   // a damaged copy that was not acknowledged
}

// limits caches the lengths of messages that the device accepts.
type limits struct {
	probed  bool
	streams bool   // boardsmith's firmware: one message holds a copy of any length
	crc32   uint64 // handle of boardsmith's CRC-32 function, if streams

	fetched bool // packet is valid
	packet  int  // longest message, bytes, except streamed copies; 0 if unknown
}

// The lengths of copies, in bytes.
const (
	wholeBlock = 1 << 20  // one message of a copy
	lossyBlock = 32 << 10 // on a lossy link: damage costs little
	sureBlock  = 3 << 10  // up to this size, heads included, the frame's CRC-16 detects any three flipped bits
)

// copyHead is the size of a copy's message without data and shape: session header, packet, tensor, size.
const copyHead = 3 + 8 + 44

const (
	crcFunction    = "boardsmith.crc32"
	packetFunction = "tvm.rpc.server.GetCRTMaxPacketSize"
)

// probe determines, once, whether the device supports streaming.
func (c *copier) probe(ctx context.Context) error {
	l := &c.limits
	if l.probed {
		return nil
	}

	defer c.saveRequest()()
	crc, err := c.lookup(ctx, crcFunction)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}

	// Firmware with this function is boardsmith's, which receives a copy of any length.
	l.probed, l.streams, l.crc32 = true, err == nil, crc
	return nil
}

// packetSize returns the device's longest message, which it fetches once (rpc.md §7). Without an argument boardsmith's
// firmware returns at most 2048, the limit of TVM's host; with an argument, which TVM's firmware ignores, it returns
// its real limit.
func (c *copier) packetSize(ctx context.Context) (int, error) {
	l := &c.limits
	if l.fetched {
		return l.packet, nil
	}

	// The request that checkLength examines is kept.
	defer c.saveRequest()()
	handle, err := c.lookup(ctx, packetFunction)
	if errors.Is(err, ErrNotFound) {
		l.fetched = true
		return 0, nil
	}
	if err != nil {
		return 0, err
	}

	result, err := c.callScalar(ctx, handle, tvmrpc.Int(1))
	if err != nil {
		return 0, fmt.Errorf("calling %s: %w", packetFunction, err)
	}
	n, ok := result.(int64)
	if !ok || n <= 0 || n > 1<<31 {
		return 0, c.breakUp(tvmrpc.Errorf("%s returned %v", packetFunction, result))
	}

	const notCounted = 11 // the packet's length and the session's header
	l.fetched, l.packet = true, int(n)+notCounted
	return l.packet, nil
}

// checkLength returns an error for a call that is too long for the device. It fetches the device's limit only if the
// call exceeds the smallest one.
func (c *copier) checkLength(ctx context.Context, name string) error {
	const smallest = 512        // the smallest buffer in use
	const heads = 3 + 8 + 4 + 8 // session, length, code, function
	n := heads + tvmrpc.ArgsSize(c.request.Args) + len(c.request.Version)
	if n <= smallest {
		return nil
	}

	limit, err := c.packetSize(ctx)
	if err != nil {
		return err
	}
	if limit > 0 && n > limit {
		return fmt.Errorf("call of %s %w: %d bytes instead of %d", name, errTooLong, n, limit)
	}
	return nil
}

// checkResolved returns an error for a call of a function between a damaged copy and its acknowledgement.
func (c *copier) checkResolved(name string) error {
	if c.unresolved {
		return fmt.Errorf("%w: an earlier copy may have changed the data of %s", ErrDamagedCopy, name)
	}
	return nil
}

// blockSize returns the number of bytes in one message of a copy of a tensor of this rank.
func (c *copier) blockSize(ctx context.Context, rank int) (int, error) {
	if err := c.probe(ctx); err != nil {
		return 0, err
	}

	n := wholeBlock
	if c.transport.Lossy() {
		n = lossyBlock
	}

	// A bounded link drops bytes that do not fit the device's buffer: nothing is streamed over it.
	if b, ok := c.transport.(interface{ Bounded() bool }); c.limits.streams && !(ok && b.Bounded()) {
		return n, nil
	}

	limit, err := c.packetSize(ctx)
	if err != nil {
		return 0, err
	}
	if limit > 0 {
		head := copyHead + 8*rank
		if limit <= head {
			return 0, fmt.Errorf("copy of a tensor of rank %d %w: %d bytes instead of %d", rank, errTooLong, head+1, limit)
		}
		n = min(n, limit-head)
	}
	return n, nil
}

// noteDamage records a copy that may have changed any memory.
func (c *copier) noteDamage(err error) {
	c.damages++
	c.unresolved = true
	c.log.Warn("damaged copy: contents of tensors on the device are unknown until written again", "error", err)
}

// write copies data to the tensor ref. A damaged copy may have changed any memory, including earlier blocks: write then
// compares the whole tensor at the end, and repeats the copy if it differs.
func (c *copier) write(ctx context.Context, ref tvmrpc.DLTensor, data []byte) error {
	n, err := c.blockSize(ctx, len(ref.Shape))
	if err != nil {
		return err
	}

	for range attempts {
		before := c.damages
		for offset := 0; offset < len(data); offset += n {
			if err := c.writeBlock(ctx, ref, offset, data[offset:min(offset+n, len(data))]); err != nil {
				return err
			}
		}

		if c.damages == before {
			return nil
		}
		if same, err := c.holds(ctx, ref, 0, data); same || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: damaged in each of %d attempts", ErrDamagedCopy, attempts)
}

// writeBlock copies one block to an offset in bytes, and repeats that after damage.
func (c *copier) writeBlock(ctx context.Context, ref tvmrpc.DLTensor, offset int, block []byte) error {
	var err error
	for range attempts {
		err = c.copyToRemote(ctx, ref, offset, block)
		switch {
		case errors.Is(err, ErrDamagedCopy):
			c.noteDamage(err)
		case c.retryable(err): // whether or not the copy was done, repeating it is harmless
		case err != nil:
			return err
		case !c.needsCRC32(block):
			return nil
		default:
			same, crcErr := c.holds(ctx, ref, offset, block)
			if same || crcErr != nil {
				return crcErr
			}
			err = fmt.Errorf("%w: %d bytes arrived with a wrong CRC-32", ErrDamagedCopy, len(block))
			c.noteDamage(err)
		}
	}
	return err
}

// needsCRC32 reports whether the frame's CRC-16 may miss damage to a block, and the device has a CRC-32.
func (c *copier) needsCRC32(block []byte) bool {
	return c.transport.Lossy() && len(block) > sureBlock && c.limits.streams
}

func (c *copier) copyToRemote(ctx context.Context, ref tvmrpc.DLTensor, offset int, block []byte) error {
	p := c.begin(tvmrpc.CodeCopyToRemote)
	p.Tensor = ref
	p.Tensor.ByteOffset += uint64(offset)
	p.Data = block
	return c.exchangeVoid(ctx)
}

// read appends size bytes of the tensor ref to data, and uses its capacity.
func (c *copier) read(ctx context.Context, ref tvmrpc.DLTensor, size int, data []byte) ([]byte, error) {
	n, err := c.blockSize(ctx, len(ref.Shape))
	if err != nil {
		return nil, err
	}

	for offset := 0; offset < size; offset += n {
		if data, err = c.readBlock(ctx, ref, offset, min(n, size-offset), data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// readBlock appends one block, and repeats the request after damage.
func (c *copier) readBlock(ctx context.Context, ref tvmrpc.DLTensor, offset, n int, data []byte) ([]byte, error) {
	var err error
	for range attempts {
		var block []byte
		block, err = c.copyFromRemote(ctx, ref, offset, n)
		switch {
		case c.retryable(err):
			continue
		case err != nil:
			return nil, err
		}

		// The copy comes first: block is valid until the next exchange, which is that of holds.
		extended := append(data, block...)
		if !c.needsCRC32(block) {
			return extended, nil
		}
		same, crcErr := c.holds(ctx, ref, offset, extended[len(data):])
		if same || crcErr != nil {
			return extended, crcErr
		}
		err = fmt.Errorf("%w: %d bytes with a wrong CRC-32", transport.ErrDamaged, n)
	}
	return nil, err
}

func (c *copier) copyFromRemote(ctx context.Context, ref tvmrpc.DLTensor, offset, n int) ([]byte, error) {
	p := c.begin(tvmrpc.CodeCopyFromRemote)
	p.Tensor = ref
	p.Tensor.ByteOffset += uint64(offset)
	p.Size = uint64(n)

	if err := c.exchange(ctx); err != nil {
		return nil, err
	}
	if len(c.reply.Data) != n {
		return nil, c.breakUp(tvmrpc.Errorf("%d bytes in answer to a copy of %d", len(c.reply.Data), n))
	}
	return c.reply.Data, nil
}

// holds reports whether the tensor ref holds data at an offset in bytes, by the device's CRC-32; true if the device
// lacks that function.
func (c *copier) holds(ctx context.Context, ref tvmrpc.DLTensor, offset int, data []byte) (bool, error) {
	if !c.limits.streams {
		return true, nil
	}

	// As bytes, since a block may end inside an element.
	part := tvmrpc.DLTensor{
		Data: ref.Data, Device: ref.Device, DType: ndarray.DType{Code: ndarray.UInt, Bits: 8, Lanes: 1},
		Shape: []int64{int64(len(data))}, ByteOffset: ref.ByteOffset + uint64(offset),
	}

	var err error
	for range attempts {
		var result any
		result, err = c.callScalar(ctx, c.limits.crc32, tvmrpc.TensorOf(&part))
		switch {
		case c.retryable(err):
			continue
		case err != nil:
			return false, fmt.Errorf("calling %s: %w", crcFunction, err)
		}

		sum, ok := result.(int64)
		if !ok {
			return false, c.breakUp(tvmrpc.Errorf("%s returned %T", crcFunction, result))
		}
		return uint32(sum) == crc32.ChecksumIEEE(data), nil
	}
	return false, err
}
