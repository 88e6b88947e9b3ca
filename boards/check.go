// This file checks a merged board, and an object against what the board can run.

package boards

import (
	"fmt"
	"math/bits"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// linkKinds are the links there are; transport has one implementation for each.
var linkKinds = []string{"process"}

var (
	functionRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
	symbolRE   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// check reports the first thing about the merged board that cannot be right, at the file and line that said it.
func (b *Board) check() error {
	if len(b.Templates) == 0 {
		return b.wrong("templates", "names no template")
	}
	if !slices.Contains(linkKinds, b.Link.Kind) {
		return b.wrong("link.kind", "%q is not a link%s", b.Link.Kind, didYouMean(b.Link.Kind, linkKinds))
	}
	if b.Flash.Runner == "" {
		return b.wrong("flash.runner", `names no runner ("none" where nothing is written)`)
	}
	if b.Toolchain.CC == "" {
		return b.wrong("toolchain.cc", "names no compiler")
	}
	if b.Toolchain.AR == "" {
		return b.wrong("toolchain.ar", "names no archiver")
	}
	for _, s := range b.Sources {
		if err := goodSource(s.Name); err != nil {
			return b.wrong("sources", "%v", err)
		}
	}
	for _, f := range b.Functions {
		if !functionRE.MatchString(f.Name) || !symbolRE.MatchString(f.Symbol) {
			return b.wrong("functions", "name %q or symbol %q: a name has letters, digits, dots and underscores, a symbol is a C identifier", f.Name, f.Symbol)
		}
	}
	for _, o := range b.Options() {
		if err := o.check(o.Default); err != nil {
			return b.wrong(o.Name, "%v", err)
		}
	}
	if err := b.checkMemory(); err != nil {
		return err
	}
	b.ELF = b.ELF.resolve()
	return nil
}

// checkMemory reports regions that are empty, wrap or overlap, and an arena that no writable region can hold.
func (b *Board) checkMemory() error {
	ram := uint64(0)
	for i, r := range b.Memory {
		end, carry := bits.Add64(uint64(r.Origin), uint64(r.Size), 0)
		if r.Name == "" || r.Size == 0 || (carry != 0 && end != 0) {
			return b.wrong("memory", "region %q is empty, nameless or wraps around", r.Name)
		}
		for _, q := range b.Memory[:i] {
			if r.Origin-q.Origin < q.Size || q.Origin-r.Origin < r.Size {
				return b.wrong("memory", "regions %q and %q overlap", q.Name, r.Name)
			}
		}
		if !r.Nonvolatile {
			ram = max(ram, uint64(r.Size))
		}
	}
	if need := uint64(b.ArenaKiB) * 1024; len(b.Memory) > 0 && need > ram {
		return b.wrong("arena_kib", "an arena of %d KiB does not fit: the largest RAM region has %d KiB", b.ArenaKiB, ram/1024)
	}
	return nil
}

func (b *Board) wrong(field, format string, args ...any) error {
	at, ok := b.Origin[field]
	if !ok {
		at = Origin{File: b.Files[len(b.Files)-1]}
	}
	return &FileError{at.File, at.Line, fmt.Errorf(field+": "+format, args...)}
}

// goodSource keeps a source inside its folder, and its name fit for a Makefile.
func goodSource(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if !nameRE.MatchString(part) {
			return fmt.Errorf("%q is not a relative path of plain names", name)
		}
	}
	return nil
}

// machines are the ELF machines of the systems Go runs on.
var machines = map[string]ELF{
	"386":     {Machine: "386", Class: 32, Endian: "little"},
	"amd64":   {Machine: "x86-64", Class: 64, Endian: "little"},
	"arm":     {Machine: "arm", Class: 32, Endian: "little"},
	"arm64":   {Machine: "aarch64", Class: 64, Endian: "little"},
	"loong64": {Machine: "loongarch", Class: 64, Endian: "little"},
	"ppc64le": {Machine: "ppc64", Class: 64, Endian: "little"},
	"riscv64": {Machine: "riscv", Class: 64, Endian: "little"},
	"s390x":   {Machine: "s390", Class: 64, Endian: "big"},
}

// resolve replaces "native" by the machine this program runs on.
func (e ELF) resolve() ELF {
	if e.Machine != "native" {
		return e
	}
	return machines[runtime.GOARCH] // an unlisted one accepts any object
}

func (e ELF) String() string {
	var parts []string
	if e.Machine != "" {
		parts = append(parts, e.Machine)
	}
	if e.Class != 0 {
		parts = append(parts, fmt.Sprintf("%d-bit", e.Class))
	}
	if e.Endian != "" {
		parts = append(parts, e.Endian+"-endian")
	}
	if e.FloatABI != "" {
		parts = append(parts, e.FloatABI+"-float")
	}
	return strings.Join(parts, " ")
}

// Accepts reports whether an object that is what have says can be linked for the board e belongs to. A field that
// either side leaves empty does not decide.
func (e ELF) Accepts(have ELF) bool {
	return agree(e.Machine, have.Machine) && agree(e.Endian, have.Endian) && agree(e.FloatABI, have.FloatABI) &&
		(e.Class == 0 || have.Class == 0 || e.Class == have.Class)
}

func agree(a, b string) bool { return a == "" || b == "" || a == b }
