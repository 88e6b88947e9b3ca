// This file causes each kind of fault.

package accept

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// A faultCase is a function of the firmware, and what must follow.
type faultCase struct {
	name   string
	reason fault.Reason
	// argument of the function; a reason why the fault is not tested, or ""
	with func(r *run) (arg int64, skip string)
	// an emulator may let it pass
	lenient bool
}

var faultCases = []faultCase{
	{"address", fault.ReasonHardware, (*run).nowhere, true},
	{"instruction", fault.ReasonHardware, nil, false},
	{"check", fault.ReasonCheck, nil, false},
	{"stack", fault.ReasonStack, nil, false},
	{"loop", fault.ReasonTimeout, nil, false},
	{"interrupt", fault.ReasonInterrupt, (*run).unhandled, false},
	{"watchdog", fault.ReasonWatchdog, (*run).watched, false},
}

const (
	callBudget  = 100 * time.Millisecond // of the endless call
	faultWithin = 20 * time.Second       // a watchdog's time, and a start
)

func (r *run) faults(ctx context.Context, found *Result) error {
	if err := r.open(ctx, 0); err != nil {
		return err
	}

	for _, c := range faultCases {
		if err := r.fault(ctx, c, found); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return r.close(ctx)
}

// fault causes one fault, and checks what the board recorded and that it answers.
func (r *run) fault(ctx context.Context, c faultCase, found *Result) error {
	arg := int64(0)
	if c.with != nil {
		var skip string
		if arg, skip = c.with(r); skip != "" {
			found.note("%s: not tested, %s", c.name, skip)
			return nil
		}
	}

	budget := time.Duration(0)
	// A short budget ends the endless call; that of the deadline is longer than the watchdog's time.
	if c.reason == fault.ReasonTimeout {
		budget = callBudget
	}

	within := faultWithin + time.Duration(r.board.WatchdogMS)*time.Millisecond
	limited, cancel := context.WithTimeout(ctx, within)

	defer cancel()
	if err := r.session.SetBudget(limited, budget); err != nil {
		return err
	}

	_, err := r.call(limited, "accept_"+c.name+"_fault", arg)
	var faultErr *fault.Error
	switch {
	case err == nil && c.lenient && r.isEmulated():
		found.note("%s: passes unnoticed in this emulator", c.name)
		return nil
	case !errors.As(err, &faultErr):
		return notReset(err)
	case faultErr.Record.Reason != c.reason:
		return failure.Errorf(failure.WrongAnswer, "recorded as %v instead of %v: %w", faultErr.Record.Reason, c.reason, err)
	}

	// The calls of the next case get the deadline's budget again.
	if err := r.session.SetBudget(limited, 0); err != nil {
		return err
	}

	if err := r.answers(limited); err != nil {
		return err
	}

	cause, err := r.cause(limited, c)
	if err != nil {
		return err
	}

	found.note("%s: %v%s", c.name, faultErr.Record.Reason, cause)
	return nil
}

// Bits of rpc.ResetCause.
const (
	bySoftware = 1 << 2
	byWatchdog = 1 << 3
)

// cause checks the recorded cause of the reset after a fault, if the chip records it.
func (r *run) cause(ctx context.Context, c faultCase) (string, error) {
	p, err := r.session.Platform(ctx)
	if errors.Is(err, rpc.ErrNotFound) {
		return "", nil
	}

	if err != nil {
		return "", err
	}

	if p.Reset == nil || *p.Reset == 0 {
		return ", cause of the reset unknown", nil
	}

	want := rpc.ResetCause(bySoftware)
	if c.reason == fault.ReasonWatchdog {
		want |= byWatchdog // one that warns leaves the reset to software
	}

	switch {
	case *p.Reset&want != 0:
		return fmt.Sprintf(", reset by %v", *p.Reset), nil
	case r.isEmulated():
		return fmt.Sprintf(", reset by %v in this emulator", *p.Reset), nil
	default:
		return "", failure.New(failure.WrongAnswer, "chip_platform: the register of reset causes, and when it is cleared",
			"the cause of the reset is %v, not %v", *p.Reset, want)
	}
}

// isEmulated reports whether the firmware was built for an emulator.
func (r *run) isEmulated() bool { return r.platform.Emulated != nil && *r.platform.Emulated }

// nowhere returns an address at which the board has nothing.
func (r *run) nowhere() (int64, string) {
	if len(r.board.Memory) == 0 {
		return processNowhere, ""
	}
	candidates := []uint64{0xC0000000, 0xDFFFFFF0, 0x98000000} // external devices of a Cortex-M: execute never
	if r.board.ELF.Machine != "arm" {
		candidates = []uint64{0x18000000, 0x70000000, 0xF0000000}
	}

	for _, at := range candidates {
		used := false
		for _, m := range r.board.Memory {
			used = used || at >= uint64(m.Origin) && at < uint64(m.Origin)+uint64(m.Size)
		}
		if !used {
			return int64(at), ""
		}
	}
	return 0, "no address is known at which the board has nothing"
}

const processNowhere = 0x18000000 // below where programs are loaded

// unhandled returns the argument of accept_interrupt_fault.
func (r *run) unhandled() (int64, string) {
	defined := func(name string) (int64, bool) {
		n, err := strconv.ParseInt(strings.TrimRight(r.board.Defines[name], "uUlL"), 0, 64)
		return n, err == nil
	}

	if len(r.board.Memory) == 0 {
		return 0, "a process has no interrupts"
	}

	if r.board.ELF.Machine != "arm" {
		if base, ok := defined("CLINT_BASE"); ok {
			return base, ""
		}
		return 0, "the board file has no CLINT_BASE"
	}

	if n, ok := defined("CHIP_IRQS"); ok {
		return n, ""
	}
	return 0, "the board file has no CHIP_IRQS"
}

// watched returns why no watchdog can be tested.
func (r *run) watched() (int64, string) {
	switch {
	case len(r.board.Memory) == 0:
		return 0, "a process has no watchdog"
	case r.board.WatchdogMS == 0:
		return 0, "the board file has no watchdog_ms"
	}
	return 0, ""
}
