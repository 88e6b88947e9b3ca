// This file compares what a model needs with what the firmware gives it: arena, packet buffer and stack.

package project

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/cmacro"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/library"
	"github.com/boardsmith/boardsmith/internal/operatormemory"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// configured reads a number from the project's configuration, which a user may have changed, else from the options: 0
// there leaves the number to the build, which completes the board. 0 is not a number of the user's.
func (p *Project) configured(macro string, option func(boards.Options) int) int64 {
	data, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(templatefile.ConfigFile)))
	if err == nil {
		if n, ok := defined(data, macro); ok && n > 0 {
			return n
		}
	}
	settled, err := p.Board().Settle(p.state.Options)
	if err != nil {
		settled = p.state.Options // Generate has settled them before
	}
	return int64(option(settled))
}

// defined returns the number that a header gives to a macro, without expanding others.
func defined(header []byte, macro string) (int64, bool) {
	m := regexp.MustCompile(`(?m)^[ \t]*#[ \t]*define[ \t]+` + macro + `\b(.*?)(?://.*|/\*.*)?$`).FindSubmatch(header)
	if m == nil {
		return 0, false
	}
	n, ok := cmacro.Number(string(m[1]))
	return n, ok && n <= math.MaxUint32
}

func (p *Project) arenaBytes() int64 {
	return p.configured("BOARDSMITH_ARENA_BYTES", func(o boards.Options) int { return o.ArenaKiB * 1024 })
}

func (p *Project) packetBytes() int64 {
	return p.configured("TVM_CRT_MAX_PACKET_SIZE_BYTES", func(o boards.Options) int { return o.PacketBytes })
}

// checkModelFits returns an error, before anything is compiled, if the packet buffer or the arena is too small for
// the model. It skips what the template does not configure.
func (p *Project) checkModelFits(a *mlf.Archive, m *mlf.Model) error {
	doubts, err := p.unsureLibraries()
	if err != nil {
		return err
	}
	for _, doubt := range doubts {
		p.builder.log().Warn("the model may need more memory than computed", "because", doubt)
	}
	if !p.takesArena() {
		for _, doubt := range p.unsureWorkspace(a, m) {
			p.builder.log().Warn("the model may need a larger workspace than computed", "because", doubt)
		}
		return nil
	}
	need, err := fit.NeedOf(p.Board(), a, m, int(p.packetBytes()))
	if err != nil {
		return err
	}
	if need.Packet > p.packetBytes() {
		return p.packetError(a, m, need)
	}
	return p.checkArena(need, 0)
}

// unsureLibraries returns reasons why the project's libraries may take memory that no archive lists.
func (p *Project) unsureLibraries() (doubts []string, err error) {
	for _, with := range p.state.Libraries {
		l, err := library.Read(filepath.Join(p.dir, generator.Libraries, with.Name), with.Name)
		if err != nil {
			return nil, err
		}
		doubt, err := l.Doubt()
		if err != nil {
			return nil, err
		}
		if doubt != "" {
			doubts = append(doubts, doubt)
		}
	}
	return doubts, nil
}

// unsureWorkspace returns reasons why the workspace of standalone firmware may be too small.
func (p *Project) unsureWorkspace(a *mlf.Archive, m *mlf.Model) []string {
	if p.state.Options.App != boards.Standalone {
		return nil
	}
	return operatormemory.Of(a, m).Objects
}

// takesArena reports whether the firmware allocates from the arena that the board's options size.
func (p *Project) takesArena() bool {
	return slices.Contains(p.state.Template.Options, "arena_kib") && fit.IsComputable(p.Board())
}

// packetError returns the error of a call that exceeds the packet buffer, or of the arena if that is too small with the
// larger buffer, which lies in it. Copies of tensors stream and may have any length.
func (p *Project) packetError(a *mlf.Archive, m *mlf.Model, need fit.ArenaNeed) error {
	have := p.packetBytes()
	const step = 64
	wanted := int((need.Packet + step - 1) / step * step)
	larger, err := fit.NeedOf(p.Board(), a, m, wanted)
	if err != nil {
		return err
	}
	if err := p.checkArena(larger, wanted); err != nil {
		return err
	}
	e := &FitError{
		Board: p.Board().Name, Part: "packet buffer", Over: need.Packet - have, Need: need.Packet, Have: have,
		Reason: need.Call,
	}
	p.suggest(e, fmt.Sprintf("packet_bytes=%d", wanted), func(o *boards.Options) { o.PacketBytes = wanted })
	return e
}

// checkArena returns an error if the arena is too small. packet is the packet buffer's size with which need was
// computed, in bytes; 0: the project's.
func (p *Project) checkArena(need fit.ArenaNeed, packet int) error {
	have := p.arenaBytes()
	if need.Holds(have) {
		for _, doubt := range need.Unsure() {
			p.builder.log().Warn("the model may need a larger arena than computed, which arena_kib sets", "bytes", need.Bytes,
				"because", doubt)
		}
		return nil
	}
	e := &FitError{
		Board: p.Board().Name, Part: "arena", Region: p.Board().Place.ArenaRegion(), Over: max(need.Bytes-have, 1),
		Need: need.Bytes, Have: have,
		Reason: "memory of the running model",
	}
	if unsure := need.Unsure(); len(unsure) > 0 {
		e.Reason += "; it may be more: " + strings.Join(unsure, "; ")
	}
	option := fmt.Sprintf("arena_kib=%d", need.KiB)
	if packet > 0 {
		e.Reason += fmt.Sprintf(", with a packet buffer of %d bytes for %s", packet, need.Call)
		option += fmt.Sprintf(" packet_bytes=%d", packet)
	}
	p.suggest(e, option, func(o *boards.Options) { o.ArenaKiB, o.PacketBytes = need.KiB, cmp.Or(packet, o.PacketBytes) })
	return e
}

// suggest sets the error's option, or options separated by a space, if the template uses each option and the board
// accepts the change; if a file that the option changes was edited, also the lines.
func (p *Project) suggest(e *FitError, option string, change func(*boards.Options)) {
	o := p.state.Options
	change(&o)
	settings, err := p.Board().Settle(o)
	if err != nil {
		return
	}
	for word := range strings.FieldsSeq(option) {
		if name, _, _ := strings.Cut(word, "="); !slices.Contains(p.state.Template.Options, name) {
			return
		}
	}
	e.Option = option
	edited, err := p.Edited()
	if err != nil {
		return // the next step reports it
	}
	before, err := p.Board().Settle(p.state.Options)
	if err != nil {
		return
	}
	var changes []string
	replaces := false
	for _, name := range p.state.Template.Generate {
		lines := func(o boards.Options) []string {
			return strings.Split(string(generator.ForBoard(name, &p.state.Template.Description, p.Board(), o)), "\n")
		}
		old := lines(before)
		for _, line := range lines(settings) {
			if !slices.Contains(old, line) {
				changes = append(changes, name+": "+line)
				replaces = replaces || slices.Contains(edited, name)
			}
		}
	}
	if replaces {
		e.Lines = changes
	}
}
