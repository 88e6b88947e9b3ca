// This file reads what the metadata lists of the memory that functions allocate.

package mlf

import "encoding/json"

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

// mostListed limits a size in the metadata, so that sums do not overflow.
const mostListed = 1 << 40

// ListedWorkspace returns what the metadata lists that functions of the model allocate, in bytes by function: its
// operators, and the function that runs it, whose figure includes theirs. Nil if the metadata does not list it.
func (a *Archive) ListedWorkspace(m *Model) map[string]int64 {
	f := a.Find(metadataFile)
	var raw rawMetadata
	if f == nil || json.Unmarshal(f.Data, &raw) != nil {
		return nil
	}

	model := &raw.rawModel
	// From version 7 on, models are listed by name.
	if named := raw.Modules[m.Name]; named != nil {
		model = named
	}

	var memory rawFunctions
	if json.Unmarshal(model.Memory, &memory) != nil {
		return nil // the metadata of a single operator has another form, without these numbers
	}

	listed := map[string]int64{}
	for _, o := range memory.Functions.Operators {
		var bytes int64 // on all devices
		for _, w := range o.Workspace {
			bytes += min(max(w.Bytes, 0), mostListed)
		}
		listed[o.Name] = bytes
	}

	if m.Executor == AOT && m.Workspace > 0 { // of an object's main function, no call is known
		listed[m.Prefix()+mainSuffix] = m.Workspace
	}
	return listed
}
