package fault_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

var (
	must      = testkit.Must
	wantEqual = testkit.WantEqual
	last      = testkit.Last
	wantError = testkit.WantError
)

// busFault is a record of a Cortex-M.
func busFault() *fault.Record {
	return &fault.Record{
		Reason: fault.ReasonHardware, WordBytes: 4, Arch: fault.ArchCortexM, PCValid: true, SPValid: true, Code: 3,
		Ticks: 2500, TicksHz: 1000, Build: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, PC: 0x1234, LR: 0x2001, SP: 0x20000f00,
		Status:    0x21000000,
		Registers: make([]uint64, 13), More: []uint64{0x8200, 0x40000000, 0, 0xe0000000, 0xfffffff9},
		Stack: []byte{1, 2, 3, 4}, Message: "",
	}
}

func riscvFault() *fault.Record {
	return &fault.Record{
		Reason: fault.ReasonHardware, WordBytes: 8, Arch: fault.ArchRISCV, PCValid: true, SPValid: true, Code: 5,
		Function: 0xffffffff,
		PC:       0x80000010, SP: 0x80010000, Status: 5, Registers: make([]uint64, 31), More: []uint64{0x1000, 0x1800},
	}
}

func checkFailed() *fault.Record {
	return &fault.Record{
		Reason: fault.ReasonCheck, WordBytes: 8, Arch: fault.ArchProcess, Code: 0x8001, Function: 0xfffffffe,
		Message: "graph\x1b[31m\n",
	}
}

func TestRecordSurvivesEncoding(t *testing.T) {
	for _, want := range []*fault.Record{busFault(), riscvFault(), checkFailed()} {
		got, err := fault.ParseRecord(rpctest.AppendRecord(nil, want))
		must(t, err)
		if len(want.Stack) == 0 {
			want.Stack, got.Stack = nil, nil
		}
		wantEqual(t, got, want)
	}
	big := &fault.Record{WordBytes: 4, Stack: make([]byte, 1<<17), Message: "why"}
	got, err := fault.ParseRecord(rpctest.AppendRecord([]byte("before"), big)[6:])
	must(t, err)
	if got.Message != "why" || len(got.Stack) < 60000 {
		t.Errorf("of a large record %q and %d bytes of stack are left", got.Message, len(got.Stack))
	}
}

// A record has at most 64 registers, so that a damaged count does not allocate memory for more.
func TestRecordHasAtMost64Registers(t *testing.T) {
	const lengthAt, countAt, word = 6, 40 + 4*8, 8
	rec := riscvFault()
	rec.Registers = make([]uint64, 64)
	b := rpctest.AppendRecord(nil, rec)
	if got, err := fault.ParseRecord(b); err != nil || len(got.Registers) != 64 {
		t.Errorf("64 registers: %v", err)
	}
	b = slices.Insert(b, countAt+word, make([]byte, word)...)
	b[countAt]++
	binary.LittleEndian.PutUint16(b[lengthAt:], uint16(len(b)))
	body := b[:len(b)-4]
	binary.LittleEndian.PutUint32(b[len(body):], crc32.ChecksumIEEE(body))
	wantError(t, last(fault.ParseRecord(b)), failure.Transport, "0x41")
}

// TestDamagedRecordIsRejected truncates a record at every length and changes each byte, with the old and with a
// corrected CRC: what parses encodes to the same bytes.
func TestDamagedRecordIsRejected(t *testing.T) {
	whole := rpctest.AppendRecord(nil, busFault())
	for n := range whole {
		wantError(t, last(fault.ParseRecord(whole[:n])), failure.Transport)
		for _, bit := range []byte{1, 0x80, 0xff} {
			b := bytes.Clone(whole)
			b[n] ^= bit
			wantError(t, last(fault.ParseRecord(b)), failure.Transport)
			body := b[:len(b)-4]
			binary.LittleEndian.PutUint32(b[len(body):], crc32.ChecksumIEEE(body))
			checkRecord(t, b)
		}
	}
}

// checkRecord parses b. A valid record must have a description and encode to the same bytes.
func checkRecord(t *testing.T, b []byte) {
	t.Helper()
	rec, err := fault.ParseRecord(b)
	if err != nil {
		wantError(t, err, failure.Transport)
		return
	}
	wantEqual(t, rpctest.AppendRecord(nil, rec), b, rec)
	e := &fault.Error{Record: rec}
	if s := e.Error(); s == "" || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
		t.Errorf("%+v is described as %q", rec, s)
	}
	_ = e.NextStep()
}

// FuzzRecord corrects the CRC, which random data would not match.
func FuzzRecord(f *testing.F) {
	for _, rec := range []*fault.Record{busFault(), riscvFault(), checkFailed(), {WordBytes: 4, Reason: 99}} {
		f.Add(rpctest.AppendRecord(nil, rec))
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
