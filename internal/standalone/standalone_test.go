package standalone

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

var (
	must       = testkit.Must
	wantEqual  = testkit.WantEqual
	wantResult = testkit.WantResult
	wantIs     = testkit.WantIs
	last       = testkit.Last
	wantError  = testkit.WantError
)

// lineOf returns a line of the firmware.
func lineOf(kind byte, number uint16, words string) string {
	text := fmt.Sprintf("%c%04x %s ", kind, number, words)
	return fmt.Sprintf("%s%08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// firmware answers each request on a link by what answers returns for its words: lines, or "" for none.
func firmware(link transport.Link, answers func(number uint16, words string) string) {
	r := reader{link: link}
	for {
		text, err := r.next(context.Background())
		if err != nil {
			return
		}
		var number uint16
		if _, err := fmt.Sscanf(string(text), "?%04x", &number); err != nil {
			continue
		}
		if reply := answers(number, string(text[6:len(text)-9])); reply != "" {
			if link.Write(context.Background(), []byte(reply)) != nil {
				return
			}
		}
	}
}

const identity = "id 000102030405060708090a0b0c0d0e0f 12345678 abcd"

// talk opens a session with such firmware; change may damage what it sends.
func talk(t *testing.T, answers func(uint16, string) string, change func([]byte) []byte) *Session {
	t.Helper()
	host, device := transporttest.Pair()
	go firmware(device, answers)
	t.Cleanup(func() { device.Close() })
	link := transporttest.Tamper(host, func(d transporttest.Direction, b []byte) []byte {
		if d == transporttest.ToHost && change != nil {
			return change(b)
		}
		return b
	})
	s := New(link, Options{StartTimeout: 2 * time.Second})
	t.Cleanup(func() { s.Close() })
	return s
}

// begun is talk, and begins the session. Requests that begin so are answered by a function, others honestly.
func begun(t *testing.T, request string, answer func(number uint16) string) *Session {
	t.Helper()
	s := talk(t, func(number uint16, words string) string {
		if strings.HasPrefix(words, request) {
			return answer(number)
		}
		return honest(number, words)
	}, nil)
	must(t, last(s.Identify(soon(t), 1)))
	return s
}

// reply answers with these words.
func reply(words string) func(uint16) string {
	return func(number uint16) string { return lineOf('=', number, words) }
}

func honest(number uint16, words string) string {
	switch first, _, _ := strings.Cut(words, " "); first {
	case "id":
		return lineOf('=', number, identity)
	case "model":
		return lineOf('=', number, "model 0001 0001 0")
	case "tensor":
		return lineOf('=', number, "tensor 02 20 0001 00000001 0000000a")
	case "in":
		return lineOf('=', number, "in")
	case "run":
		return lineOf('=', number, "run 00000000 0000000000000064 000003e8")
	case "out":
		return lineOf('=', number, "out "+words[len("out 12345678 "):]+" 01020304")
	case "stack":
		return lineOf('=', number, "stack 00000120 00001000")
	case "fault":
		return lineOf('=', number, "fault 0000 -")
	case "forget":
		return lineOf('=', number, "forget")
	}
	return lineOf('=', number, "no request")
}

func soon(t *testing.T) context.Context { return testkit.Within(t, 10*time.Second) }

// TestLinesMatchSpec compares lines with boardsmith.md's examples.
func TestLinesMatchSpec(t *testing.T) {
	t.Parallel()
	spec := testkit.ReadFile(t, "../../docs/formats/boardsmith.md")
	request := encode(1, []string{"id", "0100000000000000"})
	if want := string(request) + lineOf('=', 1, identity); !strings.Contains(string(spec), "\n"+want) {
		t.Errorf("boardsmith.md does not have\n%s", want)
	}
}

// TestSessionMakesEachRequest takes a session through all its requests.
func TestSessionMakesEachRequest(t *testing.T) {
	t.Parallel()
	s := talk(t, honest, nil)
	ctx := soon(t)
	id, err := s.Identify(ctx, 1)
	if err != nil || id.BuildID[15] != 15 || id.CRC != 0x12345678 || !bytes.Equal(id.Chip, []byte{0xab, 0xcd}) {
		t.Fatalf("%+v, %v", id, err)
	}
	wantResult(t, Model{1, 1, false})(s.Model(ctx))
	want := Tensor{ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}, []int64{1, 10}}
	all, err := s.Tensors(ctx, Model{Inputs: 1, Outputs: 1})
	if err != nil || !reflect.DeepEqual(all, []Tensor{want, want}) {
		t.Errorf("%+v, %v", all, err)
	}
	must(t, s.SetInput(ctx, 0, make([]byte, 300)))
	wantResult(t, 100*time.Millisecond)(s.Run(ctx, 1))
	wantResult(t, []byte{1, 2, 3, 4, 1, 2, 3, 4})(s.Output(ctx, 0, 8))
	wantResult(t, Stack{0x120, 0x1000})(s.Stack(ctx))
	wantResult(t, nil)(s.PriorFault(ctx))
}

// TestTimer asks firmware on a chip, in an emulator, and without the request, for its timer; and firmware that does not
// know its stack for that.
func TestTimer(t *testing.T) {
	t.Parallel()
	ticks, hz := uint64(16), uint32(1000)
	for answer, want := range map[string]rpc.Platform{
		"clock 0000000000000010 000003e8 00040000 00000000": {Ticks: &ticks, TicksHz: &hz},
		"clock 0000000000000010 000003e8 00040000 00000009": {
			Ticks: &ticks, TicksHz: &hz, CountedInstructions: 0x40000, CountedTicks: 9,
		},
		"no request": {},
	} {
		wantResult(t, want, answer)(begun(t, "clock", reply(answer)).Timer(t.Context()))
	}
	wantResult(t, Stack{})(begun(t, "stack", reply("stack 00000000 00000000")).Stack(soon(t)))
}

// TestDamagedLineIsRequestedAgain damages lines of the firmware: a session repeats the request, and gives up if all are
// damaged.
func TestDamagedLineIsRequestedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		every int // damages each n-th line
		good  bool
	}{{"some", 3, true}, {"all", 1, false}} {
		t.Run(c.name, func(t *testing.T) {
			n, on := 0, false
			s := talk(t, honest, func(b []byte) []byte {
				if n++; on && n%c.every == 0 && len(b) > 20 {
					b = bytes.Clone(b)
					b[len(b)-12] ^= 1
				}
				return b
			})
			ctx := soon(t)
			_, err := s.Identify(ctx, 1)
			must(t, err)
			on = true
			out, err := s.Output(ctx, 0, 64)
			switch {
			case c.good && (err != nil || !bytes.Equal(out, bytes.Repeat([]byte{1, 2, 3, 4}, 16))):
				t.Errorf("% x, %v", out, err)
			case !c.good && (!errors.Is(err, errDamaged) || failure.Of(err) != failure.Transport || failure.Next(err) == ""):
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCRCDetectsEachBit flips each bit of a line: no line with another content is taken.
func TestCRCDetectsEachBit(t *testing.T) {
	t.Parallel()
	text := strings.TrimSuffix(lineOf('=', 0x12ab, "run 00000000 0000000000000064 000003e8"), "\n")
	if l, ours, err := parse([]byte(text)); !ours || err != nil || l.number != 0x12ab || len(l.words) != 4 {
		t.Fatalf("%+v, %v, %v", l, ours, err)
	}
	for i := range len(text) * 8 {
		b := []byte(text)
		b[i/8] ^= 1 << (i % 8)
		if l, ours, err := parse(b); ours && err == nil {
			t.Errorf("bit %d: %+v", i, l)
		}
	}
}

// TestInvalidAnswerIsTransportError has the firmware answer with a right CRC and a wrong content.
func TestInvalidAnswerIsTransportError(t *testing.T) {
	t.Parallel()
	of := failuretest.Of
	for _, c := range []struct{ request, answer string }{
		{"clock", "clock 10 000003e8 00040000 00000000"},
		{"clock", "clock"},
		{"stack", "no request"},
		{"stack", "stack 00001001 00001000"},
		{"stack", "stack 1 2"},
		{"stack", "stack 00000001"},
		{"model", "model 0001 0001"},
		{"model", "model +001 0001 0"},
		{"model", "model 0001 00AB 0"},
		{"tensor", "tensor 02 20 0001 1"},
		{"in", "in 1"},
		{"run", "run 00000000 00000000000000 000003e8"},
		{"run", "run 00000000 fffffffffffffff0 00000001"},
		{"out", "out 0001 00000000 01"},
		{"out", "out 0000 00000001 01"},
		{"out", "out 0000 00000000 010"},
		{"out", "out 0000 00000000 010203040506070809"},
		{"fault", "fault 0004 -"},
		{"fault", "fault 0001 0102"},
		{"fault", "fault 0004 01020304"},
		{"fault", "no request"},
	} {
		t.Run(c.answer, func(t *testing.T) {
			t.Parallel()
			s := begun(t, c.request, reply(c.answer))
			call := failuretest.Calls{
				"clock": of(s.Timer), "stack": of(s.Stack), "model": of(s.Model), "tensor": of(s.Tensors, Model{Inputs: 1}),
				"in": of(s.SetInput, 0, []byte{1}), "run": of(s.Run, 1), "out": of(s.Output, 0, 8), "fault": of(s.PriorFault),
			}[c.request]
			wantError(t, call(soon(t)), failure.Transport)
		})
	}
}

// TestLostTimeIsFault has the firmware report that its timer lost the time.
func TestLostTimeIsFault(t *testing.T) {
	t.Parallel()
	s := begun(t, "run", reply("run 00000000 ffffffffffffffff 000003e8"))
	wantError(t, last(s.Run(soon(t), 1)), failure.Fault, "timer")
}

// TestStartSkipsOtherLines has the firmware be silent, send what is no line, and lines of an earlier session, before it
// answers.
func TestStartSkipsOtherLines(t *testing.T) {
	t.Parallel()
	asked := 0
	s := talk(t, func(number uint16, words string) string {
		if asked++; asked == 1 {
			garbage := "\x00\xff\n=12\n" + strings.Repeat("x", 3*maxLine) + "\n"
			return garbage + lineOf('=', number+7, identity) + lineOf('!', 0, "start")
		}
		return honest(number, words)
	}, nil)
	must(t, last(s.Identify(soon(t), 1)))
}

// faultLine is what a port sends that starts again with a record.
func faultLine() string {
	rec := &fault.Record{
		Reason: fault.ReasonHardware, WordBytes: 4, Arch: fault.ArchCortexM, Function: 0xffffffff, PC: 0x42,
	}
	return "noise\n" + RecordMark + hex.EncodeToString(rpctest.AppendRecord(nil, rec)) + "\r\n"
}

// TestSilentFirmwareIsBootError has firmware that never answers, that sends garbage without end, and that restarts at
// each request, with and without the record of a fault.
func TestSilentFirmwareIsBootError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sends, next string
		fault       bool
	}{
		"nothing":  {"", "sent nothing", false},
		"garbage":  {strings.Repeat("garbage ", 4*maxLine), "no session reply", false},
		"restarts": {lineOf('!', 0, "start"), "the firmware starts", false},
		"faults":   {faultLine() + lineOf('!', 0, "faulted"), "the firmware starts", true},
		"damaged":  {strings.Replace(faultLine(), "42464c54", "42464c55", 1), "no session reply", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := talk(t, func(uint16, string) string { return c.sends }, nil)
			began := time.Now()
			_, err := s.Identify(t.Context(), 1)
			var silent *transport.HandshakeError
			if !errors.As(err, &silent) || failure.Of(err) != failure.Boot || time.Since(began) > 8*time.Second ||
				!strings.Contains(failure.Next(err), c.next) {
				t.Fatalf("after %v: %v (%s)", time.Since(began), err, failure.Next(err))
			}
			if rec := RecordIn(silent.Text); (rec != nil) != c.fault || rec != nil && rec.PC != 0x42 {
				t.Errorf("record %+v", rec)
			}
		})
	}
}

// TestRestartDuringRunIsReported has the firmware restart during a run without saying so.
func TestRestartDuringRunIsReported(t *testing.T) {
	t.Parallel()
	wantError(t, last(begun(t, "run", reply("no session")).Run(soon(t), 1)), failure.Fault, ErrRestarted.Error())
}

// TestContexts calls every function of this package with contexts that have ended.
func TestContexts(t *testing.T) {
	s := begun(t, "model", reply("model 0001 0001 0"))
	of := failuretest.Of
	failuretest.Ended(t, failuretest.Calls{
		"Session.Identify":   of(s.Identify, uint64(1)),
		"Session.Model":      of(s.Model),
		"Session.Tensors":    of(s.Tensors, Model{Inputs: 1}),
		"Session.SetInput":   of(s.SetInput, 0, []byte{1}),
		"Session.Run":        of(s.Run, 1),
		"Session.RunTicks":   of(s.RunTicks, 1),
		"Session.Stack":      of(s.Stack),
		"Session.Timer":      of(s.Timer),
		"Session.Output":     of(s.Output, 0, 4),
		"Session.PriorFault": of(s.PriorFault),
	})
}

// FuzzParse has no text crash the parser, and only a text with its CRC be a line.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "=", "!0000 start 0", lineOf('=', 1, identity), lineOf('!', 0, "out 0000 00000000 -"),
	} {
		f.Add([]byte(strings.TrimSuffix(text, "\n")))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, ours, err := parse(text)
		if !ours || err != nil {
			return
		}
		encoded := strings.TrimSuffix(lineOf(text[0], l.number, strings.Join(l.words, " ")), "\n")
		wantEqual(t, encoded, string(text), text)
	})
}
