// This file holds errors of sessions and calls.

package rpc

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/transport"
)

// A DeviceError is an Exception: the device did not carry out the request. The session continues.
type DeviceError struct {
	Message string // the device's text; may be empty
	Leaks   bool   // out of workspace memory, in a function that succeeded before with as much memory
}

func (e *DeviceError) Error() string {
	_, _, text := e.explain()
	return "device: " + text
}

// FailureClass returns the class of a rejected request: unless memory is short, the request is wrong.
func (e *DeviceError) FailureClass() failure.Class {
	class, _, _ := e.explain()
	return class
}

// NextStep returns advice if the cause is clear.
func (e *DeviceError) NextStep() string {
	_, next, _ := e.explain()
	return next
}

// explain interprets the messages of boardsmith firmware.
func (e *DeviceError) explain() (class failure.Class, next, text string) {
	const rightArguments = "pass the arguments that the function takes"
	text = e.Message

	digits, isCode := strings.CutPrefix(e.Message, "error 0x") // of a function that set no text
	code, err := strconv.ParseUint(digits, 16, 32)
	if isCode = isCode && err == nil; isCode {
		text = fmt.Sprintf("the function returned the error %d (%#x), without a text", int32(code), code)
	}

	switch {
	// First, since the message is then outOfWorkspace.
	case e.Leaks:
		return failure.Fault, "look for TVMBackendAllocWorkspace without TVMBackendFreeWorkspace in the operators' C; " +
				"a larger arena only delays this",
			text + ", though an earlier call succeeded with as much: a function does not free all that it allocates"
	case e.Message == outOfMemory, e.Message == outOfWorkspace:
		return failure.DoesNotFit, "give the board more memory with " + nextstep.Option("Spec.Options", "arena_kib=…"), text
	case e.Message == damagedRequest:
		return failure.Transport, checkLink, text
	case e.Message == executorExists:
		return failure.Config, "close the other executor of this session first",
			e.Message + ": it already has an executor of an ahead-of-time model, and can have one at a time"
	case isCode && code == invalidArgument:
		return failure.Config, rightArguments, fmt.Sprintf("an argument is out of its range (error %#x): memory has less "+
			"than 2 GiB, an alignment is a power of two, and a time evaluator calls 1 to 2^27 - 1 times", code)
	case otherArguments.MatchString(e.Message):
		return failure.Config, rightArguments, text
	case isCode:
		return failure.Fault, "an operator ends with this number: look into its C, and into the library that it calls", text
	case text == "":
		text = "error without a message"
	}
	return failure.Fault, "", text
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

// ErrNotFound is wrapped by the error, of class config, of a function that the device does not have.
var ErrNotFound = failure.New(failure.Config, "check that the firmware on the device was built from this model",
	"no function")

// ErrDamagedCopy is wrapped by the error, of class transport, of a copy to the device that was damaged in transfer and
// may have changed any memory there. A tensor's content is unknown until it is written again; so is the state of
// functions that take no tensors.
var ErrDamagedCopy = failure.New(failure.Transport, "open the device again; if it happens often, "+checkLink,
	"damaged copy")

// ErrBroken is wrapped by the error of a request on a session that an earlier error ended, because its replies could no
// longer be assigned to requests. The class is that of the earlier error.
var ErrBroken = errors.New("the session ended before")

// ErrStale is wrapped by the error, of class fault, of the use of an object that the device lost in a reset.
var ErrStale = failure.New(failure.Fault, "look it up, or allocate it, again", "was lost when the device was reset")

// errTooLong is wrapped by the error of a request that is too long for the device. It was not carried out.
var errTooLong = failure.New(failure.DoesNotFit,
	"raise the limit with "+nextstep.Option("Spec.Options", "packet_bytes=…")+", then build and flash again",
	"is longer than TVM_CRT_MAX_PACKET_SIZE_BYTES allows")

var checkLink = failure.Next(transport.ErrDamaged)

// exception converts the text of an Exception to an error.
func exception(text string) error {
	switch {
	case strings.HasPrefix(text, damagedCopy):
		return fmt.Errorf("%w: the device reported a wrong checksum", ErrDamagedCopy)
	case text == tooLong:
		return errTooLong
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

func errNoSession(kind string) error {
	return failure.Errorf(failure.Internal, "%s of no session", kind)
}

var errOtherSession = failure.Errorf(failure.Internal, "belongs to another session")
