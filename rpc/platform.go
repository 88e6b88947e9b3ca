// This file decodes boardsmith.platform, a device's clocks and caches (boardsmith.md).

package rpc

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/tvmrpc"
)

// Platform items, by tag.
const (
	tagCoreHz     = 1
	tagTicksHz    = 2
	tagTicks      = 3
	tagFlags      = 4
	tagWaitStates = 5
	tagReset      = 6
	tagChipID     = 7
	tagCPUID      = 8
	tagEmulated   = 9
	tagLost       = 10
	tagCounted    = 11
	tagArenaUsed  = 12
)

// A Platform holds settings that a device read from its registers. A nil field is unknown.
type Platform struct {
	CoreHz     *uint32     `json:"core_hz,omitempty"`
	TicksHz    *uint32     `json:"ticks_hz,omitempty"` // Hz, of the timer that measures calls
	Ticks      *uint64     `json:"-"`                  // that timer's count at the answer; it runs while the device waits
	ICache     *bool       `json:"icache,omitempty"`
	DCache     *bool       `json:"dcache,omitempty"`
	Prefetch   *bool       `json:"prefetch,omitempty"` // of the flash
	FPU        *bool       `json:"fpu,omitempty"`
	WaitStates *uint8      `json:"wait_states,omitempty"` // of the flash
	Reset      *ResetCause `json:"reset,omitempty"`
	ChipID     hexBytes    `json:"chip_id,omitempty"`
	CPUID      *uint32     `json:"cpuid,omitempty"`
	Emulated   *bool       `json:"emulated,omitempty"`
	Lost       *uint32     `json:"lost_bytes,omitempty"` // received bytes that were dropped for lack of buffer
	ArenaUsed  *uint32     `json:"arena_used,omitempty"` // bytes of the smallest arena in which all its allocations fit
	// an emulated device's timer counts CountedTicks while CountedInstructions run; both are 0 of a chip
	CountedInstructions uint32 `json:"-"`
	CountedTicks        uint32 `json:"-"`
	Clock               Clock  `json:"clock,omitempty"` // that the timer's rate was compared with
}

// A Clock is what the rate of a device's timer was compared with. The zero value is nothing: times in seconds may be
// wrong by a constant factor.
type Clock string

// Clocks.
const (
	HostClock        Clock = "host"         // this computer's
	InstructionClock Clock = "instructions" // an emulator's, in which each instruction takes the same time
)

// String returns "host", "instructions" or "unverified".
func (c Clock) String() string {
	if c == "" {
		return "unverified"
	}
	return string(c)
}

// String returns, for example, "core 168 MHz, timer 168 MHz, instruction cache on, 5 wait states". It omits unknown
// items, and marks a timer whose rate was not verified.
func (p Platform) String() string {
	var all []string
	hertz := func(name string, hz *uint32) {
		if hz != nil {
			all = append(all, fmt.Sprintf("%s %g MHz", name, float64(*hz)/1e6))
		}
	}
	isOn := func(name string, on *bool) {
		switch {
		case on == nil:
		case *on:
			all = append(all, name+" on")
		default:
			all = append(all, name+" off")
		}
	}

	hertz("core", p.CoreHz)
	hertz("timer", p.TicksHz)
	// The mark is for the item added last.
	if p.TicksHz != nil && p.Clock == "" {
		all[len(all)-1] += " (unverified)"
	}

	isOn("instruction cache", p.ICache)
	isOn("data cache", p.DCache)
	isOn("prefetch", p.Prefetch)
	isOn("FPU", p.FPU)

	if p.WaitStates != nil {
		all = append(all, fmt.Sprintf("%d wait states", *p.WaitStates))
	}
	if p.Emulated != nil && *p.Emulated {
		all = append(all, "emulated")
	}
	return strings.Join(all, ", ")
}

// hexBytes are bytes that encode to hexadecimal in JSON.
type hexBytes []byte

// MarshalText implements encoding.TextMarshaler.
func (h hexBytes) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%x", []byte(h)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// A ResetCause is the set of causes of a device's last reset.
type ResetCause uint8

var resetCauses = []string{"power", "pin", "software", "watchdog", "fault", "other"}

func (r ResetCause) String() string {
	var set []string
	for i, name := range resetCauses {
		if r>>i&1 != 0 {
			set = append(set, name)
		}
	}
	if set == nil {
		return "unknown"
	}
	return strings.Join(set, ", ")
}

// MarshalText implements encoding.TextMarshaler.
func (r ResetCause) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *ResetCause) UnmarshalText(text []byte) error {
	*r = 0
	if string(text) == ResetCause(0).String() {
		return nil
	}

	for name := range strings.SplitSeq(string(text), ", ") {
		i := slices.Index(resetCauses, name)
		if i < 0 {
			return fmt.Errorf("no cause of a reset: %q", name)
		}
		*r |= 1 << i
	}
	return nil
}

// parsePlatform decodes the result of boardsmith.platform. It skips unknown items. Its errors are tvmrpc.Errorf's: for
// an item that occurs twice or has a wrong length.
func parsePlatform(b []byte) (Platform, error) {
	if len(b) == 0 || b[0] != 1 {
		return Platform{}, tvmrpc.Errorf("platform of %d bytes: unsupported version", len(b))
	}

	var p Platform
	var seen [256]bool
	for b = b[1:]; len(b) > 0; {
		if len(b) < 2 || len(b)-2 < int(b[1]) {
			return Platform{}, tvmrpc.Errorf("platform: truncated last item")
		}
		tag, value := b[0], b[2:2+int(b[1])]
		b = b[2+len(value):]

		if seen[tag] {
			return Platform{}, tvmrpc.Errorf("platform: item %d occurs twice", tag)
		}
		seen[tag] = true

		if err := p.set(tag, value); err != nil {
			return Platform{}, err
		}
	}
	return p, nil
}

// platformSizes maps items to their lengths in bytes; other items have any length.
var platformSizes = map[byte]int{
	tagCoreHz: 4, tagTicksHz: 4, tagTicks: 8, tagFlags: 1, tagWaitStates: 1, tagReset: 1, tagCPUID: 4, tagEmulated: 1,
	tagLost: 4, tagCounted: 8, tagArenaUsed: 4,
}

func (p *Platform) set(tag byte, v []byte) error {
	if n, ok := platformSizes[tag]; ok && len(v) != n {
		return tvmrpc.Errorf("platform: item %d has %d bytes, not %d", tag, len(v), n)
	}

	switch tag {
	case tagCoreHz:
		p.CoreHz = u32(v)
	case tagTicksHz:
		p.TicksHz = u32(v)
	case tagTicks:
		p.Ticks = new(binary.LittleEndian.Uint64(v))
	case tagFlags:
		p.ICache, p.DCache, p.Prefetch, p.FPU = new(v[0]&1 != 0), new(v[0]&2 != 0), new(v[0]&4 != 0), new(v[0]&8 != 0)
	case tagWaitStates:
		p.WaitStates = new(v[0])
	case tagReset:
		p.Reset = new(ResetCause(v[0]))
	case tagChipID:
		p.ChipID = append(hexBytes{}, v...)
	case tagCPUID:
		p.CPUID = u32(v)
	case tagEmulated:
		p.Emulated = new(v[0] != 0)
	case tagLost:
		p.Lost = u32(v)
	case tagArenaUsed:
		p.ArenaUsed = u32(v)
	case tagCounted:
		p.CountedInstructions, p.CountedTicks = binary.LittleEndian.Uint32(v), binary.LittleEndian.Uint32(v[4:])
	}
	return nil
}

func u32(v []byte) *uint32 { return new(binary.LittleEndian.Uint32(v)) }

const platformFunction = "boardsmith.platform"

// Platform fetches the device's clocks and caches. Errors: ErrNotFound from a device without
// boardsmith.platform; those of a request.
func (s *Session) Platform(ctx context.Context) (Platform, error) {
	if err := s.enter(ctx); err != nil {
		return Platform{}, err
	}
	defer s.leave()

	handle, err := s.lookup(ctx, platformFunction)
	if err != nil {
		return Platform{}, err
	}
	result, err := s.callScalar(ctx, handle)
	if err != nil {
		return Platform{}, fmt.Errorf("calling %s: %w", platformFunction, err)
	}

	b, ok := result.([]byte)
	if !ok {
		return Platform{}, s.breakUp(tvmrpc.Errorf("%s returned %T", platformFunction, result))
	}

	p, err := parsePlatform(b)
	// Not part of the device's answer: see SetClock.
	p.Clock = s.clock
	return p, err
}

// SetClock records what the rate of the device's timer was compared with. Call it before others use the session.
func (s *Session) SetClock(c Clock) { s.clock = c }

// Clock returns what SetClock recorded.
func (s *Session) Clock() Clock { return s.clock }
