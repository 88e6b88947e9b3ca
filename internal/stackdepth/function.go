// This file follows the registers' values through one function. The decoders for each kind of processor are in thumb.go
// and riscv.go.

package stackdepth

// A function is one function's use of the stack.
type function struct {
	name string
	addr uint64
	size uint64
	Owner
	frame    int64
	dynamic  bool     // the size of its frame depends on data
	calls    []uint64 // addresses of functions, or within functions
	tails    []uint64 // addresses that it jumps to instead of returning
	refs     []uint64 // addresses that it computes
	indirect bool     // it calls or jumps through a pointer whose value is unknown
	pointers bool     // it calls or jumps through a pointer
	// jumps of RISC-V through a pointer whose value is unknown: by a switch's table, or instead of returning
	jumps  int
	floats bool // it uses floating-point registers
	narrow bool // the machine has 32 bits

	flow flow
}

// A flow holds the registers' values at the targets of a function's jumps. The function is decoded repeatedly until
// nothing changes. Where two paths to one address disagree about a register, its value is unknown there.
type flow struct {
	states      map[uint64]registers // at the targets of jumps
	changed     bool
	table       bool // it jumps to unknown addresses
	unreachable bool // no path to the current instruction has been decoded so far
}

// registers holds the registers whose values are known constants.
type registers struct {
	value [32]int64
	valid [32]bool
}

func (r *registers) forgetAll() { r.valid = [32]bool{} }

// meet keeps the values that r and o agree on.
func (r *registers) meet(o registers) {
	for i := range r.valid {
		r.valid[i] = r.valid[i] && o.valid[i] && r.value[i] == o.value[i]
	}
}

// jump records a branch: within the function, or instead of a return.
func (f *function) jump(to uint64, current registers) {
	if to < f.addr || to >= f.addr+f.size {
		f.tails = append(f.tails, to)
		return
	}

	if f.flow.unreachable {
		return
	}

	state, ok := f.flow.states[to]
	if ok {
		current.meet(state)
	}
	// meet only removes values: equal sets of valid ones are equal states.
	if !ok || current.valid != state.valid {
		f.flow.changed = true
	}

	f.flow.states[to] = current
}

// enter merges the state at an address into the current one. falls is true if the preceding instruction continues
// there.
func (f *function) enter(pc uint64, current *registers, falls bool) {
	state, ok := f.flow.states[pc]
	switch {
	case ok && falls && !f.flow.unreachable:
		current.meet(state)
	case ok:
		*current, f.flow.unreachable = state, false
	case !falls:
		current.forgetAll()
		f.flow.unreachable = true
	}
}

const maxPasses = 50

// fixpoint decodes a function repeatedly until its flow no longer changes.
func (f *function) fixpoint(decode func(*function)) {
	blank := function{name: f.name, addr: f.addr, size: f.size, Owner: f.Owner, narrow: f.narrow}

	flow := flow{states: map[uint64]registers{}, changed: true}
	for n := 0; flow.changed; n++ {
		flow.changed, flow.unreachable = false, false
		flow.table = flow.table || n == maxPasses // then no value of a register is used

		*f = blank
		f.flow = flow
		decode(f)
		// repeat: the code before the switch was decoded without this fact
		f.flow.changed = f.flow.changed || f.flow.table && !flow.table
		if flow = f.flow; n > maxPasses {
			return
		}
	}
}

// A view gives a decoder access to the image.
type view interface {
	isData(addr uint64) bool                          // the address holds data within code
	constant(addr uint64, bytes int) (uint64, bool)   // a number in flash
	entryPoint(pointer uint64) (addr uint64, ok bool) // reports whether a function starts at the pointer's target
}
