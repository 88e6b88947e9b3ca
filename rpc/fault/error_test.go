package fault_test

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/rpc/fault"
)

func TestCauseInWords(t *testing.T) {
	for _, c := range []struct {
		change func(*fault.Record)
		want   string
	}{
		{func(*fault.Record) {}, "hard fault (CFSR 0x00008200, HFSR 0x40000000: precise data bus error at 0xe0000000)"},
		{
			func(r *fault.Record) { r.Code, r.More = 6, []uint64{1 << 16} },
			"usage fault (CFSR 0x00010000, HFSR 0x00000000: undefined instruction)",
		},
		{func(r *fault.Record) { r.More = nil }, "hard fault"},
		{
			func(r *fault.Record) { r.Reason, r.More = fault.ReasonStack, []uint64{1 << 20} },
			"stack overflow (CFSR 0x00100000, HFSR 0x00000000: stack limit)",
		},
		{func(r *fault.Record) { *r = *riscvFault() }, "hardware fault (load access fault at 0x1000)"},
		{func(r *fault.Record) { *r = *riscvFault(); r.More = nil }, "hardware fault (load access fault)"},
		{
			func(r *fault.Record) { *r = *riscvFault(); r.More = r.More[:1] },
			"hardware fault (load access fault at 0x1000)",
		},
		{func(r *fault.Record) { *r = *riscvFault(); r.Code = 2 }, "hardware fault (illegal instruction 0x1000)"},
		{func(r *fault.Record) { *r = *checkFailed() }, "failed check (error 0x8001): graph.[31m"},
		{
			func(r *fault.Record) { *r = *checkFailed(); r.Reason, r.Code = fault.ReasonHardware, 11 },
			"hardware fault (SIGSEGV, invalid memory access)",
		},
		{
			func(r *fault.Record) { r.Reason, r.Code = fault.ReasonTimeout, 1500 },
			"still running after its time budget of 1.5s",
		},
		{func(r *fault.Record) { r.Reason = fault.ReasonWatchdog }, "watchdog reset"},
		{func(r *fault.Record) { r.Reason, r.Code = fault.ReasonInterrupt, 7 }, "interrupt 7, which has no handler"},
		{
			func(r *fault.Record) { *r = *riscvFault(); r.Reason, r.Code = fault.ReasonInterrupt, 1<<31|3 },
			"interrupt of the core, mcause 3, which has no handler",
		},
	} {
		r := busFault()
		c.change(r)
		wantEqual(t, r.Cause(), c.want)
	}
}

// TestNextStepOfAStack: a board has the option, a process of this computer has not.
func TestNextStepOfAStack(t *testing.T) {
	next := (&fault.Error{Record: &fault.Record{Reason: fault.ReasonStack}}).NextStep()
	if !strings.Contains(next, "the option stack_bytes") || !strings.Contains(next, "ulimit -s") {
		t.Error(next)
	}
}

// TestChainInWords: a recursion is described once, a long chain is shortened.
func TestChainInWords(t *testing.T) {
	f := func(name string, line int) fault.Frame { return fault.Frame{Function: name, File: "f.c", Line: line} }
	e := &fault.Error{Record: &fault.Record{Reason: fault.ReasonStack, Function: 0xffffffff, PC: 0x10}}
	const nothing = "fault while nothing was called: stack overflow"
	for want, set := range map[string]func(){
		nothing:                       func() {},
		nothing + ", at address 0x10": func() { e.Record.PCValid = true },
		nothing + ", in r at f.c:1":   func() { e.Record.PCValid, e.Frames = true, []fault.Frame{f("r", 1)} },
	} {
		e.Record.PCValid, e.Frames = false, nil
		if set(); e.Error() != want {
			t.Errorf("got  %v\nwant %v", e, want)
		}
	}
	e.Frames = []fault.Frame{f("r", 1), f("r", 2), f("r", 2), f("r", 2), {PC: 0x10, Guessed: true}}
	e.Frames[0].Inlined = true
	const want = "fault while nothing was called: stack overflow, in r at f.c:1, part of r at f.c:2 (3 times), called " +
		"from 0x10 (perhaps)"
	wantEqual(t, e.Error(), want, e)
	for i := range 50 {
		e.Frames = append(e.Frames, f("g", i))
	}
	if s := e.Error(); !strings.HasSuffix(s, ", called from g at f.c:4, …") {
		t.Errorf("got %v", s)
	}
}
