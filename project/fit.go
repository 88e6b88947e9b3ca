// This file checks before flashing whether the firmware and its model fit the board: its memories, the arena, the
// stack and the packet buffer.

package project

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/mlf"
)

// configured reads a number from the project's configuration, which a user may have changed, else from the options.
func (p *Project) configured(macro string, option func(boards.Options) int) int64 {
	data, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(configFile)))
	if err == nil {
		if m := regexp.MustCompile(`(?m)^#define ` + macro + `\s+\(?(\d{1,15})[uUlL]*\)?\s*$`).FindSubmatch(data); m != nil {
			n, _ := strconv.ParseInt(string(m[1]), 10, 64) // few enough digits not to overflow
			return n
		}
	}
	settled, err := p.Board().Settle(p.state.Options)
	if err != nil {
		settled = p.state.Options // Generate has settled them before
	}
	return int64(option(settled))
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
	if !p.takesArena() {
		return nil
	}
	need, err := fit.NeedOf(p.Board(), a, m, int(p.packetBytes()))
	if err != nil {
		return err
	}
	if err := p.checkPacket(need); err != nil {
		return err
	}
	return p.checkArena(need)
}

// takesArena reports whether the firmware allocates from the arena that the board's options size.
func (p *Project) takesArena() bool {
	return slices.Contains(p.state.Template.Options, "arena_kib") && fit.Knows(p.Board())
}

// checkStack returns an error if the firmware's machine code may need more stack than it has. It skips templates
// without that option.
func (p *Project) checkStack() error {
	if !slices.Contains(p.state.Template.Options, "stack_bytes") {
		return nil
	}
	l, err := p.layout(filepath.Join(p.dir, filepath.FromSlash(p.state.Template.ELF)),
		filepath.Join(p.dir, filepath.FromSlash(p.state.Template.Map)))
	if err != nil {
		return err
	}
	defer l.Close()
	_, m, err := p.Model()
	if err != nil {
		return err
	}
	u, err := l.Stack(m)
	if u == nil || err != nil {
		return err
	}
	for _, why := range u.Unsure {
		p.builder.log().Debug("the stack may become deeper than computed", "because", why)
	}
	e := &FitError{Board: p.Board().Name, What: "stack", Region: p.Board().Place.StackRegion()}
	switch {
	case u.Need > u.Have:
		const step = 256
		wanted := int((u.Need + step - 1) / step * step)
		e.Need, e.Have, e.Why = u.Need, u.Have, "the deepest calls: "+strings.Join(u.Path, ", ")
		if p.canHave(func(o *boards.Options) { o.StackBytes = wanted }) {
			e.Option = fmt.Sprintf("stack_bytes=%d", wanted)
		}
	case u.Handlers > u.Room:
		e.What, e.Need, e.Have, e.Why = fit.HandlersStack, u.Handlers, u.Room,
			"an interrupt's deepest calls: "+strings.Join(u.HandlerPath, ", ")
	default:
		return nil
	}
	e.Over = e.Need - e.Have
	return e
}

// checkPacket returns an error if a call of the model exceeds the packet buffer. Copies of tensors stream and may
// have any length.
func (p *Project) checkPacket(need fit.ArenaNeed) error {
	have := p.packetBytes()
	if need.Packet <= have {
		return nil
	}
	const step = 64
	return &FitError{
		Board: p.Board().Name, What: "packet buffer", Over: need.Packet - have, Need: need.Packet, Have: have,
		Why: need.Call, Option: fmt.Sprintf("packet_bytes=%d", (need.Packet+step-1)/step*step),
	}
}

func (p *Project) checkArena(need fit.ArenaNeed) error {
	have := p.arenaBytes()
	if need.Holds(have) {
		return nil
	}
	e := &FitError{
		Board: p.Board().Name, What: "arena", Region: p.Board().Place.ArenaRegion(), Over: max(need.Bytes-have, 1),
		Need: need.Bytes, Have: have,
		Why: "memory of the running model",
	}
	if !need.Sure {
		e.Why += ", estimated: not all of its code can be read"
	}
	if p.canHave(func(o *boards.Options) { o.ArenaKiB = need.KiB }) {
		e.Option = fmt.Sprintf("arena_kib=%d", need.KiB)
	}
	return e
}

// canHave reports whether the board accepts the project's options with a change.
func (p *Project) canHave(change func(*boards.Options)) bool {
	o := p.state.Options
	change(&o)
	_, err := p.Board().Settle(o)
	return err == nil
}

// shownOption is the option that makes operators smaller.
const shownOption = "operator_opt=Os"

// linkFits converts the linker's error that a region is too small to a *FitError, and returns other errors
// unchanged.
func (p *Project) linkFits(err error, a *mlf.Archive, m *mlf.Model) error {
	var tool *ToolError
	if !errors.As(err, &tool) || tool.Class != failure.DoesNotFit {
		return err
	}
	e := &FitError{Board: p.Board().Name, What: "memory", Err: err}
	e.Region, e.Over, e.Why = tooSmall(tool.Message + "\n" + string(tool.Tail))
	if e.Region == "" {
		return err
	}
	e.Option = p.makesRoom(e.Region, e.Over, a, m)
	return e
}

// makesRoom returns an option that frees that many bytes of a region, or "".
func (p *Project) makesRoom(region string, over int64, a *mlf.Archive, m *mlf.Model) string {
	b := p.Board()
	if region == b.Place.ArenaRegion() {
		smaller := (p.arenaBytes() - over) / 1024
		if need, err := fit.NeedOf(b, a, m, int(p.packetBytes())); err == nil && smaller >= 1 && need.Holds(smaller*1024) {
			return fmt.Sprintf("arena_kib=%d", smaller)
		}
	}
	settled, err := b.Settle(p.state.Options)
	if err == nil && region == b.Place.Code && len(m.Sources) > 0 && settled.OperatorOpt != "Os" {
		return shownOption
	}
	return ""
}

// A FitError reports a firmware or a model that does not fit the board.
type FitError = fit.Error
