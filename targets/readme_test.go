package targets

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/internal/format"
)

// TestReadme compares what the README shows of a run with the bundled sample. TestPageGo and TestPageCommands run its
// examples.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	outputs, err := samples.Outputs()
	if err != nil {
		t.Fatal(err)
	}
	class, _ := format.ArgMax(outputs[0].Array)
	if line := fmt.Sprintf("output0  int32 (1, 10)  %s  arg-max %d\n", format.First(outputs[0].Array),
		class); !strings.Contains(string(readme), line) {
		t.Errorf("README.md does not show what run prints: %s", line)
	}
	for _, command := range []string{"go tool mage demo", "go tool mage test", "go tool mage flash run"} {
		if !strings.Contains(string(readme), command) {
			t.Errorf("README.md does not show %q", command)
		}
	}
}
