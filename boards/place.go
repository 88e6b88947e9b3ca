// This file assigns the parts of a firmware to the memory regions of a board, as the board file and then a project's
// option place say.

package boards

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// A Place names the memory region of each part of the firmware.
type Place struct {
	Code   string `json:"code,omitzero"`   // vectors, code, constants, and initial values of variables
	Data   string `json:"data,omitzero"`   // variables
	Stack  string `json:"stack,omitzero"`  // "" means where data is, as in the next two
	Arena  string `json:"arena,omitzero"`  // memory for tensors and the runtime
	Noinit string `json:"noinit,omitzero"` // memory that outlasts a reset: the fault record
	Upload string `json:"upload,omitzero"` // code that the host uploads

	Operators  string `json:"operators,omitzero"`  // code of the model; "" means where code is
	Parameters string `json:"parameters,omitzero"` // constants of the model; "" means where code is
	Packet     string `json:"packet,omitzero"`     // the RPC server with its packet buffer; "" means in the arena
	// named pools of the model, by name; others lie in the arena, and pools of constants with the parameters
	Pools map[string]string `json:"pools,omitzero" keys:"identifier"`
}

// StackRegion returns the region of the stack, or "" on a board without a memory map.
func (p Place) StackRegion() string { return cmp.Or(p.Stack, p.Data) }

// ArenaRegion returns the region of the arena.
func (p Place) ArenaRegion() string { return cmp.Or(p.Arena, p.Data) }

// NoinitRegion returns the region of memory that outlasts a reset.
func (p Place) NoinitRegion() string { return cmp.Or(p.Noinit, p.Data) }

// UploadRegion returns the region of code that the host uploads.
func (p Place) UploadRegion() string { return cmp.Or(p.Upload, p.Data) }

// OperatorsRegion returns the region of the model's code.
func (p Place) OperatorsRegion() string { return cmp.Or(p.Operators, p.Code) }

// ParametersRegion returns the region of the model's constants.
func (p Place) ParametersRegion() string { return cmp.Or(p.Parameters, p.Code) }

// PoolNames returns the names of the placed pools, sorted.
func (p Place) PoolNames() []string { return slices.Sorted(maps.Keys(p.Pools)) }

// Loads reports whether a region other than that of the code holds a part of the model that has contents.
func (p Place) Loads(region string) bool {
	isPool := slices.Contains(slices.Collect(maps.Values(p.Pools)), region)
	return region != p.Code && (region == p.Operators || region == p.Parameters || isPool)
}

// Moves reports whether a part has a region that most firmware does not place by itself.
func (p Place) Moves() bool { return len(p.moved()) > 0 }

// PartsIn returns the parts that have this region only because it is named, as the option place names them.
func (p Place) PartsIn(region string) (parts []string) {
	for _, m := range p.moved() {
		if m.region == region {
			parts = append(parts, m.part)
		}
	}
	return parts
}

// Variables lists the regions of parts that are written to.
func (p Place) Variables() []string {
	all := []string{p.Data, p.StackRegion(), p.ArenaRegion(), p.NoinitRegion()}
	if p.Packet != "" {
		all = append(all, p.Packet)
	}
	return all
}

type placed struct{ part, region string }

// parts lists the region of each part that every firmware has, the code first.
func (p Place) parts() []placed {
	return []placed{
		{"code", p.Code},
		{"data", p.Data},
		{"stack", p.StackRegion()},
		{"arena", p.ArenaRegion()},
		{"noinit", p.NoinitRegion()},
		{"upload", p.UploadRegion()},
	}
}

// moved lists the parts that have a region only if one is named.
func (p Place) moved() (all []placed) {
	for _, m := range []placed{{"operators", p.Operators}, {"parameters", p.Parameters}, {"packet", p.Packet}} {
		if m.region != "" {
			all = append(all, m)
		}
	}
	for _, name := range p.PoolNames() {
		all = append(all, placed{poolPrefix + name, p.Pools[name]})
	}
	return all
}

// ---- The option ------------------------------------------------------------------------------------------------

const poolPrefix = "pools."

// optionParts are the parts that a project may place; a pool is named behind poolPrefix.
var optionParts = []string{"arena", "operators", "packet", "parameters", "stack"}

// parsePlace parses PART=REGION,PART=REGION, the option place.
func parsePlace(text string) (Place, error) {
	var p Place
	fields := map[string]*string{
		"arena": &p.Arena, "operators": &p.Operators, "packet": &p.Packet, "parameters": &p.Parameters, "stack": &p.Stack,
	}

	for word := range strings.SplitSeq(text, ",") {
		part, region, ok := strings.Cut(word, "=")
		if !ok || region == "" {
			return p, fmt.Errorf("%q is not PART=REGION", word)
		}

		field := fields[part]
		if pool, isPool := strings.CutPrefix(part, poolPrefix); isPool {
			if jsonfile.CheckValue(pool, "identifier") != nil || p.Pools[pool] != "" {
				return p, fmt.Errorf("%q names no pool, or one for the second time", word)
			}
			if p.Pools == nil {
				p.Pools = map[string]string{}
			}
			p.Pools[pool] = region
			continue
		}

		if field == nil {
			return p, fmt.Errorf("%q is none of %s, %sNAME%s", part, strings.Join(optionParts, ", "), poolPrefix,
				jsonfile.DidYouMean(part, optionParts))
		}
		if *field != "" {
			return p, fmt.Errorf("%s is given twice", part)
		}
		*field = region
	}
	return p, nil
}

func checkPlaceOption(value string) error {
	_, err := parsePlace(value)
	return err
}

// standalonePlace returns an error for parts of the option that standalone firmware does not have.
func standalonePlace(o Options) error {
	if o.Place == "" {
		return nil
	}

	p, err := parsePlace(o.Place)
	if err == nil && (p.Arena != "" || p.Packet != "" || len(p.Pools) > 0) {
		err = errors.New("standalone firmware has neither arena nor packet buffer, and its pools are variables")
	}
	if err != nil {
		return wrongOption("option place: %v", err)
	}
	return nil
}

// PlacedPools returns the names of pools that the option Place names, sorted.
func (o Options) PlacedPools() []string {
	p, _ := parsePlace(o.Place) // Settle has checked what is not empty
	return p.PoolNames()
}

// PlacedOfModel returns the parts of the model that the option Place names: operators, parameters and pools, as the
// option names them. Code that is loaded into RAM has none of them.
func (o Options) PlacedOfModel() (parts []string) {
	p, _ := parsePlace(o.Place) // Settle has checked what is not empty
	for _, m := range p.moved() {
		if m.part != "packet" {
			parts = append(parts, m.part)
		}
	}
	return parts
}

// CheckLoadedPlace returns an error of class config if the option Place names parts of the model, which lie in the
// memory for uploaded code if they are loaded into RAM. Arena, stack and packet buffer are the firmware's.
func (o Options) CheckLoadedPlace() error {
	parts := o.PlacedOfModel()
	if len(parts) == 0 {
		return nil
	}
	return failure.New(failure.Config, "place only arena, packet and stack; place.upload of the board file names the "+
		"memory of what is loaded", "option place: code that is loaded into RAM lies in the memory for uploaded code, "+
		"with all its data: %s cannot be placed", strings.Join(parts, ", "))
}

// Placed returns the board with the parts where the option Place puts them. It checks no regions: Settle does.
func (b *Board) Placed(o Options) *Board {
	over, err := parsePlace(o.Place)
	if o.Place == "" || err != nil {
		return b
	}

	at := *b
	p := &at.Place
	p.Arena, p.Stack = cmp.Or(over.Arena, p.Arena), cmp.Or(over.Stack, p.Stack)
	p.Operators, p.Parameters = cmp.Or(over.Operators, p.Operators), cmp.Or(over.Parameters, p.Parameters)
	p.Packet = cmp.Or(over.Packet, p.Packet)

	// A copy: the board's own map does not change.
	if len(over.Pools) > 0 {
		pools := maps.Clone(p.Pools)
		if pools == nil {
			pools = map[string]string{}
		}
		maps.Copy(pools, over.Pools)
		p.Pools = pools
	}
	return &at
}

// ---- Checks ----------------------------------------------------------------------------------------------------

// checkPlace returns an error for a part without a region, for a region without what a part needs, and for an arena
// that does not fit.
func (b *Board) checkPlace() error {
	for _, p := range b.Place.parts() {
		if p.part == "upload" && b.UploadKiB == 0 {
			continue // a board with other memory than its chip file's need not have this region
		}
		if p.region == "" && len(b.Memory) > 0 {
			return b.wrong("place", "no region for %s", p.part)
		}
		if err := b.checkPart(p); p.region != "" && err != nil {
			return err
		}
	}

	for _, p := range b.Place.moved() {
		if err := b.checkPart(p); err != nil {
			return err
		}
	}

	if len(b.Memory) == 0 {
		return nil
	}
	if r, _ := b.Region(b.Place.Code); !r.Exec {
		return b.wrong("place.code", "code cannot run from region %q", r.Name)
	}

	for _, check := range []func() error{b.checkWritten, b.checkMoved, b.checkRules, b.checkUpload, b.checkArena} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkPart returns an error for a region that does not exist or is reserved.
func (b *Board) checkPart(p placed) error {
	names := make([]string, len(b.Memory))
	for i, r := range b.Memory {
		names[i] = r.Name
	}

	r, ok := b.Region(p.region)
	switch {
	case !ok:
		return b.wrong("place."+p.part, "there is no region %q%s", p.region, jsonfile.DidYouMean(p.region, names))
	case r.Reserved:
		return b.wrong("place."+p.part, "region %q is reserved", r.Name)
	}
	return nil
}

// checkWritten returns an error for variables in memory that cannot be written like RAM.
func (b *Board) checkWritten() error {
	written := b.Place.parts()[1:]
	if b.Place.Packet != "" {
		written = append(written, placed{"packet", b.Place.Packet})
	}

	for _, p := range written {
		if r, _ := b.Region(p.region); r.Nonvolatile {
			return b.wrong("place."+p.part, "region %q cannot be written to like RAM", r.Name)
		}
	}
	return nil
}

// Cached reports whether a data cache may hold the contents of a memory.
func (r Region) Cached() bool {
	if r.Cacheable != nil {
		return *r.Cacheable
	}
	return !r.DMA
}

// checkAccess returns an error for flash that is accessed like RAM, and for memory of another owner that would be
// changed.
func (r Region) checkAccess() error {
	switch {
	case r.Reserved && r.Init != "":
		return fmt.Errorf("region %q is reserved: init has no effect", r.Name)
	case r.Reserved && r.Programmer != "":
		return fmt.Errorf("region %q is reserved: programmer has no effect", r.Name)
	case r.Nonvolatile && !r.Cached():
		return fmt.Errorf("region %q: only RAM can be uncached or of DMA controllers", r.Name)
	}
	return nil
}

// checkProgrammer returns an error for a programmer that does not exist.
func (r Region) checkProgrammer() error {
	// All but NoProgrammer.
	names := Programmers()[1:]

	if r.Programmer != "" && !slices.Contains(names, r.Programmer) {
		return fmt.Errorf("region %q: programmer: %q is none of %s%s", r.Name, r.Programmer, strings.Join(names, ", "),
			jsonfile.DidYouMean(r.Programmer, names))
	}
	return nil
}

// checkRules returns an error for a region without a cache that code runs from or that the memory protection unit
// cannot separate from others, and for one that is used before its function was called.
func (b *Board) checkRules() error {
	// What the firmware uses before it calls init functions.
	early := []placed{{"code", b.Place.Code}, {"data", b.Place.Data}, {"stack", b.Place.StackRegion()}}
	early = append(early, placed{"noinit", b.Place.NoinitRegion()})

	for i, r := range b.Memory {
		at := fmt.Sprintf("memory[%d]", i)
		if r.Name == b.Place.Code && r.Verify != "" {
			return b.wrong(at, "region %q holds the code, which the programmer must read back", r.Name)
		}

		n := slices.IndexFunc(early, func(p placed) bool { return p.region == r.Name })
		switch {
		case r.Init != "" && n >= 0:
			return b.wrong(at, "region %q holds the %s, which are used before init is called: use chip_early", r.Name,
				early[n].part)
		case r.Cached():
		case r.Name == b.Place.Code || r.Name == b.Place.Operators:
			return b.wrong(at, "region %q holds code, and has no cache", r.Name)
		case b.UploadKiB > 0 && r.Name == b.Place.UploadRegion():
			return b.wrong(at, "region %q holds memory for uploaded code, and has no cache", r.Name)
		case !b.Separable(r):
			return b.wrong(at, "region %q without a cache: a region of the memory protection unit, a power of two without some "+
				"of its eighths, would cover parts of others", r.Name)
		}
	}
	return nil
}

// Separable reports whether one region of the board's memory protection unit can cover a memory and no part of others.
func (b *Board) Separable(r Region) bool { return len(b.CoveredWith(r)) == 0 }

// CoveredWith returns the other memories of which a region of the board's memory protection unit that covers r also
// covers parts. Those of ARMv8-M have any borders. Those of earlier cores are powers of two, of whose eighths each can
// be left out (ARMv7-M Architecture Reference Manual, DDI 0403E, B3.5).
func (b *Board) CoveredWith(r Region) (others []Region) {
	if strings.HasPrefix(b.ELF.Arch, "v8") {
		return nil
	}

	const least = 8 // logarithm of the smallest region with parts
	last := uint64(r.Origin) + uint64(r.Size) - 1
	// The smallest power of two with both ends, and those of its eighths that the memory touches.
	log := max(bits.Len64(uint64(r.Origin)^last), least)
	part := uint64(1) << (log - 3)
	start, end := uint64(r.Origin)&^(part-1), last|(part-1)

	for _, q := range b.Memory {
		if q.Name != r.Name && uint64(q.Origin) <= end && uint64(q.Origin)+uint64(q.Size) > start {
			others = append(others, q)
		}
	}
	return others
}

// HasRules reports whether memory has a function to call before its use, or is not cached.
func (b *Board) HasRules() bool {
	return slices.ContainsFunc(b.Memory, func(r Region) bool { return r.Init != "" || !r.Cached() })
}

// checkMoved returns an error for operators where code cannot run, and for contents in two memories besides that of
// the code that keep them without power: the firmware's checksum covers one.
func (b *Board) checkMoved() error {
	p := b.Place
	if r, ok := b.Region(p.Operators); ok && !r.Exec {
		return b.wrong("place.operators", "code cannot run from region %q", r.Name)
	}
	if p.Operators != "" && p.Operators != p.Code && b.UploadKiB > 0 && p.Operators == p.UploadRegion() {
		return b.wrong("place.operators", "region %q holds the memory for uploaded code, which is writable", p.Operators)
	}

	apart := ""
	for _, m := range p.moved() {
		r, _ := b.Region(m.region)
		switch {
		case !r.Nonvolatile || r.Name == p.Code:
		case apart != "" && apart != r.Name:
			return b.wrong("place."+m.part, "regions %q and %q hold parts of the image besides %q: only one may", apart, r.Name,
				p.Code)
		default:
			apart = r.Name
		}
	}

	if apart != "" && !b.PostLink.IsZero() {
		return b.wrong("post_link", "the command gets one memory of the image, and region %q is another one", apart)
	}
	return nil
}

// ExtraRegion returns the memory besides that of the code whose contents are part of the image; ok is false if there is
// none.
func (b *Board) ExtraRegion() (r Region, ok bool) {
	for _, m := range b.Place.moved() {
		if r, _ = b.Region(m.region); r.Nonvolatile && r.Name != b.Place.Code {
			return r, true
		}
	}
	return Region{}, false
}
