package mlf_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/mlf"
)

// TestPlainTensors opens descriptions of models in plain C: tensors may have any name, and arenas be as large as an
// address space.
func TestPlainTensors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "net.json")
	const text = `{"name": "net", "headers": ["net.h"], "function": "net", "arguments": [
{"input": "x", "dtype": "int8", "shape": [2]}, {"output": "y", "dtype": "int8", "shape": [2]},
{"arena": "a", "bytes": 1073741824}, {"arena": "b", "bytes": 1073741824}]}`
	testkit.WriteFile(t, filepath.Join(filepath.Dir(file), "net.h"), "")
	for _, name := range []string{
		"x", "workspace", "Workspace", "class", "status", "x_workspace_pool", "x_constant_pool",
	} {
		testkit.WriteFile(t, file, strings.Replace(text, `"x"`, `"`+name+`"`, 1))
		a, err := mlf.Open(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if m := a.Models[0]; m.Inputs[0].Name != name || len(m.Pools) != 2 || m.Pools[1].Bytes != 1<<30 {
			t.Errorf("%s: %+v, %+v", name, m.Inputs, m.Pools)
		}
	}
}
