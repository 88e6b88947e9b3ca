package targets

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
)

// sampleUsage builds the bundled sample for a board, and returns its use of the board's memory.
func sampleUsage(t *testing.T, board string) *project.Usage {
	t.Helper()
	model, err := mlf.Parse(samples.Name, samples.Archive())
	if err != nil {
		t.Fatal(err)
	}
	c := cache.New(testcache.Dir(), cache.Options{})
	builder := &project.Builder{Host: device.Host{Log: hclog.NewNullLogger(), Cache: c}}
	p, err := builder.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), project.Spec{Board: board, Archive: model})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	built, err := p.Build(t.Context())
	if failure.Of(err) == failure.ToolMissing {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	u, err := p.Usage(built)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestSizesAreCurrent compares the example in docs/project.md with the sample's figures. They may differ by a tenth,
// because compilers differ.
func TestSizesAreCurrent(t *testing.T) {
	const of = "12." // the documented figures are of Debian 12's compiler
	if version, err := exec.Command("arm-none-eabi-gcc", "-dumpversion").Output(); err != nil {
		t.Skipf("arm-none-eabi-gcc: %v", err)
	} else if !strings.HasPrefix(string(version), of) {
		t.Skipf("the figures are of GCC %s*, this one is %s", of, version)
	}
	_, sizes, _ := strings.Cut(readDoc(t, "project.md"), "\n## Sizes\n")
	blocks := fenced(sizes, "")
	if len(blocks) == 0 {
		t.Fatal("no example")
	}
	u := sampleUsage(t, "mps2_an385")
	want := map[string][]int64{}
	for _, p := range u.Parts {
		if slices.Max(p.In) > 0 {
			want[p.Name] = p.In
		}
	}
	for _, r := range u.Regions {
		want["used"] = append(want["used"], r.Used)
		want["free"] = append(want["free"], r.Size-r.Used)
		want["of"] = append(want["of"], r.Size)
	}
	want["arena: the running model takes"] = []int64{u.Arena.Need}
	want["stack:"] = []int64{u.Stack.Need}
	want["stack of interrupt handlers:"] = []int64{u.Stack.Handlers}
	for name, figures := range want {
		row := regexp.MustCompile(`(?m)^` + name + `((?: +(?:\d+|-))+)`).FindStringSubmatch(blocks[0])
		if row == nil {
			t.Errorf("docs/project.md has no line %q", name)
			continue
		}
		words := strings.Fields(row[1])
		if len(words) != len(figures) {
			t.Errorf("%s: docs/project.md has %q; the figures are %v", name, words, figures)
			continue
		}
		for i, word := range words {
			n, _ := strconv.ParseInt(word, 10, 64) // 0 for "-"
			if math.Abs(float64(n-figures[i])) > max(0.1*float64(figures[i]), 32) {
				t.Errorf("%s: docs/project.md has %q; the figures are %s", name, words, fmt.Sprint(figures))
				break
			}
		}
	}
}
