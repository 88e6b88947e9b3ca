// This file computes how much of the arena and of the packet buffer a model needs while our host runs it.
//
// It repeats the steps of packages executor and rpc on the host and of crt/ on the device, with a copy of the device's
// allocator. The result is exact to the page. A test compares the table of struct sizes with the compilers.

package fit

import (
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/modelgraph"
	"github.com/boardsmith/boardsmith/internal/operatormemory"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// runtimeSizes are sizes and alignments of the runtime's structs, in bytes.
type runtimeSizes struct {
	Server    int64 // rpc_server_t before its buffer
	Block     int64 // block_t
	BlockAt   int64 // its alignment
	Array     int64 // TVMNDArray
	Executor  int64 // TVMAotExecutor
	ByteArray int64 // TVMByteArray
	Manager   int64 // the page allocator's manager_t, and its alignment once more
	Share     int64 // SHARE in request.c
}

// sizesOf has these sizes by the class of the board's ELF files.
var sizesOf = map[int]runtimeSizes{
	32: {Server: 64, Block: 16, BlockAt: 4, Array: 48, Executor: 40, ByteArray: 8, Manager: 32, Share: 4},
	64: {Server: 96, Block: 32, BlockAt: 8, Array: 56, Executor: 64, ByteArray: 16, Manager: 64, Share: 1},
}

// unusedValues is the number of bytes that follow a call's last argument: UNUSED_VALUES in server.h.
const unusedValues = 64

const (
	maxPages     = 32767
	largeArena   = 1 << 20 // bytes; from this size on, templates/baremetal's platform.c uses large pages
	smallPageLog = 8
	largePageLog = 12
)

// pageLog returns the logarithm to base 2 of the size of an arena's pages.
func pageLog(arena int64, fixed int64) uint {
	log := uint(smallPageLog)
	if arena >= largeArena {
		log = largePageLog
	}

	for (arena-fixed)>>log > maxPages {
		log++
	}
	return log
}

// A pageArena allocates pages as crt/src/runtime/page_allocator.c does: in the first gap that is large enough. Its size
// is unlimited.
type pageArena struct {
	log  uint
	used []pageRun // sorted
	high int64     // highest number of pages used so far
}

type pageRun struct{ at, pages int64 }

// take allocates pages and returns the argument for give.
func (a *pageArena) take(bytes int64) int64 {
	want := (max(bytes, 1)-1)>>a.log + 1

	at, i := int64(0), 0
	for ; i < len(a.used) && a.used[i].at-at < want; i++ {
		at = a.used[i].at + a.used[i].pages
	}

	a.used = slices.Insert(a.used, i, pageRun{at, want})
	a.high = max(a.high, at+want)
	return at
}

func (a *pageArena) give(at int64) {
	a.used = slices.DeleteFunc(a.used, func(r pageRun) bool { return r.at == at })
}

// A modelDevice counts the memory of a device that runs a model.
type modelDevice struct {
	sizes  runtimeSizes
	packet int64 // bytes of its packet buffer
	arena  pageArena
	place  boards.Place // parts that it names do not lie in the arena

	longest     int64 // bytes of the longest message that the device must buffer as a whole
	longestCall string

	steps map[string][]int64 // what functions allocate while they run, as of operatormemory.Workspace
}

func newModelDevice(sizes runtimeSizes, packet int64, log uint, place boards.Place) *modelDevice {
	d := &modelDevice{sizes: sizes, packet: packet, arena: pageArena{log: log}, place: place}
	// The packet buffer is the first allocation, unless it has a place of its own.
	if place.Packet == "" {
		d.arena.take(d.sizes.Server + buffered(packet) + unusedValues)
	}
	return d
}

// roundUp returns the next multiple of 8, to which the runtime aligns what it stores.
func roundUp(bytes int64) int64 { return (bytes + 7) / 8 * 8 }

// buffered returns the bytes that a message takes in the packet buffer of server.h, with 5 before it that align it.
func buffered(message int64) int64 { return roundUp(message + 5) }

// The bytes that arguments of a call take in a message.
const wordArgument, nullArgument = 8, 0

func textArgument(s string) int64 { return 8 + int64(len(s)) }

func tensorArgument(rank int) int64 { return 32 + 8*int64(rank) }

const (
	messageHead = 3 + 8 + 4 // session, length, code
	handleBytes = 8
)

// request counts one message to the device. run is called while the message's arguments are decoded. Decoded arguments
// that do not fit behind the message in the packet buffer take memory of the arena.
func (d *modelDevice) request(step string, handle int64, args []int64, run func()) {
	length := messageHead + handle + 4
	for _, bytes := range args {
		length += 4 + bytes
	}

	if length > d.longest {
		d.longest, d.longestCall = length, step
	}

	room := buffered(d.packet) - buffered(length)
	// The same computation as in arguments_decode.
	count := int64(len(args))
	values := length - messageHead - handle - 4 - 4*count
	need := roundUp(values + 8*count + values/d.sizes.Share)

	if need <= room {
		run()
		return
	}

	block := d.arena.take(need + unusedValues)
	run()
	d.arena.give(block)
}

func nothing() {}

// find looks up a function of a module.
func (d *modelDevice) find(name string) {
	d.request("looking up "+name, handleBytes, []int64{wordArgument, textArgument(name), wordArgument}, nothing)
}

// block counts the memory of boardsmith_block_take.
func (d *modelDevice) block(bytes, extra int64) {
	at := (bytes + extra + d.sizes.BlockAt) &^ (d.sizes.BlockAt - 1)
	d.arena.take(at + d.sizes.Block)
}

// empty counts the memory of AllocDataWithScope.
func (d *modelDevice) empty(subject string, rank int, bytes int64) {
	d.request("memory for "+subject, 0, []int64{tensorArgument(rank), nullArgument}, func() { d.block(bytes, 0) })
}

// call calls a function of the model, then times it.
func (d *modelDevice) call(name string, args []int64) {
	d.request("the call of "+name, handleBytes, args, func() { d.run(name) })
	evaluator := []int64{wordArgument, textArgument(name)} // rpc.Module.Time: module, function, numbers, text
	evaluator = append(evaluator, slices.Repeat([]int64{wordArgument}, 9)...)
	d.request("timing "+name, handleBytes, append(evaluator, textArgument("")), nothing)

	d.request("the timed call of "+name, handleBytes, args, func() {
		const samples = 1 // callers with more samples reserve memory for them
		result := d.arena.take(d.sizes.ByteArray + 8*samples)
		d.run(name) // before it measures
		d.run(name)
		d.arena.give(result)
	})
}

// run counts the memory that a function of the model allocates while it runs, and what of it stays allocated.
func (d *modelDevice) run(name string) {
	var pieces []int64

	for _, bytes := range d.steps[name] {
		if last := len(pieces) - 1; bytes == operatormemory.Free {
			d.arena.give(pieces[last])
			pieces = pieces[:last]
			continue
		}
		pieces = append(pieces, d.arena.take(bytes))
	}
}

// runModel runs and times the model once, as package executor does.
func (d *modelDevice) runModel(m *mlf.Model) error {
	switch m.Executor {
	case mlf.Graph:
		return d.runGraph(m)
	case mlf.AOT:
		d.runAOT(m)
	default:
		d.runOperator(m)
	}
	return nil
}

func (d *modelDevice) runOperator(m *mlf.Model) {
	d.find(m.Entry)
	var args []int64
	for _, a := range m.Arguments {
		d.empty(a.Name, len(a.Shape), a.Bytes)
		args = append(args, tensorArgument(len(a.Shape)))
	}

	d.call(m.Entry, args)
}

func (d *modelDevice) runGraph(m *mlf.Model) error {
	g, err := modelgraph.Parse(m.Graph)
	if err != nil {
		return err
	}
	sizes, allocated := map[int]int64{}, map[int]bool{}
	for e, id := range g.Storage {
		sizes[id] = max(sizes[id], g.Bytes(e), 1)
	}

	// Parameters that the archive lacks are linked into the firmware.
	for _, n := range g.Args {
		isInput := slices.ContainsFunc(m.Inputs, func(t mlf.Tensor) bool { return t.Name == g.Nodes[n].Name })
		allocated[g.Storage[g.Rows[n]]] = !isInput && m.Params == nil && m.Has("_lookup_linked_param")
	}
	for _, id := range g.Storage {
		if !allocated[id] {
			allocated[id] = true
			d.empty(fmt.Sprintf("storage %d", id), 1, sizes[id])
		}
	}

	for n, node := range g.Nodes {
		if node.Func == "" || node.IsNop() {
			continue
		}
		d.find(node.Func)
		var args []int64
		from, to := g.Entries(n)
		rank := func(e int) int {
			// With flatten_data, a function gets each tensor with one dimension.
			if node.Flatten {
				return 1
			}
			return len(g.Shapes[e])
		}

		for _, e := range node.Inputs {
			args = append(args, tensorArgument(rank(e)))
		}
		for e := from; e < to; e++ {
			args = append(args, tensorArgument(rank(e)))
		}

		d.call(node.Func, args)
	}
	return nil
}

func (d *modelDevice) runAOT(m *mlf.Model) {
	tensors := slices.Concat(m.Inputs, m.Outputs)
	pools := len(m.Pools)
	switch {
	case m.ABI == mlf.ABIUnpacked:
		pools = 0 // the adapter has them
	case len(m.Objects) > 0 && m.Workspace > 0:
		pools = 1 // TVM's workspace; the code of an object file is not read
	}

	n := int64(len(tensors) + pools)
	const valueBytes, typeBytes = 8, 4 // TVMValue, int
	d.request("creating the executor", handleBytes, []int64{wordArgument, wordArgument, textArgument(m.Name)},
		func() {
			d.block(n*d.sizes.Array, d.sizes.Executor+n*(valueBytes+typeBytes))
			for _, t := range tensors {
				d.array(t)
			}
			for _, p := range m.ExecutorPools() {
				d.data(p.Bytes, 1)
			}
		})

	for _, name := range []string{"get_input_name", "get_num_outputs", "run"} {
		d.find(name)
	}

	// The pools stay allocated after the first run.
	for _, bytes := range d.adapterPools(m) {
		d.arena.take(bytes)
	}

	// The executor's function run calls the model's, whose allocations count.
	d.steps["run"] = d.steps[m.RunFunction()]
	d.call("run", nil)
}

// array counts the memory of boardsmith_array_make: the data, then the aligned shape.
func (d *modelDevice) array(t mlf.Tensor) {
	rank := int64(len(t.Shape))
	if t.Shape == nil {
		rank = 4 // the archive has no shape
		if m, err := ndarray.Bytes(t.DType, nil); err == nil && t.Bytes == int64(m) {
			rank = 0
		}
	}

	d.data(t.Bytes, rank)
}

// data counts the memory of a tensor's data, aligned, and of its shape.
func (d *modelDevice) data(bytes, rank int64) { d.block(bytes, roundUp(bytes)-bytes+8*rank) }

// adapterPools returns the sizes of the pools that our adapter of the C interface allocates at the first run, with
// space to align them.
func (d *modelDevice) adapterPools(m *mlf.Model) (pools []int64) {
	if m.ABI != mlf.ABIUnpacked || m.Header == nil {
		return nil
	}

	for _, p := range m.Header.Pools {
		if p.Data == "" && p.Bytes > 0 && d.place.Pools[p.Name] == "" {
			pools = append(pools, p.Bytes+15)
		}
	}
	return pools
}

// An ArenaNeed is the memory of the arena and of the packet buffer that a model needs to run.
type ArenaNeed struct {
	Bytes  int64  // the smallest arena
	KiB    int    // the same in KiB, for the option arena_kib
	Packet int64  // bytes of the longest message
	Call   string // the purpose of that message

	workspace *operatormemory.Workspace

	pages map[uint]int64 // by the logarithm of their size
	fixed int64          // bytes in addition to the pages
}

// Unsure returns reasons why the model may need more than Bytes.
func (n ArenaNeed) Unsure() (reasons []string) { return n.workspace.Unsure() }

// IsComputable reports whether needs can be computed for the board.
func IsComputable(b *boards.Board) bool { _, ok := sizesOf[b.ELF.Class]; return ok }

// NeedOf computes what the model needs on a board with a packet buffer of this size. It follows the host's executors,
// which also time each function.
func NeedOf(b *boards.Board, a *mlf.Archive, m *mlf.Model, packet int) (ArenaNeed, error) {
	return needOf(b.ELF.Class, b.Place, a, m, int64(packet))
}

// pageLogs are the logarithms of all page sizes: two of templates/baremetal, and those that PageMemoryManagerCreate
// derives from the second for arenas of up to 1 GiB.
var pageLogs = []uint{smallPageLog, largePageLog, largePageLog + 1, largePageLog + 2, largePageLog + 3}

func needOf(class int, place boards.Place, a *mlf.Archive, m *mlf.Model, packet int64) (ArenaNeed, error) {
	sizes, ok := sizesOf[class]
	if !ok {
		return ArenaNeed{}, failure.Errorf(failure.Internal, "no sizes of a runtime of %d bits", class)
	}

	n := ArenaNeed{pages: map[uint]int64{}, fixed: sizes.Manager}
	n.workspace = operatormemory.Of(a, m)

	// The size of pages follows from the size of the arena, which is not known yet.
	for _, log := range pageLogs {
		d := newModelDevice(sizes, packet, log, place)
		d.steps = n.workspace.Steps
		if err := d.runModel(m); err != nil {
			return ArenaNeed{}, err
		}

		n.pages[log] = d.arena.high
		n.Packet, n.Call = d.longest, d.longestCall
	}

	// The smallest pages that an arena of the resulting size has.
	for _, log := range pageLogs {
		n.Bytes = n.bytes(log)
		// Smaller arenas have small pages.
		if log > smallPageLog {
			n.Bytes = max(n.Bytes, largeArena)
		}

		n.KiB = int((n.Bytes + 1023) / 1024)
		// A larger arena would have larger pages, so these do not count.
		if pageLog(int64(n.KiB)*1024, n.fixed) <= log {
			break
		}
	}

	return n, nil
}

// bytes returns the size of the smallest arena with pages of this size.
func (n ArenaNeed) bytes(log uint) int64 { return n.fixed + n.pages[log]*(1<<log+2) }

// Of returns the bytes that the model takes of an arena of this size, which has larger pages than a smaller arena.
func (n ArenaNeed) Of(arena int64) int64 {
	log := pageLog(arena, n.fixed)

	if _, ok := n.pages[log]; !ok {
		return n.Bytes // more than a GiB
	}
	return n.bytes(log)
}

// Holds reports whether the model runs in an arena of this size.
func (n ArenaNeed) Holds(arena int64) bool { return arena >= n.Of(arena) }
