// Package stackdepth computes the maximum depth of a firmware's stacks from the machine code of the linked image, for
// Thumb and RISC-V.
//
// It reads each function's frame and calls from its instructions; a test compares them with GCC's own report. Calls
// through pointers are resolved by caller, following the structure of the runtime and the template. Where the depth
// cannot be known (a frame whose size depends on data, recursion, a pointer in other code), the result is marked as
// unsure with the function and the reason. A result that is sure has resolved every call in the reached code.
//
// It reads neither archives nor the linker's maps: the caller passes what machine code does not show.
package stackdepth

import (
	"debug/elf"
	"maps"
	"slices"

	"github.com/boardsmith/boardsmith/internal/firmware"
)

// A Program describes what the machine code of an image does not show.
type Program struct {
	Spans     []Span           // in any order; other addresses belong to part Other
	Calls     Calls            // of the template
	Stacks    []firmware.Place // the thread's, then the handlers'
	Operators []string         // functions of the model's system library
	Adapters  []string         // functions through which the host calls the model's C interface
}

// A Span is a range of addresses with one owner.
type Span struct {
	firmware.Range
	Owner
}

// An Owner is the part that code or data belongs to.
type Owner struct {
	Part       Part
	Unmodified bool // as it was tested, so that the callees of its pointers are known
}

// A Part is a part of the firmware. It decides how calls through pointers are resolved.
type Part int

// The parts. Other includes the model.
const (
	Other    Part = iota
	Main          // main.c and the port
	Runtime       // without the two that follow
	RPC           // the server
	Executor      // of graphs, or of AOT models
	Libc          // with libm, libgcc and the startup code
)

// Calls describe what a template's machine code does not show: which functions run on which stack, and where calls
// through pointers lead. With the zero value, no stack is computed.
type Calls struct {
	Thread []string `json:"thread,omitempty"` // functions in which the thread's stack starts
	// Each of Handlers is a nest of handlers that may be on the handlers' stack at the same time, each interrupting the
	// previous one by its priority. In the worst case a fault interrupts the last one; only its frame must fit there.
	Handlers [][]string `json:"handlers,omitempty"`
	// functions that run with interrupts masked, so that only the last of a nest can be in them
	Uninterrupted []string `json:"uninterrupted,omitempty"`
	// callees through pointers in main.c and the platform's functions
	Port     Callees            `json:"port,omitzero"`
	Send     Callees            `json:"send,omitzero"`      // callees through pointers in the RPC server
	Pointers map[string]Callees `json:"pointers,omitempty"` // callees of other functions, by the caller's name
}

// Callees are functions, by name or as entries of tables of pointers in the image.
type Callees struct {
	Functions []string         `json:"functions,omitempty"`
	In        []firmware.Place `json:"in,omitempty"`
}

// A Use is the worst-case depth of the stacks.
type Use struct {
	Need int64 `json:"need"` // bytes of the thread's stack, with the frame of an interrupt
	Have int64 `json:"have"` // bytes there are
	// the functions of the deepest call chain, each with the bytes of its frame, main first
	Path        []string `json:"path"`
	Handlers    int64    `json:"handlers_need,omitzero"` // bytes of the handlers' stack, with nested handlers
	Room        int64    `json:"handlers_have,omitzero"` // bytes available for them; 0 if the image has no such stack
	HandlerPath []string `json:"-"`                      // their deepest call chains, the first handler first
	// why more may be needed: functions with the reason; empty if every call in the reached code is resolved
	Unsure []string `json:"unsure"`
}

// Of computes the depth of an image's stacks. It returns nil if the image has no stack of its own, or its machine code
// cannot be read.
func Of(image *elf.File, of Program) (*Use, error) {
	m, err := readCode(image, of.Spans)
	if m == nil || err != nil {
		return nil, err
	}

	u := &Use{}

	for i, bytes := range []*int64{&u.Have, &u.Room} {
		if i < len(of.Stacks) {
			r, _ := of.Stacks[i].Find(image)
			*bytes = int64(r.Size())
		}
	}

	entries := m.named(of.Calls.Thread...)
	if len(entries) == 0 || u.Have == 0 {
		return nil, nil
	}

	entries[0].frame = 0 // it sets SP to the stack's start instead of moving it

	a := newAnalysis(m, of)
	u.Need, u.Path = a.deepest(entries[0])

	// An interrupt may occur at the deepest place.
	u.Need += a.interruptFrame(m.functions)
	u.Handlers, u.HandlerPath = a.handlers()

	u.Unsure = slices.Sorted(maps.Keys(a.unsure))
	return u, nil
}
