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
	"time"

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

// linkedBy returns a command of a project whose image has 64 bytes at 0x1000, of which the last 16 are left for the
// command.
func linkedBy(t *testing.T, words ...string) (Command, *workdir.Tree) {
	t.Helper()
	const script = `SECTIONS { .text 0x1000 : { first = .; *(.text) } last = first + 64; /DISCARD/ : { *(.note.*) } }`
	c := signing(t, words...)
	dir := testkit.Link(t, "gcc", script, ".fill 48, 1, 0x11", "-no-pie", "-Wl,-n,-e0,--build-id=none")
	file, err := os.ReadFile(filepath.Join(dir, "o.elf"))
	testkit.Must(t, err)
	testkit.Must(t, os.MkdirAll(filepath.Join(c.Env.Dir, "build"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(c.Env.Dir, "build", "firmware.elf"), file, 0o755))
	c.Template.Landmarks.Parts = []firmware.Place{{Symbol: "first", End: "last"}}
	c.Template.Forms = blueprint.Forms{Bin: "build/firmware.bin", Hex: "build/firmware.hex"}
	testkit.Must(t, os.WriteFile(filepath.Join(c.Env.Dir, "build", "firmware.bin"), nil, 0o644))
	c.Board.Name, c.Board.Place.Code = "kiln", "flash"
	c.Board.Memory = []boards.Region{
		{Name: "boot", Origin: 0, Size: 0x1000, Reserved: true, Nonvolatile: true},
		{Name: "flash", Origin: 0x1000, Size: 0x1000, Nonvolatile: true},
	}
	project, err := workdir.Open(c.Env.Dir)
	testkit.Must(t, err)
	t.Cleanup(project.Close)
	return c, project
}

// TestRun: the image has what the command wrote, erased bytes up to the end of its part, and the form that was there.
func TestRun(t *testing.T) {
	t.Parallel()
	c, project := linkedBy(t, "sh", "-c", `cat "$0" >"$1" && printf "%s" "$2" >>"$1"`, "{bin}", "{out.bin}", "$KEY")
	c.Env.Variables = map[string]string{"KEY": "signed"}
	folder := t.TempDir()
	testkit.Must(t, c.Run(t.Context(), project, folder, nil))
	loads := loadsIn(t, project)
	want := strings.Repeat("\x11", 48) + "signed" + strings.Repeat("\xff", 10)
	if len(loads) != 2 || loads[0].Addr != 0x1000 || loads[1].Addr != 0x1030 ||
		string(loads[0].Data)+string(loads[1].Data) != want {
		t.Errorf("%+v", loads)
	}
	bin, err := os.ReadFile(filepath.Join(project.Dir, "build", "firmware.bin"))
	if err != nil || string(bin) != want {
		t.Errorf("%q, %v", bin, err)
	}
	if _, err := os.Stat(filepath.Join(project.Dir, "build", "firmware.hex")); err == nil {
		t.Error("a form that nobody asked for")
	}
	for name, want := range map[string]bool{
		"linked.bin": true, "out.bin": true, "linked.elf": false, "linked.hex": false,
	} {
		if _, err := os.Stat(filepath.Join(folder, "build", folderName, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Board.PostLink = boards.PostLink{}
	testkit.Must(t, c.Run(t.Context(), project, t.TempDir(), nil)) // no command
	c.Board.PostLink.Words = []string{"false", "{out.bin}"}
	testkit.Must(t, os.Remove(filepath.Join(project.Dir, "build", "firmware.elf")))
	testkit.Must(t, c.Run(t.Context(), project, t.TempDir(), nil)) // the check of the image reports that there is none
}

// loadsIn returns what the image of a project loads.
func loadsIn(t *testing.T, project *workdir.Tree) []firmware.Segment {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(project.Dir, "build", "firmware.elf"))
	testkit.Must(t, err)
	loads, err := loadsOf(file, "firmware.elf")
	testkit.Must(t, err)
	return loads
}

// TestRunErrors: a command that is missing, fails, hangs, writes nothing or something else is an error that names it,
// and the image stays as it was linked.
func TestRunErrors(t *testing.T) {
	t.Parallel()
	const out = "build/post_link/out.bin: "
	for _, c := range []struct {
		words []string
		want  string
		class failure.Class
	}{
		{[]string{"no-such-signer", "{out.bin}"}, "no-such-signer is not installed", failure.ToolMissing},
		{[]string{"sh", "-c", "echo no key >&2; exit 3", "{out.bin}"}, "sh: exit status 3\nno key", failure.Link},
		{[]string{"sh", "-c", "sleep 60", "{out.bin}"}, "time limit exceeded", failure.Timeout},
		{
			[]string{"sh", "-c", "exit 0", "{out.bin}"},
			"the command succeeded and wrote no build/post_link/out.bin",
			failure.Link,
		},
		{[]string{"touch", "{out.bin}"}, "wrote no build/post_link/out.bin", failure.Link},
		{[]string{"mkdir", "{out.bin}"}, out, failure.Link},
		{[]string{"mkfifo", "{out.bin}"}, out, failure.Link},
		{[]string{"ln", "-s", "/etc/passwd", "{out.bin}"}, out, failure.Link},
		{[]string{"truncate", "-s", "67108865", "{out.bin}"}, "out.bin is larger than 64 MiB", failure.Link},
		{[]string{"dd", "bs=16", "count=1", "if={bin}", "of={out.bin}"}, "the byte at 0x00001010 is missing", failure.Link},
		{[]string{"cp", "{bin}", "{out.hex}"}, "build/post_link/out.hex: line 1: not a record", failure.Link},
		{[]string{"cp", "{bin}", "{out.bin}", "$KILN_NO_KEY"}, "needs the variable KILN_NO_KEY, which", failure.Config},
	} {
		t.Run(strings.Join(c.words, " "), func(t *testing.T) {
			t.Parallel()
			p, project := linkedBy(t, c.words...)
			if p.Limit = 10 * time.Second; c.class == failure.Timeout {
				p.Limit = 100 * time.Millisecond
			}
			before := loadsIn(t, project)
			err := p.Run(t.Context(), project, t.TempDir(), nil)
			if err == nil || failure.Of(err) != c.class || !strings.Contains(err.Error(), "post_link of board kiln") ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v (%v)", err, failure.Of(err))
			}
			if missing := (*failure.MissingToolError)(nil); (c.class == failure.ToolMissing) != errors.As(err, &missing) {
				t.Error(err)
			}
			if after := loadsIn(t, project); !reflect.DeepEqual(after, before) {
				t.Errorf("the image became %+v", after)
			}
		})
	}
	c, project := linkedBy(t, "cp", "{bin}", "{out.bin}")
	c.Board.Memory[0].Size = 0x1010
	if err := c.Run(t.Context(), project, t.TempDir(), nil); err == nil ||
		!strings.Contains(err.Error(), "reaches into region boot") {
		t.Errorf("an image in a reserved region: %v", err)
	}
}
