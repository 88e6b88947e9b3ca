package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// busFault is a record of a Cortex-M.
func busFault() *rpc.FaultRecord {
	return &rpc.FaultRecord{
		Reason: rpc.ReasonHardware, WordBytes: 4, Arch: rpc.ArchCortexM, PCValid: true, SPValid: true, Code: 3,
		Ticks: 2500, TicksHz: 1000, Build: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, PC: 0x1234, LR: 0x2001, SP: 0x20000f00,
		Status:    0x21000000,
		Registers: make([]uint64, 13), More: []uint64{0x8200, 0x40000000, 0, 0xe0000000, 0xfffffff9},
		Stack: []byte{1, 2, 3, 4}, Message: "",
	}
}

func riscvFault() *rpc.FaultRecord {
	return &rpc.FaultRecord{
		Reason: rpc.ReasonHardware, WordBytes: 8, Arch: rpc.ArchRISCV, PCValid: true, SPValid: true, Code: 5,
		Function: 0xffffffff,
		PC:       0x80000010, SP: 0x80010000, Status: 5, Registers: make([]uint64, 31), More: []uint64{0x1000, 0x1800},
	}
}

func checkFailed() *rpc.FaultRecord {
	return &rpc.FaultRecord{
		Reason: rpc.ReasonCheck, WordBytes: 8, Arch: rpc.ArchProcess, Code: 0x8001, Function: 0xfffffffe,
		Message: "graph\x1b[31m\n",
	}
}

func TestRecordAndBack(t *testing.T) {
	for _, want := range []*rpc.FaultRecord{busFault(), riscvFault(), checkFailed()} {
		got := must[*rpc.FaultRecord](t)(rpc.ParseFaultRecord(want.Append(nil)))
		if len(want.Stack) == 0 {
			want.Stack, got.Stack = nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	}
	big := &rpc.FaultRecord{WordBytes: 4, Stack: make([]byte, 1<<17), Message: "why"}
	got := must[*rpc.FaultRecord](t)(rpc.ParseFaultRecord(big.Append([]byte("before"))[6:]))
	if got.Message != "why" || len(got.Stack) < 60000 {
		t.Errorf("of a large record %q and %d bytes of stack are left", got.Message, len(got.Stack))
	}
}

// A record has at most 64 registers, so that a damaged count does not allocate memory for more.
func TestRecordRegisters(t *testing.T) {
	const lengthAt, countAt, word = 6, 40 + 4*8, 8
	rec := riscvFault()
	rec.Registers = make([]uint64, 64)
	b := rec.Append(nil)
	if got, err := rpc.ParseFaultRecord(b); err != nil || len(got.Registers) != 64 {
		t.Errorf("64 registers: %v", err)
	}
	b = slices.Insert(b, countAt+word, make([]byte, word)...)
	b[countAt]++
	binary.LittleEndian.PutUint16(b[lengthAt:], uint16(len(b)))
	body := b[:len(b)-4]
	binary.LittleEndian.PutUint32(b[len(body):], crc32.ChecksumIEEE(body))
	if _, err := rpc.ParseFaultRecord(b); failure.Of(err) != failure.Transport || !strings.Contains(err.Error(), "0x41") {
		t.Errorf("65 registers: %v", err)
	}
}

// TestRecordDamaged truncates a record at every length and changes each byte, with the old and with a corrected
// CRC: what parses encodes to the same bytes.
func TestRecordDamaged(t *testing.T) {
	whole := busFault().Append(nil)
	for n := range whole {
		if _, err := rpc.ParseFaultRecord(whole[:n]); failure.Of(err) != failure.Transport {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
		for _, bit := range []byte{1, 0x80, 0xff} {
			b := bytes.Clone(whole)
			b[n] ^= bit
			if _, err := rpc.ParseFaultRecord(b); failure.Of(err) != failure.Transport {
				t.Errorf("byte %d changed: %v", n, err)
			}
			body := b[:len(b)-4]
			binary.LittleEndian.PutUint32(b[len(body):], crc32.ChecksumIEEE(body))
			checkRecord(t, b)
		}
	}
}

// checkRecord parses b. A valid record must have a description and encode to the same bytes.
func checkRecord(t *testing.T, b []byte) {
	t.Helper()
	rec, err := rpc.ParseFaultRecord(b)
	if err != nil {
		if failure.Of(err) != failure.Transport {
			t.Errorf("error without a class: %v", err)
		}
		return
	}
	if again := rec.Append(nil); !bytes.Equal(again, b) {
		t.Errorf("% x\nparses to %+v\nand encodes to % x", b, rec, again)
	}
	e := &rpc.FaultError{Record: rec}
	if s := e.Error(); s == "" || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
		t.Errorf("%+v is described as %q", rec, s)
	}
	_ = e.NextStep()
}

// FuzzRecord corrects the CRC, which random data would not match.
func FuzzRecord(f *testing.F) {
	for _, rec := range []*rpc.FaultRecord{busFault(), riscvFault(), checkFailed(), {WordBytes: 4, Reason: 99}} {
		f.Add(rec.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkRecord(t, b)
		if len(b) < 4 {
			return
		}
		b = bytes.Clone(b)
		body := b[:len(b)-4]
		binary.LittleEndian.PutUint32(b[len(body):], crc32.ChecksumIEEE(body))
		checkRecord(t, b)
	})
}

func TestCauses(t *testing.T) {
	for _, c := range []struct {
		change func(*rpc.FaultRecord)
		want   string
	}{
		{func(*rpc.FaultRecord) {}, "hard fault (CFSR 0x00008200, HFSR 0x40000000: precise data bus error at 0xe0000000)"},
		{
			func(r *rpc.FaultRecord) { r.Code, r.More = 6, []uint64{1 << 16} },
			"usage fault (CFSR 0x00010000, HFSR 0x00000000: undefined instruction)",
		},
		{func(r *rpc.FaultRecord) { r.More = nil }, "hard fault"},
		{
			func(r *rpc.FaultRecord) { r.Reason, r.More = rpc.ReasonStack, []uint64{1 << 20} },
			"stack overflow (CFSR 0x00100000, HFSR 0x00000000: stack limit)",
		},
		{func(r *rpc.FaultRecord) { *r = *riscvFault() }, "hardware fault (load access fault at 0x1000)"},
		{func(r *rpc.FaultRecord) { *r = *riscvFault(); r.More = nil }, "hardware fault (load access fault)"},
		{
			func(r *rpc.FaultRecord) { *r = *riscvFault(); r.More = r.More[:1] },
			"hardware fault (load access fault at 0x1000)",
		},
		{func(r *rpc.FaultRecord) { *r = *riscvFault(); r.Code = 2 }, "hardware fault (illegal instruction 0x1000)"},
		{func(r *rpc.FaultRecord) { *r = *checkFailed() }, "failed check (error 0x8001): graph.[31m"},
		{
			func(r *rpc.FaultRecord) { *r = *checkFailed(); r.Reason, r.Code = rpc.ReasonHardware, 11 },
			"hardware fault (SIGSEGV, invalid memory access)",
		},
		{
			func(r *rpc.FaultRecord) { r.Reason, r.Code = rpc.ReasonTimeout, 1500 },
			"still running after its time budget of 1.5s",
		},
		{func(r *rpc.FaultRecord) { r.Reason = rpc.ReasonWatchdog }, "watchdog reset"},
		{func(r *rpc.FaultRecord) { r.Reason, r.Code = rpc.ReasonInterrupt, 7 }, "interrupt 7, which has no handler"},
		{
			func(r *rpc.FaultRecord) { *r = *riscvFault(); r.Reason, r.Code = rpc.ReasonInterrupt, 1<<31|3 },
			"interrupt of the core, mcause 3, which has no handler",
		},
	} {
		r := busFault()
		c.change(r)
		if got := r.Cause(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// faulty returns a device whose function "bad" resets it and leaves record, with the function's handle if it has
// none.
func faulty(record *rpc.FaultRecord) *rpctest.Device {
	d := device()
	d.Globals["boardsmith.fault"] = rpctest.Fault
	d.Module["bad"] = func(d *rpctest.Device, _ []rpc.Value) ([]rpc.Value, error) {
		if record == nil {
			d.Reset(nil)
			return nil, nil
		}
		r := *record
		if r.Function == 0 {
			r.Function = d.Running()
		}
		d.Reset(r.Append(nil))
		return rpctest.Nothing(), nil
	}
	return d
}

// opened is open with options.
func opened(t testing.TB, d *rpctest.Device, o rpc.Options) *rpc.Session {
	t.Helper()
	host, device := transporttest.Pair()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Serve(context.Background(), device)
	}()
	s, err := transport.Dial(within(t, 10*time.Second), host, transport.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	session := rpc.New(s, o)
	t.Cleanup(func() {
		_ = session.Close(within(t, 10*time.Second))
		<-done
	})
	return session
}

func TestFaultAndOn(t *testing.T) {
	ctx := within(t, 10*time.Second)
	d := faulty(busFault())
	s := opened(t, d, rpc.Options{
		Explain: func(r *rpc.FaultRecord, called string) rpc.Explanation {
			if called != "bad" {
				t.Errorf("function %q was reported as called", called)
			}
			return rpc.Explanation{Frames: []rpc.Frame{
				{PC: r.PC, Function: "bad", File: "model/bad.c", Line: 3},
				{PC: 0x2000, Function: "main", File: "src/main.c", Line: 9},
			}}
		},
	})
	lib := must[rpc.Module](t)(s.SystemLib(ctx))
	bad := must[rpc.Function](t)(lib.Function(ctx, "bad"))
	old := must[*rpc.Tensor](t)(s.Empty(ctx, i8, []int64{4}))
	_, err := bad.Call(ctx)
	var fault *rpc.FaultError
	if !errors.As(err, &fault) || fault.Function != "bad" || fault.Prior || fault.Record.PC != 0x1234 {
		t.Fatalf("got %v", err)
	}
	const want = "calling bad: fault in bad: hard fault (CFSR 0x00008200, HFSR 0x40000000: " +
		"precise data bus error at 0xe0000000), in bad at model/bad.c:3, called from main at src/main.c:9"
	if err.Error() != want {
		t.Errorf("got  %v\nwant %v", err, want)
	}
	var terminated *transport.TerminatedError
	if failure.Of(err) != failure.Fault || !errors.As(err, &terminated) {
		t.Errorf("class %v of %#v", failure.Of(err), err)
	}

	// Using what existed before the reset is a *StaleError; freeing it is no error.
	uses := map[string]func() error{
		"function": func() error { _, err := bad.Call(ctx); return err },
		"module":   func() error { _, err := lib.Function(ctx, "negate"); return err },
		"timing":   func() error { _, err := lib.Time(ctx, "negate", rpc.TimeOptions{}); return err },
		"write":    func() error { return old.Write(ctx, make([]byte, 4)) },
		"read":     func() error { return old.Read(ctx, make([]byte, 4)) },
	}
	for name, use := range uses {
		var stale *rpc.StaleError
		if err := use(); !errors.As(err, &stale) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, free := range []func(context.Context) error{old.Free, lib.Free, bad.Free, old.Free} {
		if err := free(ctx); err != nil {
			t.Error(err)
		}
	}
	if len(d.Freed) > 0 { // what the device has under these handles now is somebody else's
		t.Errorf("freed %v, which the reset has freed", d.Freed)
	}

	// What is looked up now works.
	lib = must[rpc.Module](t)(s.SystemLib(ctx))
	negated := must[rpc.Function](t)(lib.Function(ctx, "negate"))
	x, y := must[*rpc.Tensor](t)(s.Empty(ctx, i8, []int64{2})), must[*rpc.Tensor](t)(s.Empty(ctx, i8, []int64{2}))
	if err := x.Write(ctx, []byte{1, 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := negated.Call(ctx, x, y); err != nil {
		t.Fatal(err)
	}
	var b [2]byte
	if err := y.Read(ctx, b[:]); err != nil || b != [2]byte{255, 254} {
		t.Errorf("negate answered % x, %v", b, err)
	}
	if prior, err := s.PriorFault(ctx); prior != nil || err != nil {
		t.Errorf("the fault was reported already, but there is a prior one: %v, %v", prior, err)
	}
}

// TestReset covers devices without a readable record.
func TestReset(t *testing.T) {
	for _, c := range []struct {
		name string
		d    *rpctest.Device
		why  string
	}{
		{"no record", faulty(nil), "it has no fault record"},
		{"damaged record", func() *rpctest.Device {
			d := faulty(nil)
			d.Module["bad"] = func(d *rpctest.Device, _ []rpc.Value) ([]rpc.Value, error) {
				d.Reset([]byte("BFLT"))
				return nil, nil
			}
			return d
		}(), "fault record of 4 bytes"},
		{"a firmware that keeps none", func() *rpctest.Device {
			d := faulty(nil)
			delete(d.Globals, "boardsmith.fault")
			return d
		}(), "it has no fault record"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := within(t, 10*time.Second)
			s := opened(t, c.d, rpc.Options{})
			bad := must[rpc.Function](t)(must[rpc.Module](t)(s.SystemLib(ctx)).Function(ctx, "bad"))
			_, err := bad.Call(ctx)
			var reset *rpc.ResetError
			if !errors.As(err, &reset) || !strings.Contains(err.Error(), c.why) || failure.Of(err) != failure.Fault {
				t.Errorf("got %v", err)
			}
			if _, err := s.SystemLib(ctx); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestFaultInALoop: a device faults at every request; each request returns.
func TestFaultInALoop(t *testing.T) {
	d := device()
	loop := func(d *rpctest.Device, _ []rpc.Value) ([]rpc.Value, error) {
		d.Reset(nil)
		return rpctest.Nothing(), nil
	}
	d.Globals["boardsmith.fault"], d.Globals["echo"] = loop, loop
	s := opened(t, d, rpc.Options{})
	ctx := within(t, 10*time.Second)
	echo := must[rpc.Function](t)(s.Function(ctx, "echo"))
	var reset *rpc.ResetError
	if _, err := echo.Call(ctx); !errors.As(err, &reset) || reset.Why == nil {
		t.Errorf("got %v", err)
	}
	if _, err := s.Function(ctx, "echo"); !errors.As(err, &reset) {
		t.Errorf("got %v", err)
	}
}

// A mute transport's device does not respond after its reset.
type mute struct{ redials int }

func (*mute) Send(context.Context, ...[]byte) error { return nil }
func (*mute) Close() error                          { return nil }
func (*mute) Lossy() bool                           { return false }
func (*mute) Recv(context.Context) ([]byte, error)  { return nil, &transport.TerminatedError{} }

func (m *mute) Redial(ctx context.Context) error {
	m.redials++
	<-ctx.Done()
	return ctx.Err()
}

func TestRedialWithinTheDeadline(t *testing.T) {
	m := &mute{}
	s := rpc.New(m, rpc.Options{})
	for i := range 3 {
		began := time.Now()
		_, err := s.Function(within(t, 50*time.Millisecond), "x")
		var reset *rpc.ResetError
		if !errors.As(err, &reset) || !errors.Is(reset.Why, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took < 40*time.Millisecond || took > 5*time.Second || m.redials != i+1 {
			t.Errorf("%d redials, the last took %v", m.redials, took)
		}
	}
	if err := s.Close(within(t, time.Second)); err != nil {
		t.Error(err)
	}
}

func TestPriorFault(t *testing.T) {
	ctx := within(t, 10*time.Second)
	d := faulty(nil)
	d.Record = busFault().Append(nil)
	s := opened(t, d, rpc.Options{})
	for range 2 {
		prior, err := s.PriorFault(ctx)
		if err != nil || prior == nil || !prior.Prior || prior.Record.PC != 0x1234 ||
			!strings.HasPrefix(prior.Error(), "earlier fault in function 0x0: hard fault") {
			t.Errorf("got %v, %v", prior, err)
		}
	}
	for name, d := range map[string]*rpctest.Device{"none": faulty(nil), "a device without": device(), "nonsense": {
		Globals: map[string]rpctest.Func{"boardsmith.fault": echoNumber},
	}} {
		if prior, err := opened(t, d, rpc.Options{}).PriorFault(ctx); prior != nil || err != nil {
			t.Errorf("%s: %v, %v", name, prior, err)
		}
	}
}

// TestFaultAnswerLost: the answer with the record arrives damaged, and the session asks again. Firmware that clears the
// record when it is read still works.
func TestFaultAnswerLost(t *testing.T) {
	ctx := within(t, 10*time.Second)
	d := faulty(nil)
	d.Record = busFault().Append(nil)
	hits := 0
	s := open(t, d, func(l transport.Link) transport.Link {
		return transporttest.Tamper(l, wholeFrames(transporttest.ToHost, func(p []byte) {
			if hits == 0 && bytes.Contains(p, []byte("BFLT")) {
				hits++
				p[len(p)-20] ^= 4
			}
		}))
	})
	prior, err := s.PriorFault(ctx)
	if err != nil || prior == nil || prior.Record.PC != 0x1234 || hits != 1 {
		t.Errorf("got %v, %v after %d damages", prior, err, hits)
	}
	if d.Record != nil {
		t.Error("the device still has the record")
	}
	d = faulty(nil)
	d.Globals["boardsmith.fault"] = rpctest.FaultOnce
	d.Record = busFault().Append(nil)
	prior, err = opened(t, d, rpc.Options{}).PriorFault(ctx)
	if err != nil || prior == nil || prior.Record.PC != 0x1234 {
		t.Errorf("earlier firmware: got %v, %v", prior, err)
	}
}

func echoNumber(*rpctest.Device, []rpc.Value) ([]rpc.Value, error) {
	return rpctest.Result(rpc.Int(1)), nil
}

// TestTimedFunctionIsNamed: a fault during timing names the timed function.
func TestTimedFunctionIsNamed(t *testing.T) {
	ctx := within(t, 10*time.Second)
	s := opened(t, faulty(busFault()), rpc.Options{})
	_, err := must[rpc.Module](t)(s.SystemLib(ctx)).Time(ctx, "bad", rpc.TimeOptions{})
	var fault *rpc.FaultError
	if !errors.As(err, &fault) || fault.Function != "bad" {
		t.Errorf("got %v", err)
	}
}

// platform of a Cortex-M4 at 168 MHz.
var platform = []byte{
	1, 1, 4, 0, 0x7a, 3, 10, 2, 4, 0, 0x7a, 3, 10, 3, 8, 1, 0, 0, 0, 1, 0, 0, 0, 4, 1, 0b1101, 5, 1, 5, 6, 1, 0b1100,
	7, 2, 0xab, 0xcd, 8, 4, 0x41, 0xc2, 0x0f, 0x41, 9, 1, 0, 10, 4, 0, 0, 0, 0, 200, 1, 9,
}

// TestChainInWords: a recursion is described once, a long chain is shortened.
func TestChainInWords(t *testing.T) {
	f := func(name string, line int) rpc.Frame { return rpc.Frame{Function: name, File: "f.c", Line: line} }
	e := &rpc.FaultError{Record: &rpc.FaultRecord{Reason: rpc.ReasonStack, Function: 0xffffffff, PC: 0x10}}
	const nothing = "fault while nothing was called: stack overflow"
	for want, set := range map[string]func(){
		nothing:                       func() {},
		nothing + ", at address 0x10": func() { e.Record.PCValid = true },
		nothing + ", in r at f.c:1":   func() { e.Record.PCValid, e.Frames = true, []rpc.Frame{f("r", 1)} },
	} {
		e.Record.PCValid, e.Frames = false, nil
		if set(); e.Error() != want {
			t.Errorf("got  %v\nwant %v", e, want)
		}
	}
	e.Frames = []rpc.Frame{f("r", 1), f("r", 2), f("r", 2), f("r", 2), {PC: 0x10, Guessed: true}}
	e.Frames[0].Inlined = true
	const want = "fault while nothing was called: stack overflow, in r at f.c:1, part of r at f.c:2 (3 times), called " +
		"from 0x10 (perhaps)"
	if e.Error() != want {
		t.Errorf("got  %v\nwant %v", e, want)
	}
	for i := range 50 {
		e.Frames = append(e.Frames, f("g", i))
	}
	if s := e.Error(); !strings.HasSuffix(s, ", called from g at f.c:4, …") {
		t.Errorf("got %v", s)
	}
}

func TestPlatform(t *testing.T) {
	ctx := within(t, 10*time.Second)
	d := device()
	d.Globals["boardsmith.platform"] = func(*rpctest.Device, []rpc.Value) ([]rpc.Value, error) {
		return rpctest.Result(rpc.Raw(platform)), nil
	}
	p := must[rpc.Platform](t)(opened(t, d, rpc.Options{}).Platform(ctx))
	text, err := json.Marshal(p)
	const want = `{"core_hz":168000000,"ticks_hz":168000000,"icache":true,"dcache":false,"prefetch":true,"fpu":true,` +
		`"wait_states":5,"reset":"software, watchdog","chip_id":"abcd","cpuid":1091551809,"emulated":false,"lost_bytes":0}`
	if err != nil || string(text) != want || *p.Ticks != 1<<32+1 {
		t.Errorf("got  %s, ticks %v, %v\nwant %s", text, p.Ticks, err, want)
	}
	const words = "core 168 MHz, timer 168 MHz, instruction cache on, data cache off, prefetch on, FPU on, 5 wait states"
	if p.String() != words || (rpc.Platform{}).String() != "" {
		t.Errorf("in words %q", p)
	}
	var missing *rpc.NotFoundError
	if _, err := opened(t, device(), rpc.Options{}).Platform(ctx); !errors.As(err, &missing) {
		t.Errorf("of a device without that function: %v", err)
	}
}

func TestPlatformDamaged(t *testing.T) {
	for n := range platform {
		_, _ = rpc.ParsePlatform(platform[:n]) // must not panic
	}
	for _, b := range [][]byte{{}, {2}, {1, 1}, {1, 1, 4, 0}, {1, 1, 3, 0, 0, 0}, {1, 5, 1, 0, 5, 1, 0}} {
		if _, err := rpc.ParsePlatform(b); failure.Of(err) != failure.Transport {
			t.Errorf("% x: %v", b, err)
		}
	}
}

func FuzzPlatform(f *testing.F) {
	f.Add(platform)
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := rpc.ParsePlatform(b)
		if err != nil {
			if failure.Of(err) != failure.Transport {
				t.Errorf("error without a class: %v", err)
			}
			return
		}
		if _, err := json.Marshal(p); err != nil {
			t.Error(err)
		}
	})
}

// A patchy transport's Redial succeeds at the second attempt only.
type patchy struct {
	*transport.Session
	fail int
}

func (p *patchy) Redial(ctx context.Context) error {
	if p.fail > 0 {
		p.fail--
		return &transport.TimeoutError{Op: "read"}
	}
	return p.Session.Redial(ctx)
}

// TestFaultToldLater: if Redial fails at first, the next request succeeds, and the fault is not reported for it.
func TestFaultToldLater(t *testing.T) {
	ctx := within(t, 10*time.Second)
	host, link := transporttest.Pair()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = faulty(busFault()).Serve(context.Background(), link)
	}()
	dialled, err := transport.Dial(ctx, host, transport.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.New(&patchy{dialled, 1}, rpc.Options{})
	defer func() {
		_ = s.Close(ctx)
		<-done
	}()
	bad := must[rpc.Function](t)(must[rpc.Module](t)(s.SystemLib(ctx)).Function(ctx, "bad"))
	var reset *rpc.ResetError
	if _, err := bad.Call(ctx); !errors.As(err, &reset) || reset.Why == nil {
		t.Errorf("got %v", err)
	}
	if _, err := s.SystemLib(ctx); err != nil {
		t.Errorf("the next request: %v", err)
	}
	if prior, err := s.PriorFault(ctx); err != nil || prior == nil || prior.Function != "bad" {
		t.Errorf("got %v, %v", prior, err)
	}
}
