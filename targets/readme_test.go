package targets

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/internal/cli/valuetext"
)

// TestReadme holds the README's Go text to the example that the tests run.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```go\n")
	shown, _, ok2 := strings.Cut(rest, "```\n")
	_, body, ok3 := strings.Cut(string(source), "func Example() {\n")
	body, _, ok4 := strings.Cut(body, "\n\t// Output:")
	if !ok || !ok2 || !ok3 || !ok4 {
		t.Fatal("the README's example, or the test's, is not where it was")
	}
	var want strings.Builder
	for line := range strings.Lines(body + "\n") {
		want.WriteString(strings.TrimPrefix(line, "\t"))
	}
	got := strings.ReplaceAll(shown, "examples/", "../examples/") // the README's reader stands in the repository's root
	if got != want.String() {
		t.Errorf("README.md shows\n%s\nbut targets/example_test.go runs\n%s", got, want.String())
	}
	outputs, err := samples.Outputs()
	if err != nil {
		t.Fatal(err)
	}
	class, _ := valuetext.ArgMax(outputs[0].Array)
	if line := fmt.Sprintf("output0  int32 (1, 10)  %s  arg-max %d\n", valuetext.First(outputs[0].Array),
		class); !strings.Contains(string(readme), line) {
		t.Errorf("README.md does not show what run prints: %s", line)
	}
	for _, command := range []string{"go tool mage demo", "go tool mage test", "go tool mage build flash run"} {
		if !strings.Contains(string(readme), command) {
			t.Errorf("README.md does not show %q", command)
		}
	}
}
