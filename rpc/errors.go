package rpc

import (
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// A DeviceError is an Exception: the device understood the request and could not do it. The session goes on.
type DeviceError struct {
	Message string // the device's own words; may be empty
}

func (e *DeviceError) Error() string {
	switch e.Message {
	case "":
		return "device: error without a message"
	case executorExists:
		return "device: " + e.Message + ": it has an executor of an ahead-of-time model, and can have one at a time"
	}
	return "device: " + e.Message
}

// FailureClass says that the device refused, which with right firmware is the fault of what was asked.
func (e *DeviceError) FailureClass() failure.Class {
	switch e.Message {
	case outOfMemory, outOfWorkspace:
		return failure.DoesNotFit
	case damagedRequest:
		return failure.Transport
	case executorExists:
		return failure.Config
	}
	return failure.Fault
}

// NextStep says what helps where the cause is plain.
func (e *DeviceError) NextStep() string {
	switch e.FailureClass() {
	case failure.DoesNotFit:
		return "give the board more memory with OPTIONS=arena_kib=…"
	case failure.Config:
		return "close the other executor of this session first"
	}
	return ""
}

// The beginnings of our firmware's own messages that mean something to the host.
const (
	outOfMemory    = "out of memory"
	outOfWorkspace = "out of workspace memory" // an operator's
	damagedCopy    = "boardsmith: damaged copy"
	damagedRequest = "boardsmith: damaged request"
	executorExists = "error 0x700" // kTvmErrorExecutorModuleAlreadyCreated, crt/error_codes.h
	tooLong        = "message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES"
)

// A NotFoundError is a function that the device does not have.
type NotFoundError struct {
	Name string
	In   string // "device" or "module"
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("no function %q in the %s", e.Name, e.In) }

// FailureClass says that the wrong thing was asked for.
func (e *NotFoundError) FailureClass() failure.Class { return failure.Config }

// NextStep says where the names come from.
func (e *NotFoundError) NextStep() string {
	return "check that the firmware on the device was built from this model"
}

// A ProtocolError is something received that no device that keeps to the protocol sends. The session is over.
type ProtocolError struct{ What string }

func protocolErrorf(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

func (e *ProtocolError) Error() string { return "protocol: " + e.What }

// FailureClass says that the link said something impossible.
func (e *ProtocolError) FailureClass() failure.Class { return failure.Transport }

// A LimitError is a request that is too long for the device. It was not carried out.
type LimitError struct {
	What  string // "call of f", "tensor of rank 7"
	Bytes int    // of its message; 0 if the device found it too long
	Limit int    // longest message, bytes; 0 if the device did not say
	Macro string // that sets the limit
}

func (e *LimitError) Error() string {
	if e.Limit == 0 {
		return fmt.Sprintf("%s is longer than %s allows", e.What, e.Macro)
	}
	return fmt.Sprintf("%s takes a message of %d bytes, %s is %d", e.What, e.Bytes, e.Macro, e.Limit)
}

// FailureClass says that a limit is too small.
func (e *LimitError) FailureClass() failure.Class { return failure.DoesNotFit }

// NextStep names the option.
func (e *LimitError) NextStep() string {
	return "raise the limit with OPTIONS=packet_bytes=…, then build and flash again"
}

const packetMacro = "TVM_CRT_MAX_PACKET_SIZE_BYTES"

// A DamagedCopyError is a copy to the device that was damaged on the way and may have changed any memory there. Until
// it is written again, a tensor's content is unknown, and so is what a function works on that takes no tensors.
type DamagedCopyError struct{ What string }

func (e *DamagedCopyError) Error() string { return "damaged copy: " + e.What }

// FailureClass says that the link is at fault.
func (e *DamagedCopyError) FailureClass() failure.Class { return failure.Transport }

// NextStep says how to go on.
func (e *DamagedCopyError) NextStep() string {
	return "open the device again; if it happens often, lower the link's speed or shorten its cable"
}

// A BrokenError is a request on a session that an earlier error ended: its replies could no longer be told apart.
type BrokenError struct{ Cause error }

func (e *BrokenError) Error() string { return "session is over since: " + e.Cause.Error() }
func (e *BrokenError) Unwrap() error { return e.Cause }

// FailureClass is that of what ended the session.
func (e *BrokenError) FailureClass() failure.Class { return failure.Of(e.Cause) }

// NextStep says how to go on.
func (e *BrokenError) NextStep() string { return "open the device again" }

// exception turns the text of an Exception into an error.
func exception(text string) error {
	switch {
	case strings.HasPrefix(text, damagedCopy):
		return &DamagedCopyError{What: "the device found the checksum wrong"}
	case text == tooLong:
		return &LimitError{What: "this request", Macro: packetMacro}
	}
	return &DeviceError{Message: text}
}
