package cmodel_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/paramblob"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

func page(t *testing.T) string {
	t.Helper()
	return string(testkit.ReadFile(t, "../docs/embedded.md"))
}

var example = regexp.MustCompile("(?s)<!-- ([^>]*) -->\n```c\n(.*?)```")

// TestExamples runs each program of docs/embedded.md, which a comment before it gives archives and flags, under
// AddressSanitizer and UBSan, and compiles it as C++, which a full run also runs.
func TestExamples(t *testing.T) {
	examples := example.FindAllStringSubmatch(page(t), -1)
	testkit.Equal(t, "examples", len(examples), 5)
	for _, e := range examples {
		t.Run(e[1], func(t *testing.T) {
			var codes []*cmodel.Code
			var flags []string
			for _, word := range strings.Fields(e[1]) {
				if strings.HasPrefix(word, "-D") {
					flags = append(flags, word)
				} else if !strings.HasPrefix(word, "PARAMS=") {
					options := cmodel.Options{RAMParameters: strings.Contains(e[1], "PARAMS=ram")}
					codes = append(codes, generate(t, mlftest.Path(t, word), options))
				}
			}
			dir := unpack(t, codes...)
			write(t, dir+"/update.h", update(t, "sine.graph"))
			for _, extension := range []string{".c", ".cpp"} {
				file := filepath.Join(dir, "main"+extension)
				write(t, file, e[2])
				if extension == ".cpp" && !drawn.InFull() {
					must(t, compile(dir, file, dir+"/main.o", "-fsyntax-only"))
					continue
				}
				runMain(t, dir, file, flags...)
			}
		})
	}
}

// update returns the update.h of an example: the parameters of an archive, halved.
func update(t *testing.T, archive string) string {
	t.Helper()
	_, m := mlftest.Open(t, mlftest.Path(t, archive))
	blob := bytes.Clone(m.Params)
	params, err := paramblob.Parse(blob) // its arrays lie in blob
	must(t, err)
	for _, p := range params {
		for i := 3; i < len(p.Data); i += 4 {
			p.Data[i] = p.Data[i]&0x80 | 0x3e
		}
	}
	return fmt.Sprintf("static const uint8_t update[] = {%s};\nstatic const size_t update_bytes = sizeof update;\n"+
		"static const uint32_t update_crc32 = %#xU;\n", initializer(&ndarray.Array{Data: blob}), crc32.ChecksumIEEE(blob))
}

// TestPlans plans the workspace of every graph in TVM's archives: none takes more than what is in use at once.
func TestPlans(t *testing.T) {
	graphs := 0
	for _, path := range append(mlftest.Archives(t), mlftest.OtherVersions(t)...) {
		a, m := mlftest.Open(t, path)
		if m.Executor != mlf.Graph {
			continue
		}
		c, err := cmodel.Generate(a, m, cmodel.Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		var d struct {
			Workspaces []struct{ Bytes int64 }
			Graph      struct {
				AtOnce int64 `json:"bytes_in_use_at_once"`
			}
		}
		must(t, json.Unmarshal(c.Generated[2].Data, &d))
		var planned int64
		for _, w := range d.Workspaces {
			planned += w.Bytes
		}
		testkit.Equal(t, mlftest.Name(path), planned, d.Graph.AtOnce)
		graphs++
	}
	if graphs < 15 {
		t.Errorf("%d graphs only", graphs)
	}
}

// TestJSONIsDocumented finds each field of tvm_<model>.json in docs/embedded.md, and compares inputs.
func TestJSONIsDocumented(t *testing.T) {
	doc := page(t)
	fields := 0
	for _, name := range []string{"sine.graph", "conv_pools.aot_c_pools"} {
		a, m := mlftest.Open(t, mlftest.Path(t, name))
		target := cmodel.NewTarget("board", "gcc 12", nil, "#define __ARM_ARCH 7\n")
		c, err := cmodel.Generate(a, m, cmodel.Options{Target: target})
		must(t, err)
		text := c.Generated[2].Data
		for _, key := range regexp.MustCompile(`"([a-z_0-9]+)":`).FindAllSubmatch(text, -1) {
			fields++
			testkit.WantText(t, doc, "`"+string(key[1])+"`")
		}
		var d struct {
			Inputs []struct {
				Name  string
				Bytes int64
			}
		}
		must(t, json.Unmarshal(text, &d))
		if len(d.Inputs) != len(m.Inputs) || d.Inputs[0].Name != m.Inputs[0].Name || d.Inputs[0].Bytes != m.Inputs[0].Bytes {
			t.Errorf("%s: inputs %v, want %v", name, d.Inputs, m.Inputs)
		}
	}
	if fields < 30 {
		t.Errorf("%d fields only", fields)
	}
}
