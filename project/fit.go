// This file checks before flashing whether the firmware and its model fit the board: its memories, the arena, the
// stack and the packet buffer. It also measures how much of each memory an image takes.

package project

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/allocation"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/cmacro"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/generator"
	"github.com/boardsmith/boardsmith/internal/library"
	"github.com/boardsmith/boardsmith/internal/toolwords"
	"github.com/boardsmith/boardsmith/internal/workdir"
	"github.com/boardsmith/boardsmith/mlf"
)

// configured reads a number from the project's configuration, which a user may have changed, else from the options: 0
// there leaves the number to the build, which completes the board. 0 is not a number of the user's.
func (p *Project) configured(macro string, option func(boards.Options) int) int64 {
	data, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(blueprint.ConfigFile)))
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
	v, err := cmacro.Evaluator{}.Evaluate(strings.TrimSpace(string(m[1])))
	return int64(v.Number), err == nil && !v.Access && v.Number <= math.MaxUint32
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
	return allocation.Of(a, m).Unsure(allocation.DoubtObject)
}

// takesArena reports whether the firmware allocates from the arena that the board's options size.
func (p *Project) takesArena() bool {
	return slices.Contains(p.state.Template.Options, "arena_kib") && fit.IsComputable(p.Board())
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
	for _, doubt := range u.Unsure {
		p.builder.log().Debug("the stack may become deeper than computed", "because", doubt)
	}
	e := &FitError{Board: p.Board().Name, Part: "stack", Region: p.Board().Place.StackRegion()}
	switch {
	case u.Need > u.Have:
		const step = 256
		wanted := int((u.Need + step - 1) / step * step)
		e.Need, e.Have, e.Reason = u.Need, u.Have, "the deepest calls: "+strings.Join(u.Path, ", ")
		p.suggest(e, fmt.Sprintf("stack_bytes=%d", wanted), func(o *boards.Options) { o.StackBytes = wanted })
	case u.Handlers > u.Room:
		e.Part, e.Need, e.Have, e.Reason = fit.HandlersStack, u.Handlers, u.Room,
			"an interrupt's deepest calls: "+strings.Join(u.HandlerPath, ", ")
	default:
		return nil
	}
	e.Over = e.Need - e.Have
	return e
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
			p.builder.log().Warn("the model may need a larger arena than computed", "bytes", need.Bytes, "because", doubt)
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

// suggest sets the error's option, or options separated by a space, and in a project with edited files its lines, if
// the template uses each option and the board accepts the change.
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
	if edited, err := p.Edited(); err != nil || len(edited) == 0 {
		return // if they cannot be read, the next step reports it
	}
	before, err := p.Board().Settle(p.state.Options)
	if err != nil {
		return
	}
	for _, name := range p.state.Template.Generate {
		lines := func(o boards.Options) []string {
			return strings.Split(string(generator.ForBoard(name, &p.state.Template.Blueprint, p.Board(), o)), "\n")
		}
		old := lines(before)
		for _, line := range lines(settings) {
			if !slices.Contains(old, line) {
				e.Lines = append(e.Lines, name+": "+line)
			}
		}
	}
}

// optionsFit converts the error of options for which a region is too small to a *FitError, and returns other errors
// unchanged.
func optionsFit(b *boards.Board, o boards.Options, err error) error {
	var over interface {
		Overfull() (region string, need, have int64, parts string)
	}
	if !errors.As(err, &over) {
		return err
	}
	e := &FitError{Board: b.Name, Part: "memory", Err: err}
	e.Region, e.Need, e.Have, e.Reason = over.Overfull()
	e.Over = e.Need - e.Have
	arena, stack := int64(cmp.Or(o.ArenaKiB, b.ArenaKiB)), int64(cmp.Or(o.StackBytes, b.StackBytes))
	upload := max(int64(cmp.Or(o.UploadKiB, b.UploadKiB))*1024-e.Over, 0) / 1024
	for _, smaller := range []struct {
		name  string
		value int64
		of    *int
	}{
		{"arena_kib", (arena*1024 - e.Over) / 1024, &o.ArenaKiB},
		{"stack_bytes", stack - e.Over, &o.StackBytes},
		{"upload_kib", (int64(1) << bits.Len64(uint64(upload))) / 2, &o.UploadKiB}, // a power of two
	} {
		old := *smaller.of
		*smaller.of = int(smaller.value)
		if _, err := b.Settle(o); err == nil && smaller.value > 0 {
			e.Option = fmt.Sprintf("%s=%d", smaller.name, smaller.value)
			return e
		}
		*smaller.of = old
	}
	return e
}

// linkFits converts the linker's error that a region is too small to a *FitError, and returns other errors
// unchanged. dir is where the build ran.
func (p *Project) linkFits(err error, dir string, a *mlf.Archive, m *mlf.Model) error {
	var tool *ToolError
	if !errors.As(err, &tool) || tool.Class != failure.DoesNotFit {
		return err
	}
	e := &FitError{Board: p.Board().Name, Part: "memory", Err: err}
	e.Region, e.Over, e.Reason = toolwords.TooSmall(tool.Message + "\n" + string(tool.Tail))
	if e.Region == "" {
		return err
	}
	for _, r := range p.Board().Memory { // scripts of others write names in capitals, and call a RAM SRAM
		if strings.EqualFold(r.Name, e.Region) || strings.EqualFold("s"+r.Name, e.Region) {
			e.Region = r.Name
		}
	}
	e.Placed = p.Board().Place.PartsIn(e.Region)
	p.makeRoom(e, dir, a, m)
	return e
}

// makeRoom suggests an option that frees the missing bytes, if there is one.
func (p *Project) makeRoom(e *FitError, dir string, a *mlf.Archive, m *mlf.Model) {
	b := p.Board()
	// The build may not have found out about the board, because it refuses an arena that is larger than the RAM.
	isOfArena := len(b.Memory) == 0 && p.state.Options.ArenaKiB > 0 && strings.HasSuffix(strings.ToLower(e.Region), "ram")
	if isOfArena || e.Region == b.Place.ArenaRegion() {
		smaller := int((p.arenaBytes() - e.Over) / 1024)
		need, err := fit.NeedOf(b, a, m, int(p.packetBytes()))
		if smaller >= 1 && (isOfArena || err == nil && need.Holds(int64(smaller)*1024)) {
			p.suggest(e, fmt.Sprintf("arena_kib=%d", smaller), func(o *boards.Options) { o.ArenaKiB = smaller })
			return
		}
	}
	settled, err := b.Settle(p.state.Options)
	isOfCode := e.Region == b.Place.Code || e.Region == b.Place.Operators
	if err == nil && isOfCode && settled.OperatorOpt != "Os" && p.operatorCode(dir) > e.Over {
		p.suggest(e, "operator_opt=Os", func(o *boards.Options) { o.OperatorOpt = "Os" })
	}
}

// operatorCode returns the bytes of machine code in the objects of the model's C files. Optimising for size can save
// fewer, and none of parameters and objects in the archive.
func (p *Project) operatorCode(dir string) (bytes int64) {
	folder := filepath.Join(dir, p.state.Template.BuildFolder(), filepath.FromSlash(p.folders().OfModel()))
	_ = filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		f, failed := elf.Open(path)
		if err != nil || failed != nil {
			return nil // no object
		}
		defer f.Close()
		if !p.hasSource(dir, path) {
			return nil
		}
		for _, s := range f.Sections {
			if s.Flags&elf.SHF_EXECINSTR != 0 {
				bytes += int64(s.Size)
			}
		}
		return nil
	})
	return bytes
}

// A FitError reports a firmware or a model that does not fit the board.
type FitError = fit.Error

// A Usage is how much of a board's memory an image takes, by its parts and by the board's regions.
type (
	Usage     = fit.Usage
	PartUse   = fit.PartUse
	RegionUse = fit.RegionUse
	SymbolUse = fit.SymbolUse
)

// Usage reads the image and its map. Errors: class config if the build folder holds another image.
func (p *Project) Usage(i *image.Image) (*Usage, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	l, err := p.layout(i.Path, i.Map)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	u := l.Usage(p.memory())
	a, m, err := p.Model()
	if err != nil {
		return nil, err
	}
	u.Arena.Unsure = p.unsureWorkspace(a, m)
	libraries, err := p.unsureLibraries()
	if err != nil {
		return nil, err
	}
	if p.takesArena() {
		need, err := fit.NeedOf(p.Board(), a, m, int(p.packetBytes()))
		if err != nil {
			return nil, err
		}
		u.Arena.Need, u.Arena.Unsure = need.Bytes, need.Unsure()
	}
	u.Arena.Unsure = append(u.Arena.Unsure, libraries...)
	u.Stack, err = l.Stack(m)
	return u, err
}

// Symbols returns the functions and variables of an image with their sizes, by part and name. Errors: class config if
// the build folder holds another image.
func (p *Project) Symbols(i *image.Image) ([]SymbolUse, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	l, err := p.layout(i.Path, i.Map)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.Symbols()
}

// layout opens the image with its map.
func (p *Project) layout(image, mapFile string) (*fit.Layout, error) {
	of := fit.Sources{
		Dir: p.dir, Build: p.state.Template.BuildFolder(), Linked: p.state.Template.LinkedIn, Shipped: p.shippedSources(),
		Folders: p.folders(),
		Stacks:  p.state.Template.Landmarks.Stacks, Areas: p.state.Template.Areas, Calls: p.state.Template.Calls,
	}
	for name := range p.state.Files {
		if workdir.IsSource(name) {
			of.Names = append(of.Names, name)
		}
	}
	slices.Sort(of.Names)
	return fit.Open(image, mapFile, of)
}

// shippedSources returns the sources that equal, byte by byte, those of an embedded template.
func (p *Project) shippedSources() (names []string) {
	for name := range p.state.Files {
		if !workdir.IsSource(name) {
			continue
		}
		have, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(name)))
		if err == nil && blueprint.IsShipped(cachekey.Digest(have)) {
			names = append(names, name)
		}
	}
	return names
}

// memory returns the board's memory map.
func (p *Project) memory() (all []RegionUse) {
	for _, r := range p.Board().Memory {
		all = append(all, RegionUse{Name: r.Name, Origin: uint64(r.Origin), Size: int64(r.Size)})
	}
	return all
}
