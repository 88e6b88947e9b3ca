package rpc

import (
	"reflect"
	"testing"

	"github.com/boardsmith/boardsmith/rpc/fault"
)

// Frames in an uploaded program are looked up in its ELF file; those that the image explains and those that nothing
// explains stay as they are.
func TestUploadedFramesAreLocatedInELF(t *testing.T) {
	var s Session
	s.uploaded = []codeRange{{base: 0x1000, size: 0x100, elf: []byte("elf")}}
	s.locate = func(elf []byte, pc uint64) []fault.Frame {
		return []fault.Frame{{PC: pc, Function: "inner", Inlined: true}, {PC: pc, Function: "outer"}}
	}
	loaded := func(pc uint64, guessed bool) []fault.Frame {
		return []fault.Frame{
			{PC: pc, Function: "inner", Inlined: true, Guessed: guessed}, {PC: pc, Function: "outer", Guessed: guessed},
		}
	}
	located, unknown := fault.Frame{PC: 0x1010, Function: "known"}, fault.Frame{PC: 0x9000}
	at := fault.Record{PC: 0x1004, PCValid: true}
	for name, c := range map[string]struct {
		record       fault.Record
		frames, want []fault.Frame
	}{
		"all kinds": {
			at,
			[]fault.Frame{{PC: 0x1004}, located, unknown, {PC: 0x10ff, Guessed: true}},
			append(append(loaded(0x1004, false), located, unknown), loaded(0x10ff, true)...),
		},
		"no chain":              {at, nil, loaded(0x1004, false)},
		"beyond the program":    {fault.Record{PC: 0x1100, PCValid: true}, nil, nil},
		"called from the image": {at, []fault.Frame{located}, append(loaded(0x1004, false), located)},
		"no address":            {fault.Record{PC: 0x1004}, []fault.Frame{unknown}, []fault.Frame{unknown}},
		"a process, whose frames have the file's addresses": {
			fault.Record{PC: 0x1004, PCValid: true, Arch: fault.ArchProcess, Status: 0x800},
			[]fault.Frame{{PC: 0x4}, {PC: 0x820}},
			append(loaded(0x1004, false), loaded(0x1020, false)...),
		},
	} {
		e := &fault.Error{Record: &c.record, Explanation: fault.Explanation{Frames: c.frames}}
		if s.locateUploaded(e); !reflect.DeepEqual(e.Frames, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, e.Frames, c.want)
		}
	}
}
