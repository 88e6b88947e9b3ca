// This file tests RAM: that all of it is there, that no word of it is another one, and that none of it is the
// firmware's own.

package accept

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc"
)

// A block is a range of the device's memory.
type block struct {
	subject     string
	start, size uint64
}

func (b block) end() uint64 { return b.start + b.size }

func (b block) String() string {
	return fmt.Sprintf("%s 0x%08x to 0x%08x", b.subject, b.start, b.end()-1)
}

const (
	fillKey   = 0x5AA5C33C
	fillBytes = 256 << 10 // of one call, so that an error names a small range
	leastFree = 64        // bytes of a block that is worth a call
)

func (r *run) memory(ctx context.Context, found *Result) error {
	if err := r.bareSession(ctx); err != nil {
		return err
	}

	free, own, err := r.layout()
	if err != nil {
		return err
	}

	// Only allocated memory of the arena is free of the runtime's own data.
	arena, err := r.takeArena(ctx)
	if err != nil {
		return err
	}

	blocks := pieces(slices.Concat(arena, free))
	if r.Short {
		blocks = corners(slices.Concat(arena, free))
	}
	// The second key is the complement, so that each bit of each word is written as 0 and as 1.
	for _, key := range []int64{fillKey, ^fillKey & 0xFFFFFFFF} {
		if err := r.fill(ctx, blocks, own, key); err != nil {
			return err
		}
	}

	if err := r.answers(ctx); err != nil {
		return err
	}

	found.note("%d bytes free in the arena", total(arena))
	if len(free) > 0 {
		found.note("%d bytes in %d ranges outside of the firmware", total(free), len(free))
	}

	if n := total(blocks); r.Short && n < total(arena)+total(free) {
		found.note("%d bytes of them written", n)
	}
	return nil
}

// fill fills all blocks, and then reads all of them and the firmware's own RAM.
func (r *run) fill(ctx context.Context, blocks, own []block, key int64) error {
	for _, b := range blocks {
		if _, err := r.call(ctx, "accept_fill", int64(b.start), int64(b.size), key); err != nil {
			return fmt.Errorf("writing %v: %w", b, err)
		}
	}

	// All is written before anything is read: a word that is the same as another one has the other's value.
	for _, b := range blocks {
		n, err := r.call(ctx, "accept_filled", int64(b.start), int64(b.size), key)
		if err != nil {
			return fmt.Errorf("reading %v: %w", b, err)
		}
		if uint64(n) != b.size {
			return failure.Errorf(failure.WrongAnswer, "the word at 0x%08x, %s, has changed: it is not there, or is the "+
				"same as another one", b.start+uint64(n), b.subject)
		}
	}

	// A word of the firmware's own RAM is a stray one only if it stands for an address in this range.
	from, to := blocks[0].start, blocks[0].end()
	for _, b := range blocks {
		from, to = min(from, b.start), max(to, b.end())
	}

	for _, o := range own {
		at, err := r.call(ctx, "accept_strayed", int64(o.start), int64(o.size), key, int64(from), int64(to-from))
		if err != nil {
			return fmt.Errorf("reading %v: %w", o, err)
		}
		if at >= 0 {
			return failure.Errorf(failure.WrongAnswer, "what was written to 0x%08x is in %v: they are the same RAM", at, o)
		}
	}

	return nil
}

// takeArena allocates all device memory that is free, in the largest possible blocks.
func (r *run) takeArena(ctx context.Context) (blocks []block, err error) {
	const least = 256

	size := uint64(1) << bits.Len64(uint64(r.arenaKiB())*1024)
	for size >= least {
		t, err := r.session.Alloc(ctx, int(size), 8)
		// The device refused a block of this size, but half of it may be free.
		if refused := new(rpc.DeviceError); errors.As(err, &refused) {
			size /= 2
			continue
		}

		if err != nil {
			return nil, err
		}

		at, err := r.call(ctx, "accept_address", t)
		if err != nil {
			return nil, err
		}

		blocks = append(blocks, block{"the arena", uint64(at), size})
	}

	if len(blocks) == 0 {
		return nil, failure.Errorf(failure.DoesNotFit, "nothing of the arena is free")
	}
	return blocks, nil
}

// arenaKiB returns the size of the project's arena.
func (r *run) arenaKiB() int { return r.projects[0].Board().ArenaKiB }

// layout returns the RAM that the firmware does not use, and what it uses besides the arena. Neither is known of a
// board that only the build completes: an operating system may use the rest.
func (r *run) layout() (free, own []block, err error) {
	file, err := r.images[0].ELF()
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()

	stacks := r.images[0].Landmarks.Stacks
	if r.partial || len(stacks) == 0 {
		return nil, nil, nil
	}

	stack, ok := stacks[0].Find(file)
	if !ok {
		return nil, nil, nil
	}

	used := []block{}
	own = []block{{"the stack", stack.Start, stack.Size()}}
	for _, s := range file.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Size == 0 {
			continue
		}
		b := block{s.Name, s.Addr, s.Size}
		used = append(used, b)
		if s.Flags&elf.SHF_WRITE != 0 && !slices.Contains([]string{".stack", ".handler_stack", ".arena", ".upload"}, s.Name) {
			own = append(own, b)
		}
	}

	// Initial values lie at the physical address, from where they are copied.
	for _, l := range file.Progs {
		if l.Type == elf.PT_LOAD {
			used = append(used, block{"", l.Vaddr, l.Memsz}, block{"", l.Paddr, l.Filesz})
		}
	}

	for _, m := range r.board.Memory {
		if m.Nonvolatile || m.Reserved || m.Name == r.board.Place.Code || m.Name == r.board.Place.Operators {
			continue // code may be write-protected
		}
		free = append(free, gaps(block{"in region " + m.Name, uint64(m.Origin), uint64(m.Size)}, used)...)
	}

	return free, own, nil
}

// gaps returns what of whole is in none of the used blocks, in whole words.
func gaps(whole block, used []block) (free []block) {
	const word = 8
	used = slices.Clone(used)
	slices.SortFunc(used, func(a, b block) int { return cmp.Compare(a.start, b.start) })

	at := whole.start
	add := func(end uint64) {
		start := (at + word - 1) / word * word
		if end = end / word * word; end >= start+leastFree {
			free = append(free, block{whole.subject, start, end - start})
		}
	}

	for _, u := range used {
		if u.size == 0 || u.end() <= at || u.start >= whole.end() {
			continue
		}
		if u.start > at {
			add(u.start)
		}
		at = max(at, u.end())
	}

	if at < whole.end() {
		add(whole.end())
	}

	return free
}

// pieces cuts blocks into pieces of at most fillBytes.
func pieces(blocks []block) (list []block) {
	for _, b := range blocks {
		for ; b.size > 0; b.start, b.size = b.start+min(b.size, fillBytes), b.size-min(b.size, fillBytes) {
			list = append(list, block{b.subject, b.start, min(b.size, fillBytes)})
		}
	}
	return list
}

// corners returns a small piece of each block at its start, at each power of two from there, and at its end: where
// memory that is missing, or that is there twice, shows.
func corners(blocks []block) (list []block) {
	const size = 256
	for _, b := range blocks {
		if b.size <= 4*size {
			list = append(list, b)
			continue
		}

		list = append(list, block{b.subject, b.start, size})
		for at := uint64(size); at+2*size <= b.size; at *= 2 {
			list = append(list, block{b.subject, b.start + at, size})
		}
		list = append(list, block{b.subject, b.end() - size, size})
	}
	return list
}

func total(blocks []block) (n uint64) {
	for _, b := range blocks {
		n += b.size
	}
	return n
}
