package templatefile

import "testing"

// TestInputs: without names, all files are inputs but for results, hidden files and what inputs excludes.
func TestInputs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		inputs []string
		name   string
		want   bool
	}{
		{nil, "make/rules.mk", true},
		{nil, "boards/.gitkeep", true},
		{nil, "model/codegen/host/src/lib0.c", true},
		{nil, "model/metadata.json", false},
		{nil, "build/firmware.elf", false},
		{nil, "project.json", false},
		{nil, "samples.npz", false},
		{nil, "compile_commands.json", false},
		{nil, ".git/config", false},
		{nil, "microtvm-api-server", false},
		{nil, "LICENSES/mit.txt", false},
		{[]string{"!doc"}, "doc/a.md", false},
		{[]string{"!doc", "!*.md"}, "README.md", false},
		{[]string{"!doc"}, "documents", true},
		{[]string{"src"}, "src/main.c", true},
		{[]string{"src", "!src/*.md"}, "src/a.md", false},
		{[]string{"src"}, "make/rules.mk", false},
	} {
		b := &Description{Inputs: c.inputs, ELF: "build/firmware.elf"}
		if b.IsInput(c.name) != c.want {
			t.Errorf("%v: %s is an input: %v", c.inputs, c.name, !c.want)
		}
	}
}
