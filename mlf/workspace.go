// This file reads from generated C how much memory each function allocates while it runs (crt_abi.md §6).

package mlf

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
)

// A WorkStep is one memory operation of a generated function, in the order of its code.
type WorkStep struct {
	Take int64  // bytes that it allocates; 0 for other steps
	Name string // variable of what it allocates or frees
	Call string // the model's function that it calls; "" for other steps
}

// Workspace lists the memory operations of the model's functions, for each that allocates or calls one that does.
// For objects, whose code is not read, it uses the metadata and returns sure false: the function may allocate in
// several pieces.
func (a *Archive) Workspace(m *Model) (steps map[string][]WorkStep, sure bool) {
	steps = map[string][]WorkStep{}
	for _, f := range m.Sources {
		if bytes.Contains(f.Data, takeCall) {
			readWorkspace(f.Data, steps)
		}
	}
	sure = true
	for _, f := range m.Objects {
		if o, err := f.Info(); err == nil && slices.Contains(o.Undefined, "TVMBackendAllocWorkspace") {
			a.metadataWorkspace(m, steps)
			sure = false
			break
		}
	}
	return steps, sure
}

var (
	takeCall    = []byte("TVMBackendAllocWorkspace(")
	giveCall    = []byte("TVMBackendFreeWorkspace(")
	defineBegin = regexp.MustCompile(`^\s*(?:TVM_DLL\s+|static\s+)*int32_t\s+(\w+)\s*\(.*\)\s*\{\s*$`)
	takeStep    = regexp.MustCompile(`(\w+)\s*=\s*(?:\([^()]*\)\s*)?TVMBackendAllocWorkspace\([^,]*,[^,]*,\s*\(uint64_t\)(\d+)`)
	giveStep    = regexp.MustCompile(`TVMBackendFreeWorkspace\([^,]*,[^,]*,\s*(?:\([^()]*\)\s*)?(\w+)\s*\)`)
	callStep    = regexp.MustCompile(`\b(tvmgen_\w+)\s*\(`)
)

// readWorkspace reads one source line by line: TVM writes one statement per line.
func readWorkspace(src []byte, steps map[string][]WorkStep) {
	function := ""
	for len(src) > 0 {
		line := src
		if at := bytes.IndexByte(src, '\n'); at >= 0 {
			line, src = src[:at], src[at+1:]
		} else {
			src = nil
		}
		if bytes.IndexByte(line, '(') < 0 { // constants, for the most part
			continue
		}
		if m := defineBegin.FindSubmatch(line); m != nil {
			function = string(m[1])
			continue
		}
		if function == "" {
			continue
		}
		if s, ok := workStep(line); ok {
			steps[function] = append(steps[function], s)
		}
	}
}

func workStep(line []byte) (WorkStep, bool) {
	if bytes.Contains(line, takeCall) {
		if m := takeStep.FindSubmatch(line); m != nil {
			n, err := strconv.ParseInt(string(m[2]), 10, 64)
			return WorkStep{Take: n, Name: string(m[1])}, err == nil
		}
	} else if bytes.Contains(line, giveCall) {
		if m := giveStep.FindSubmatch(line); m != nil {
			return WorkStep{Name: string(m[1])}, true
		}
	} else if m := callStep.FindSubmatch(line); m != nil {
		return WorkStep{Call: string(m[1])}, true
	}
	return WorkStep{}, false
}

// rawFunctions is the metadata of a full model's operators.
type rawFunctions struct {
	Functions struct {
		Operators []struct {
			Name      string `json:"function_name"`
			Workspace []struct {
				Bytes int64 `json:"workspace_size_bytes"`
			} `json:"workspace"`
		} `json:"operator_functions"`
	} `json:"functions"`
}

func (a *Archive) metadataWorkspace(m *Model, steps map[string][]WorkStep) {
	f := a.Find(metadataFile)
	var raw rawMetadata
	if f == nil || json.Unmarshal(f.Data, &raw) != nil {
		return
	}
	model := &raw.rawModel
	if named := raw.Modules[m.Name]; named != nil {
		model = named
	}
	var memory rawFunctions
	if json.Unmarshal(model.Memory, &memory) != nil {
		return // the metadata of a single operator has another form, without these numbers
	}
	for _, o := range memory.Functions.Operators {
		for _, w := range o.Workspace {
			if w.Bytes > 0 {
				steps[o.Name] = append(steps[o.Name], WorkStep{Take: w.Bytes})
			}
		}
	}
}
