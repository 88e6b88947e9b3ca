package postlink

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

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/buildenv"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/workdir"
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

// signing returns a board's command, for a project in a folder of its own.
func signing(t *testing.T, words ...string) Command {
	t.Helper()
	of := &blueprint.Blueprint{ELF: "build/firmware.elf"}
	return Command{
		Template: of, Board: &boards.Board{PostLink: boards.PostLink{Words: words}},
		Env: buildenv.Env{Template: of, Dir: t.TempDir(), Tools: &buildenv.Tools{}}, Log: hclog.NewNullLogger(),
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
		testkit.Must(t, binary.Write(&file, binary.LittleEndian, part))
	}
	c := signing(t, "sign", "{hex}", "{out.hex}")
	testkit.Must(t, os.MkdirAll(filepath.Join(c.Env.Dir, "build"), 0o755))
	in, err := workdir.Open(c.Env.Dir)
	testkit.Must(t, err)
	defer in.Close()
	testkit.Must(t, c.offer(in, file.Bytes()))
	testkit.Must(t, c.renewForms(in, file.Bytes()))
	files, err := os.ReadDir(filepath.Join(c.Env.Dir, "build", folderName))
	if err != nil || len(files) != 1 || files[0].Name() != "linked.hex" {
		t.Errorf("%v, %v", files, err)
	}
	c.Board.PostLink.Words[1] = "{bin}"
	if err := c.offer(in, file.Bytes()); err == nil || !strings.Contains(err.Error(), "spread over") {
		t.Error(err)
	}
}

// TestPostLinkSecret: the command of an error names a variable, not its value.
func TestPostLinkSecret(t *testing.T) {
	t.Parallel()
	c := signing(t, "sh", "-c", "exit 3", "$KILN_PASSWORD", "{out.bin}")
	c.Env.Variables = map[string]string{"KILN_PASSWORD": "swordfish"}
	in := &workdir.Tree{Dir: c.Env.Dir}
	err := c.run(t.Context(), in, nil)
	failed := (*buildenv.ToolError)(nil)
	if !errors.As(err, &failed) || failure.Of(err) != failure.Link || strings.Contains(failed.Command, "swordfish") ||
		!strings.HasSuffix(failed.Command, ` sh -c 'exit 3' "$KILN_PASSWORD" `+filepath.Join(c.Env.Dir, "build", "post_link", "out.bin")) {
		t.Errorf("%v: %s", err, failure.Next(err))
	}
}
