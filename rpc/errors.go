// This file holds errors of sessions and calls.

package rpc

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/transport"
)

// A DeviceError is an Exception: the device did not carry out the request. The session continues.
type DeviceError struct {
	Message string // the device's text; may be empty
	Leaks   bool   // out of workspace memory, in a function that succeeded before with as much memory
}

func (e *DeviceError) Error() string {
	switch e.Message {
	case "":
		return "device: error without a message"
	case outOfWorkspace:
		if e.Leaks {
			return "device: " + e.Message + ", though an earlier call succeeded with as much: a function does not free all " +
				"that it allocates"
		}
	case executorExists:
		return "device: " + e.Message + ": it already has an executor of an ahead-of-time model, and can have one at a time"
	}
	code, ok := e.code()
	switch {
	case ok && code == invalidArgument:
		return fmt.Sprintf("device: an argument is out of its range (error %#x): memory has less than 2 GiB, "+
			"an alignment is a power of two, and a time evaluator calls 1 to 2^27 - 1 times", code)
	case ok:
		return fmt.Sprintf("device: the function returned the error %d (%#x), without a text", int32(code), code)
	}
	return "device: " + e.Message
}

// code returns the number that a function returned, if it set no text.
func (e *DeviceError) code() (code uint32, ok bool) {
	digits, ok := strings.CutPrefix(e.Message, "error 0x")
	n, err := strconv.ParseUint(digits, 16, 32)
	return uint32(n), ok && err == nil
}

// FailureClass returns the class of a rejected request: unless memory is short, the request is wrong.
func (e *DeviceError) FailureClass() failure.Class {
	switch e.Message {
	case outOfMemory, outOfWorkspace:
		if e.Leaks {
			return failure.Fault
		}
		return failure.DoesNotFit
	case damagedRequest:
		return failure.Transport
	case executorExists:
		return failure.Config
	}
	if otherArguments.MatchString(e.Message) {
		return failure.Config
	}
	return failure.Fault
}

// NextStep returns advice if the cause is clear.
func (e *DeviceError) NextStep() string {
	switch {
	case e.Leaks:
		return "look for TVMBackendAllocWorkspace without TVMBackendFreeWorkspace in the operators' C; a larger arena only " +
			"delays this"
	case e.FailureClass() == failure.DoesNotFit:
		return "give the board more memory with " + failure.Option("Spec.Options", "arena_kib=…")
	case otherArguments.MatchString(e.Message):
		return "pass the arguments that the function takes"
	case e.FailureClass() == failure.Config:
		return "close the other executor of this session first"
	case e.FailureClass() == failure.Transport:
		return (&transport.DamagedError{}).NextStep()
	}
	if _, ok := e.code(); ok {
		return "an operator ends with this number: look into its C, and into the library that it calls"
	}
	return ""
}

// The beginnings of boardsmith firmware's messages that the host interprets.
const (
	outOfMemory    = "out of memory"
	outOfWorkspace = "out of workspace memory" // an operator's
	damagedCopy    = "boardsmith: damaged copy"
	damagedRequest = "boardsmith: damaged request"
	executorExists = "error 0x700" // kTvmErrorExecutorModuleAlreadyCreated, crt/error_codes.h
	tooLong        = "message exceeds TVM_CRT_MAX_PACKET_SIZE_BYTES"
)

// invalidArgument is kTvmErrorFunctionCallInvalidArg.
const invalidArgument = 0x803

// otherArguments matches the refusal of a call whose arguments are not those of the function: that of a model's
// function (crt/src/runtime/signatures.c), and of one of the runtime: kTvmErrorFunctionCallNumArguments,
// kTvmErrorFunctionCallWrongArgType, or invalidArgument.
var otherArguments = regexp.MustCompile(`^takes [0-9]+ tensors, |^error 0x80[013]$`)

// A NotFoundError reports a function that the device does not have.
type NotFoundError struct {
	Name string
	In   string // "device" or "module"
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("no function %q in the %s", e.Name, e.In) }

// FailureClass returns failure.Config.
func (e *NotFoundError) FailureClass() failure.Class { return failure.Config }

// NextStep returns what to check.
func (e *NotFoundError) NextStep() string {
	return "check that the firmware on the device was built from this model"
}

// A limitError reports a request that is too long for the device. It was not carried out.
type limitError struct {
	Subject string // "call of f", "tensor of rank 7"
	Bytes   int    // bytes of its message; 0 if the device reported it as too long
	Limit   int    // longest message, bytes; 0 if unknown
}

func (e *limitError) Error() string {
	if e.Limit == 0 {
		return fmt.Sprintf("%s is longer than %s allows", e.Subject, packetMacro)
	}
	return fmt.Sprintf("%s takes a message of %d bytes, %s is %d", e.Subject, e.Bytes, packetMacro, e.Limit)
}

// FailureClass returns failure.DoesNotFit.
func (e *limitError) FailureClass() failure.Class { return failure.DoesNotFit }

// NextStep returns the option to change.
func (e *limitError) NextStep() string {
	return "raise the limit with " + failure.Option("Spec.Options", "packet_bytes=…") + ", then build and flash again"
}

const packetMacro = "TVM_CRT_MAX_PACKET_SIZE_BYTES"

// A DamagedCopyError reports a copy to the device that was damaged in transfer and may have changed any memory
// there. A tensor's content is unknown until it is written again; so is the state of functions that take no
// tensors.
type DamagedCopyError struct{ Detail string }

func (e *DamagedCopyError) Error() string { return "damaged copy: " + e.Detail }

// FailureClass returns failure.Transport.
func (e *DamagedCopyError) FailureClass() failure.Class { return failure.Transport }

// NextStep returns the next step for the user.
func (e *DamagedCopyError) NextStep() string {
	return "open the device again; if it happens often, " + (&transport.DamagedError{}).NextStep()
}

// A BrokenError reports a request on a session that an earlier error ended, because its replies could no longer be
// assigned to requests.
type BrokenError struct{ Cause error }

func (e *BrokenError) Error() string { return "the session ended before: " + e.Cause.Error() }
func (e *BrokenError) Unwrap() error { return e.Cause }

// FailureClass returns the class of the error that ended the session.
func (e *BrokenError) FailureClass() failure.Class { return failure.Of(e.Cause) }

// NextStep returns the next step for the user.
func (e *BrokenError) NextStep() string { return "open the device again" }

// exception converts the text of an Exception to an error.
func exception(text string) error {
	switch {
	case strings.HasPrefix(text, damagedCopy):
		return &DamagedCopyError{Detail: "the device reported a wrong checksum"}
	case text == tooLong:
		return &limitError{Subject: "this request"}
	}
	return &DeviceError{Message: text}
}

// resetError is the error of a device that was reset without a fault record: by its reset button or its supply, or
// because its firmware keeps none. All objects on it are lost. err is that of the link, recordErr of reading the
// record: unless it is nil, the session has not continued.
func resetError(err, recordErr error) error {
	const next = "check the device's supply, and its log above"
	if recordErr != nil {
		return failure.New(failure.Fault, next, "%w; its fault record could not be read: %w", err, recordErr)
	}
	return failure.New(failure.Fault, next, "%w; it has no fault record", err)
}

// A StaleError reports the use of an object that the device lost in a reset.
type StaleError struct{ Object string }

func (e *StaleError) Error() string { return e.Object + " was lost when the device was reset" }

// FailureClass returns the class of the reset's error.
func (e *StaleError) FailureClass() failure.Class { return failure.Fault }

// NextStep returns the next step for the user.
func (e *StaleError) NextStep() string { return "look it up, or allocate it, again" }

func errNoSession(kind string) error {
	return failure.Errorf(failure.Internal, "%s of no session", kind)
}

var errOtherSession = failure.Errorf(failure.Internal, "belongs to another session")
