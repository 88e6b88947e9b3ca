// This file reads the header of the C interface (mlf.md §5).

package mlf

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cmacro"
	"github.com/boardsmith/boardsmith/internal/spelling"
)

// A Header is what tvmgen_<m>.h declares.
type Header struct {
	Name    string // <m>: structs and functions begin with tvmgen_<m>
	Inputs  []Buffer
	Outputs []Buffer
	Pools   []Buffer
	Devices []string
	Mapped  bool     // inputs and outputs lie in pools, at the places that tvmgen_<m>_map_inputs returns
	Run     []string // the struct that each parameter of tvmgen_<m>_run points to: "inputs", "outputs", ...
}

// Adapter returns the C name of the packed function that project generates for a function of the C interface, such as
// "run".
func (h *Header) Adapter(function string) string { return "boardsmith_" + h.Name + "_" + function }

// CheckNames returns an error of class config for a member with the name of a keyword of C: no compiler accepts the
// header then, so that only C that does not include it can run the model.
func (h *Header) CheckNames() error {
	names := slices.Concat(bufferNames(h.Inputs), bufferNames(h.Outputs), bufferNames(h.Pools), h.Devices)
	if i := slices.IndexFunc(names, spelling.IsKeyword); i >= 0 {
		return failure.New(failure.Config, nextRename, "tvmgen_%s.h does not compile: its "+
			"tensor, pool or device %s has the name of a keyword of C", h.Name, names[i])
	}
	return nil
}

var (
	headerComment = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	headerStruct  = regexp.MustCompile(`struct\s+tvmgen_(\w+?)_(inputs|outputs|workspace_pools|devices)\s*\{([^{}]*)\}`)
	headerField   = regexp.MustCompile(`^void\s*\*\s*(\S+)$`)
	headerRun     = regexp.MustCompile(`int32_t\s+tvmgen_(\w+)_run\s*\(([^()]*)\)\s*;`)
	headerParam   = regexp.MustCompile(`^struct\s+tvmgen_(\w+?)_(inputs|outputs|workspace_pools|devices)\s*\*\s*\w+$`)
	headerMacro   = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*define[ \t]+(TVMGEN_\w+)(.*)$`)
)

// parseHeader reads an interface header.
func parseHeader(data []byte) (*Header, error) {
	// A comment may hold anything, also a declaration.
	text := headerComment.ReplaceAllString(string(data), "")
	run := headerRun.FindStringSubmatch(text)
	if run == nil {
		return nil, errors.New("it declares no tvmgen_..._run")
	}

	h := &Header{Name: run[1]}
	for _, p := range strings.Split(run[2], ",") {
		if p = strings.TrimSpace(p); p == "" || p == "void" {
			continue
		}

		m := headerParam.FindStringSubmatch(p)
		if m == nil || m[1] != h.Name || slices.Contains(h.Run, m[2]) {
			return nil, fmt.Errorf("unsupported parameter of tvmgen_%s_run: %.80s", h.Name, p)
		}
		h.Run = append(h.Run, m[2])
	}

	h.Mapped = strings.Contains(text, "tvmgen_"+h.Name+"_map_inputs")
	return h, h.readStructs(text)
}

func (h *Header) readStructs(text string) error {
	sizes, macros := map[string]int64{}, map[string]bool{}

	for _, m := range headerMacro.FindAllStringSubmatch(text, -1) {
		macros[m[1]] = true
		if !strings.HasSuffix(m[1], "_SIZE") {
			continue
		}
		n, ok := cmacro.Number(m[2])
		if !ok || n > math.MaxInt32 {
			return fmt.Errorf("%s is not a number of bytes: %.80s", m[1], strings.TrimSpace(m[2]))
		}

		if other, twice := sizes[m[1]]; twice && other != n {
			return fmt.Errorf("%s is defined as %d and as %d bytes", m[1], other, n)
		}
		sizes[m[1]] = n
	}

	for _, s := range headerStruct.FindAllStringSubmatch(text, -1) {
		if s[1] != h.Name {
			return fmt.Errorf("struct tvmgen_%s_%s and tvmgen_%s_run belong to different models", s[1], s[2], h.Name)
		}

		fields, err := structFields(s[3])
		if err != nil {
			return fmt.Errorf("struct tvmgen_%s_%s: %w", s[1], s[2], err)
		}
		for _, f := range fields {
			h.addField(s[2], f, sizes, macros)
		}
	}
	return h.checkPools(sizes)
}

// checkPools returns an error for the size of a pool that is no member of the struct: another pool would have none. The
// size of a tensor may have such a name, too.
func (h *Header) checkPools(sizes map[string]int64) error {
	prefix := strings.ToUpper("TVMGEN_" + h.Name + "_")

	// A tensor's size is not a pool's, whatever its ending.
	sizes = maps.Clone(sizes)
	for _, f := range slices.Concat(h.Inputs, h.Outputs) {
		delete(sizes, prefix+strings.ToUpper(f.Name)+"_SIZE")
	}

	for _, macro := range slices.Sorted(maps.Keys(sizes)) {
		for _, ending := range []string{"_WORKSPACE_POOL_SIZE", "_CONSTANT_POOL_SIZE"} {
			pool, ok := strings.CutSuffix(strings.TrimPrefix(macro, prefix), ending)
			if ok && !slices.ContainsFunc(h.Pools, func(p Buffer) bool { return strings.ToUpper(p.Name) == pool }) {
				return fmt.Errorf("%s belongs to no member of tvmgen_%s_workspace_pools", macro, h.Name)
			}
		}
	}
	return nil
}

func structFields(body string) (names []string, err error) {
	for _, line := range strings.Split(body, ";") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}

		m := headerField.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("unsupported member: %.80s", line)
		}
		names = append(names, m[1])
	}
	return names, nil
}

func (h *Header) addField(kind, name string, sizes map[string]int64, macros map[string]bool) {
	macro := strings.ToUpper("TVMGEN_" + h.Name + "_" + name)
	switch kind {
	case "inputs":
		h.Inputs = append(h.Inputs, Buffer{Name: name, Bytes: sizes[macro+"_SIZE"]})
	case "outputs":
		h.Outputs = append(h.Outputs, Buffer{Name: name, Bytes: sizes[macro+"_SIZE"]})
	case "devices":
		h.Devices = append(h.Devices, name)
	case "workspace_pools":
		p := Buffer{Name: name, Bytes: sizes[macro+"_WORKSPACE_POOL_SIZE"]}
		// A pool of constants has its contents in a macro.
		if macros[macro+"_CONSTANT_POOL_DATA"] {
			p.Bytes, p.Data = sizes[macro+"_CONSTANT_POOL_SIZE"], macro+"_CONSTANT_POOL_DATA"
		}
		h.Pools = append(h.Pools, p)
	}
}
