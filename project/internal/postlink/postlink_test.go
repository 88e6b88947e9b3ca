package postlink

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	readFile  = testkit.ReadFile
	wantError = testkit.WantError
)

// TestPostLinkFitted: what was linked stays, erased or not, what the command adds is split at long erased runs, and
// erased bytes reach to the end of a part that begins before.
func TestPostLinkFitted(t *testing.T) {
	t.Parallel()
	const linked, linkedEnd = "\xFFbcd\xFFefg\xFF", 0x8009
	erased := func(n int) string { return strings.Repeat("\xFF", n) }
	run := erased(splitRun)
	from := func(addr uint64, text string) firmware.Segment {
		return firmware.Segment{Addr: addr, Data: []byte(text)}
	}
	for _, c := range []struct {
		at   uint64
		text string // that the command writes
		part firmware.Range
		want []firmware.Segment
	}{
		{0x8000, linked, firmware.Range{}, []firmware.Segment{from(0x8000, linked)}},
		{0x8000, linked + "\xFF\xFF", firmware.Range{}, []firmware.Segment{from(0x8000, linked)}},
		{0x8000, linked + "x\xFFy\xFF", firmware.Range{}, []firmware.Segment{from(0x8000, linked+"x\xFFy")}},
		{
			0x8000, linked + "\xFFx" + run[1:] + "y" + run,
			firmware.Range{},
			[]firmware.Segment{from(0x8000, linked), from(0x800A, "x"+run[1:]+"y")},
		},
		{
			0x7FFC, "\xFFx\xFF\xFF" + linked,
			firmware.Range{},
			[]firmware.Segment{from(0x7FFD, "x"), from(0x8000, linked)},
		},
		{0x8000, linked, firmware.Range{Start: 0x8000, End: 0x800C}, []firmware.Segment{from(0x8000, linked+erased(3))}},
		{
			0x8000, linked + "x\xFFy",
			firmware.Range{Start: 0x800A, End: 0x8010},
			[]firmware.Segment{from(0x8000, linked+"x\xFFy"+erased(4))},
		},
		{
			0x8000, linked,
			firmware.Range{Start: 0x8000, End: linkedEnd + 64<<10},
			[]firmware.Segment{from(0x8000, linked+erased(64<<10))},
		},
		{
			0x8000, linked,
			firmware.Range{Start: 0x8000, End: linkedEnd + 64<<10 + 1},
			[]firmware.Segment{from(0x8000, linked)},
		},
		{0x7000, "x", firmware.Range{Start: 0x7000, End: 0x8000}, []firmware.Segment{from(0x7000, "x")}},
	} {
		parts := slices.DeleteFunc([]firmware.Range{c.part}, func(r firmware.Range) bool { return r.End == 0 })
		got := fitted([]firmware.Segment{from(c.at, c.text)}, parts, []firmware.Segment{from(0x8000, linked)})
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q, part %+v: %.200q", c.text, c.part, fmt.Sprint(got))
		}
	}
}

// signing returns a board's command, for a project in a folder of its own.
func signing(t *testing.T, words ...string) Command {
	t.Helper()
	of := &templatefile.Description{ELF: "build/firmware.elf"}
	b := &boards.Board{}
	b.PostLink.Words = words
	return Command{
		Template: of, Board: b,
		Env: buildenv.Env{Template: of, Dir: t.TempDir(), Tools: &buildenv.Tools{}}, Log: hclog.NewNullLogger(),
	}
}

// header returns the header of an ELF file with a number of segments and no sections.
func header(segments uint16) []byte {
	ident := [elf.EI_NIDENT]byte{0x7F, 'E', 'L', 'F', byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	h := elf.Header32{
		Ident: ident, Type: 2, Version: 1, Phoff: 52, Ehsize: 52, Phentsize: 32, Phnum: segments, Shentsize: 40,
	}
	file, err := binary.Append(nil, binary.LittleEndian, h)
	if err != nil {
		panic(err)
	}
	return file
}

// TestPostLinkFarApart: an image in two distant memories is offered, in the forms that the command names.
func TestPostLinkFarApart(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	for _, part := range []any{
		header(2),
		elf.Prog32{Type: 1, Off: 116, Filesz: 4, Memsz: 4},
		elf.Prog32{Type: 1, Off: 116, Vaddr: 1 << 30, Paddr: 1 << 30, Filesz: 4, Memsz: 4},
		[]byte("code"),
	} {
		must(t, binary.Write(&file, binary.LittleEndian, part))
	}
	c := signing(t, "sign", "{hex}", "{out.hex}")
	must(t, os.MkdirAll(filepath.Join(c.Env.Dir, "build"), 0o755))
	in, err := workdir.Open(c.Env.Dir)
	must(t, err)
	defer in.Close()
	loads, _, err := c.loaded(file.Bytes())
	must(t, err)
	must(t, c.offer(in, file.Bytes(), loads))
	must(t, c.renewForms(in, file.Bytes()))
	files, err := os.ReadDir(filepath.Join(c.Env.Dir, "build", folderName))
	if err != nil || len(files) != 1 || files[0].Name() != "linked.hex" {
		t.Errorf("%v, %v", files, err)
	}
	c.Board.PostLink.Words[1] = "{bin}"
	if err := c.offer(in, file.Bytes(), loads); err == nil ||
		!strings.HasSuffix(err.Error(), "{bin}: the image is spread over 1073741828 bytes") {
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

// linkedBy returns a command of a project whose image has 64 bytes at 0x8000000, of which the last 16 are left for the
// command.
func linkedBy(t *testing.T, words ...string) (Command, *workdir.Tree) {
	t.Helper()
	const script = `SECTIONS { .text 0x8000000 : { first = .; *(.text) } last = first + 64; /DISCARD/ : { *(.note.*) } }`
	c := signing(t, words...)
	dir := testkit.Link(t, "gcc", script, ".fill 48, 1, 0x11", "-no-pie", "-Wl,-n,-e0,--build-id=none")
	file := readFile(t, filepath.Join(dir, "o.elf"))
	writeFile(t, filepath.Join(c.Env.Dir, "build", "firmware.elf"), string(file))
	c.Template.Landmarks.Parts = []firmware.Place{{Symbol: "first", End: "last"}}
	c.Template.Forms = templatefile.Forms{Bin: "build/firmware.bin", Hex: "build/firmware.hex"}
	writeFile(t, filepath.Join(c.Env.Dir, "build", "firmware.bin"), "")
	c.Board.Name, c.Board.Place.Code = "kiln", "flash"
	c.Board.Memory = []boards.Region{
		{Name: "boot", Origin: 0x7FFF000, Size: 0x1000, Reserved: true, Nonvolatile: true},
		{Name: "flash", Origin: 0x8000000, Size: 0x1000, Nonvolatile: true},
	}
	project, err := workdir.Open(c.Env.Dir)
	must(t, err)
	t.Cleanup(project.Close)
	return c, project
}

// TestRun: the image has what the command wrote, erased bytes up to the end of its part, and the form that was there.
func TestRun(t *testing.T) {
	t.Parallel()
	script := `echo sign; cat "$0" >"$1" && printf "%s" "$2" >>"$1"`
	c, project := linkedBy(t, "sh", "-c", script, "{bin}", "{out.bin}", "$KEY", "{elf}")
	c.Env.Variables = map[string]string{"KEY": "signed"}
	folder := t.TempDir()
	must(t, c.Run(t.Context(), project, folder, nil))
	loads := loadsIn(t, project)
	want := strings.Repeat("\x11", 48) + "signed" + strings.Repeat("\xff", 10)
	if len(loads) != 2 || loads[0].Addr != 0x8000000 || loads[1].Addr != 0x8000030 ||
		string(loads[0].Data)+string(loads[1].Data) != want {
		t.Errorf("%+v", loads)
	}
	if bin := readFile(t, filepath.Join(project.Dir, "build", "firmware.bin")); string(bin) != want {
		t.Errorf("%q", bin)
	}
	if _, err := os.Stat(filepath.Join(project.Dir, "build", "firmware.hex")); err == nil {
		t.Error("a form that nobody asked for")
	}
	for name, want := range map[string]bool{
		"linked.bin": true, "out.bin": true, "linked.elf": true, "linked.hex": false,
	} {
		if _, err := os.Stat(filepath.Join(folder, "build", folderName, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Board.PostLink.Words = nil
	must(t, c.Run(t.Context(), project, t.TempDir(), nil)) // no command
	c.Board.PostLink.Words = []string{"false", "{out.bin}"}
	image := filepath.Join(project.Dir, "build", "firmware.elf")
	for text, want := range map[string]string{
		"this is no ELF file": "build/firmware.elf: bad magic number", string(header(0)): "the image loads nothing",
	} {
		writeFile(t, image, text)
		wantError(t, c.Run(t.Context(), project, t.TempDir(), nil), failure.Link, want)
	}
	must(t, os.Remove(image))
	must(t, c.Run(t.Context(), project, t.TempDir(), nil)) // the check of the image reports that there is none
	must(t, os.Mkdir(image, 0o755))
	wantError(t, c.Run(t.Context(), project, t.TempDir(), nil), failure.Config)
	c, project = linkedBy(t, "cp", "{bin}", "{out.bin}")
	if err := c.Run(t.Context(), project, filepath.Join(t.TempDir(), "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder for the files: %v", err)
	}
}

// TestKey: a command's words, its program, and the values of its variables, the contents of files among them, count.
func TestKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sign, pem := filepath.Join(dir, "sign"), filepath.Join(dir, "key.pem")
	testkit.WriteProgram(t, sign, "#!/bin/sh\necho sign 1\n")
	writeFile(t, pem, "one")
	c := signing(t, "sign", "$KEY", "{out.bin}")
	c.Env.Programs = []string{dir}
	keys := map[cachekey.Key]bool{}
	for _, change := range []func(){
		func() { c.Env.Variables = map[string]string{"KEY": pem} },
		func() { writeFile(t, pem, "two") },
		func() { c.Env.Variables["KEY"] = dir },
		func() { c.Env.Variables["KEY"] = "word" },
		func() { c.Board.PostLink.Words[2] = "{out.hex}" },
	} {
		change()
		b := cachekey.New("k")
		c.AddTo(b)
		keys[b.Key()] = true
	}
	if len(keys) != 5 {
		t.Errorf("%d keys", len(keys))
	}
	tool, err := c.Tool(t.Context())
	if want := []buildenv.Identity{{Name: "sign", Version: "sign 1"}}; err != nil || !reflect.DeepEqual(tool, want) {
		t.Errorf("%+v, %v", tool, err)
	}
	c.Board.PostLink.Words[0] = "no-such-signer"
	_, err = c.Tool(t.Context())
	wantError(t, err, failure.ToolMissing)
	c.Board.PostLink.Words[0] = "{board}/sign"
	program, err := c.Program()
	if err != nil || program != filepath.Join(c.Env.Dir, generator.Board, "sign") {
		t.Errorf("%s, %v", program, err)
	}
	for range 2 { // of a file among the inputs, then of no command
		if tool, err := c.Tool(t.Context()); tool != nil || err != nil {
			t.Errorf("%+v, %v", tool, err)
		}
		c.Board.PostLink.Words = nil
	}
	b := cachekey.New("k")
	if c.AddTo(b); b.Key() != cachekey.New("k").Key() {
		t.Error("no command has a key")
	}
}

// loadsIn returns what the image of a project loads.
func loadsIn(t *testing.T, project *workdir.Tree) []firmware.Segment {
	t.Helper()
	file := readFile(t, filepath.Join(project.Dir, "build", "firmware.elf"))
	f, err := elf.NewFile(bytes.NewReader(file))
	must(t, err)
	loads, err := firmware.Loads(f, "firmware.elf")
	must(t, err)
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
		{[]string{"mkfifo", "{out.bin}"}, out, failure.Link},
		{[]string{"ln", "-s", "/etc/passwd", "{out.bin}"}, out, failure.Link},
		{[]string{"truncate", "-s", "67108865", "{out.bin}"}, "out.bin is larger than 64 MiB", failure.Link},
		{[]string{"dd", "bs=16", "count=1", "if={bin}", "of={out.bin}"}, "the byte at 0x08000010 is missing", failure.Link},
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
			wantError(t, err, c.class, "post_link of board kiln", c.want)
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
	wantError(t, c.Run(t.Context(), project, t.TempDir(), nil), "", "reaches into region boot")
}
