// This file collects, from the map and the model, what the machine code of an image does not show of its stacks.

package fit

import (
	"strings"

	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/stackdepth"
	"github.com/boardsmith/boardsmith/mlf"
)

// Stack computes the depth of an image's stacks. It returns nil if the image has no stack of its own, or its machine
// code cannot be read.
func (l *Layout) Stack(m *mlf.Model) (*stackdepth.Use, error) {
	of := stackdepth.Program{Spans: l.spans(), Calls: l.of.Calls, Stacks: l.of.Stacks, Operators: m.Functions}
	// The runtime finds the adapter's functions by name and calls them through pointers, as it does operators.
	if m.Header != nil {
		of.Adapters = []string{m.Header.Adapter("run"), m.Header.Adapter("get_c_metadata")}
	}

	return stackdepth.Of(l.image, of)
}

// spans returns the owners of the pieces in memory.
func (l *Layout) spans() (spans []stackdepth.Span) {
	for _, s := range l.from.sections {
		// Debug sections have addresses from 0 on, but are not in memory.
		if strings.HasPrefix(s.name, ".debug") {
			continue
		}
		for i, piece := range s.pieces {
			r := firmware.Range{Start: piece.address, End: piece.address + s.taken(i)}
			spans = append(spans, stackdepth.Span{Range: r, Owner: l.ownerOf(&piece)})
		}
	}
	return spans
}

var stackParts = map[string]stackdepth.Part{
	partMain: stackdepth.Main, partRuntime: stackdepth.Runtime, partRPC: stackdepth.RPC,
	partExecutor: stackdepth.Executor, partLibc: stackdepth.Libc,
}

// ownerOf returns the owner of a piece's code and data.
func (l *Layout) ownerOf(piece *mapPiece) stackdepth.Owner {
	part := l.objectPart(piece)
	runtime := part == partRuntime || part == partExecutor || part == partRPC
	return stackdepth.Owner{Part: stackParts[part], Unmodified: runtime || l.shipped[l.object(piece)]}
}
