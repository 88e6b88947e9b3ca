package targets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestReadme compares what the README shows of a run with the bundled sample. TestPageGo and TestPageCommands run its
// examples.
func TestReadme(t *testing.T) {
	readme := testkit.ReadFile(t, "../README.md")
	outputs, err := samples.Outputs()
	testkit.Must(t, err)
	class, _ := format.ArgMax(outputs[0].Array)
	if line := fmt.Sprintf("output0  int32 (1, 10)  %s  arg-max %d\n", format.First(outputs[0].Array),
		class); !strings.Contains(string(readme), line) {
		t.Errorf("README.md does not show what run prints: %s", line)
	}
	testkit.WantText(t, string(readme), "go tool mage demo", "go tool mage test", "go tool mage flash run")
}
