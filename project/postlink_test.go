package project

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
)

// TestPostLinkFitted: what was linked stays, erased or not, and what the command adds is split at long erased runs.
func TestPostLinkFitted(t *testing.T) {
	t.Parallel()
	run := strings.Repeat("\xFF", splitRun)
	were := []firmware.Segment{{Addr: 0x8000, Data: []byte("abcd\xFFefg\xFF")}}
	for text, want := range map[string][]firmware.Segment{
		"abcd\xFFefg\xFF":                            were,
		"abcd\xFFefg\xFF\xFF\xFF":                    were,
		"abcd\xFFefg\xFFx\xFFy\xFF":                  {{Addr: 0x8000, Data: []byte("abcd\xFFefg\xFFx\xFFy")}},
		"abcd\xFFefg\xFF\xFFx" + run[1:] + "y" + run: {were[0], {Addr: 0x800A, Data: []byte("x" + run[1:] + "y")}},
		"abcd\xFFefg\xFFx" + run + "y": {
			{Addr: 0x8000, Data: []byte("abcd\xFFefg\xFFx")}, {Addr: 0x801A, Data: []byte("y")},
		},
	} {
		got := fitted([]firmware.Segment{{Addr: 0x8000, Data: []byte(text)}}, nil, were)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestPostLinkFarApart: an image in two distant memories is offered, in the forms that the command names.
func TestPostLinkFarApart(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	ident := [elf.EI_NIDENT]byte{0x7F, 'E', 'L', 'F', byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	for _, part := range []any{
		elf.Header32{Ident: ident, Type: 2, Version: 1, Phoff: 52, Ehsize: 52, Phentsize: 32, Phnum: 2, Shentsize: 40},
		elf.Prog32{Type: 1, Off: 116, Filesz: 4, Memsz: 4},
		elf.Prog32{Type: 1, Off: 116, Vaddr: 1 << 30, Paddr: 1 << 30, Filesz: 4, Memsz: 4},
		[]byte("code"),
	} {
		must(t, binary.Write(&file, binary.LittleEndian, part))
	}
	p := &Project{builder: testEnv().builder(), dir: t.TempDir()}
	p.state.Template.ELF = "build/firmware.elf"
	must(t, os.MkdirAll(filepath.Join(p.dir, "build"), 0o755))
	in, err := openTree(p.dir)
	must(t, err)
	defer in.close()
	p.state.Board.PostLink = boards.PostLink{Words: []string{"sign", "{hex}", "{out.hex}"}}
	must(t, p.offerLinked(in, file.Bytes()))
	must(t, p.renewForms(in, file.Bytes()))
	files, err := os.ReadDir(filepath.Join(p.dir, "build", postLinkFolder))
	if err != nil || len(files) != 1 || files[0].Name() != "linked.hex" {
		t.Errorf("%v, %v", files, err)
	}
	p.state.Board.PostLink.Words[1] = "{bin}"
	if err := p.offerLinked(in, file.Bytes()); err == nil || !strings.Contains(err.Error(), "spread over") {
		t.Error(err)
	}
}

// TestPostLinkSecret: the command of an error names a variable, not its value.
func TestPostLinkSecret(t *testing.T) {
	t.Parallel()
	p := &Project{builder: testEnv().builder(), dir: t.TempDir()}
	p.builder.Variables = map[string]string{"KILN_PASSWORD": "swordfish"}
	p.state.Template.ELF = "build/firmware.elf"
	p.state.Board.PostLink = boards.PostLink{Words: []string{"sh", "-c", "exit 3", "$KILN_PASSWORD", "{out.bin}"}}
	in := &tree{dir: p.dir}
	err := (&buildRun{Project: p, t: in}).runPostLink(t.Context(), in, nil)
	failed := (*ToolError)(nil)
	if !errors.As(err, &failed) || failure.Of(err) != failure.Link || strings.Contains(failed.Command, "swordfish") ||
		!strings.HasSuffix(failed.Command, ` sh -c 'exit 3' "$KILN_PASSWORD" `+filepath.Join(p.dir, "build", "post_link", "out.bin")) {
		t.Errorf("%v: %s", err, failure.Next(err))
	}
}
