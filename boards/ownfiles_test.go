package boards

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
)

// ownShelf writes a chip, and a board that has some more fields.
func ownShelf(t *testing.T, args, fields string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"chip/mine.json": `{"inherits": "cpu/cortex-m4f", "memory": [
			{"name": "code", "origin": 0, "size": "0x400000", "exec": true}, {"name": "ram", "origin": "0x20000000",
			"size": "0x400000"}], "place": {"code": "code", "data": "ram"}, "linker_script": "mine.ld", "startup": "start.S",
			"include": ["inc"], "libraries": ["./dsp"], "post_link": ["tool", "{bin}", "{out.bin}"]}`,
		"mine.json": `{
  "doc": "mine", "inherits": "chip/mine", "arena_kib": 64,
  "link": {"kind": "qemu", "program": "qemu-system-arm", "args": ["ARGS"]},
  "flash": {"programmer": "none"}` + fields + `}`,
	} {
		path := filepath.Join(dir, "boards", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(text, "ARGS", args, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOwnFiles: paths are in the folder of the file that has them; a board replaces or extends what its chip names.
func TestOwnFiles(t *testing.T) {
	t.Parallel()
	dir := ownShelf(t, "file={board}/a", "")
	b, err := Find("mine", []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	chip := filepath.Join(dir, "boards", "chip")
	if b.LinkerScript.Name != "mine.ld" || b.LinkerScript.Dir != chip || b.LinkerScript.At.Line != 3 ||
		b.Startup.Name != "start.S" || b.Include[0].Dir != chip || b.Libraries[0].Name != "./dsp" ||
		b.PostLink.Dir != chip || b.PostLink.Writes() != boardfile.OutBinWord || b.Link.Dir != filepath.Join(dir, "boards") {
		t.Errorf("%+v", b)
	}
	own := ownShelf(t, "", `, "linker_script": "other.ld", "startup": "", "include": ["more"],
		"post_link": ["{board}/sign", "--key={board}/keys/a.pem", "$KEY", "{hex}", "{out.hex}"]`)
	if b, err = Find("mine", []string{own}); err != nil {
		t.Fatal(err)
	}
	if b.LinkerScript.Dir != filepath.Join(own, "boards") || b.Startup != (Source{}) || len(b.Include) != 2 ||
		b.PostLink.Writes() != boardfile.OutHexWord || !slices.Equal(b.PostLink.Variables(), []string{"KEY"}) ||
		!slices.Equal(boardfile.FilesIn(b.PostLink.Words), []string{"sign", "keys/a.pem"}) {
		t.Errorf("%+v", b)
	}
}

// TestOwnErrors: what is wrong with a board's own files is an error with file and line.
func TestOwnErrors(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		`"linker_scrip": "a.ld"`:                       `field "linker_scrip" is not known; did you mean "linker_script"?`,
		`"linker_script": "../a.ld"`:                   `linker_script: "../a.ld" is not a relative path of plain names`,
		`"linker_script": "/a.ld"`:                     `is not a relative path`,
		`"linker_script": "a.txt"`:                     `linker_script: "a.txt" is none of .ld, .lds, .x, .S`,
		`"linker_script": 5`:                           `linker_script: a number, where a text belongs`,
		`"startup": "a.h"`:                             `startup: "a.h" is none of .c, .S`,
		`"sources": ["x/../../a.c"]`:                   `sources[0]: "x/../../a.c" is not a relative path`,
		`"include": ["../inc"]`:                        `include[0]: "../inc" is not a relative path`,
		`"include": "inc"`:                             `a text, where a list belongs`,
		`"libraries": ["../dsp"]`:                      `libraries[0]: "../dsp" is not the name of a library`,
		`"libraries": [""]`:                            `libraries[0]: "" is not the name of a library`,
		`"post_link": ["a", "{bin}", "{out}"]`:         `post_link[2]: "{out}" is not $NAME, or a word with`,
		`"post_link": ["a", "{bin}"]`:                  `post_link: one of {out.bin} and {out.hex} must name the file`,
		`"post_link": ["a", "{out.bin}{out.hex}"]`:     `post_link: one of`,
		`"post_link": ["", "{out.bin}"]`:               `post_link[0]: "" is not $NAME, or a word`,
		`"post_link": ["$SIGNER", "{out.bin}"]`:        `post_link: "$SIGNER" is no program: write a name or {board}/FILE`,
		`"post_link": ["{elf}", "{out.bin}"]`:          `post_link: "{elf}" is no program`,
		`"post_link": ["{board}/a{bin}", "{out.bin}"]`: `post_link: "{board}/a{bin}" is no program`,
		`"post_link": ["./{board}/a", "{out.bin}"]`:    `post_link: "./{board}/a" is no program`,
		`"post_link": ["a", "{board}", "{out.bin}"]`:   `post_link[1]: "{board}" is not $NAME, or a word`,
		`"post_link": ["{board}/../a", "{out.bin}"]`:   `post_link[0]: "{board}/../a" is not $NAME, or a word`,
		`"post_link": ["a", "$KEY/x", "{out.bin}"]`:    `post_link[1]: "$KEY/x" is not $NAME, or a word`,
		`"post_link": ["{board}/a/../b", "{out.bin}"]`: `post_link: "a/../b" is not a relative path`,
		`"post_link": "a {out.bin}"`:                   `post_link: a text, where a list belongs`,
		`"memory": [{"name": "code", "origin": 0, "size": 4096, "exec": true, "reserved": true},
			{"name": "ram", "origin": "0x20000000", "size": "0x400000"}], "model_at": 0`: `place.code: region "code" is reserved`,
		`"memory": [], "place": {"code": "", "data": ""}`: `memory, place.code, place.data: missing`,
	} {
		dir := ownShelf(t, "", ",\n"+fields)
		_, err := Find("mine", []string{dir})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "mine.json:") ||
			failure.Of(err) != failure.Config {
			t.Errorf("%s: %v", fields, err)
		}
	}
}

// TestOwnArgs: a file that an argument of an emulator names is beside the board file.
func TestOwnArgs(t *testing.T) {
	t.Parallel()
	_, err := Find("mine", []string{ownShelf(t, "loader,file={board}/../a,addr=1", "")})
	if err == nil || !strings.Contains(err.Error(), `link.args: "../a" is not a relative path`) {
		t.Error(err)
	}
}

// TestReadBeside: a link that leads out of the folder is not followed, and a pipe is not read.
func TestReadBeside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	inside := filepath.Join(dir, "in")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	write("secret", "secret")
	write("in/a.ld", "text")
	for name, to := range map[string]string{"out": "../secret", "same": "a.ld", "abs": filepath.Join(dir, "secret")} {
		if err := os.Symlink(to, filepath.Join(inside, name)); err != nil {
			t.Skip(err)
		}
	}
	for name, want := range map[string]string{"a.ld": "text", "same": "text", "out": "", "abs": "", "none": "", ".": ""} {
		got, _, err := boardfile.ReadBeside(inside, name)
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if err := os.Symlink("none", filepath.Join(inside, "dangling")); err != nil {
		t.Fatal(err)
	}
	all, err := boardfile.FilesBeside(inside, ".", func(string) bool { return true })
	if err != nil || !slices.Equal(all, []string{"a.ld", "same"}) {
		t.Errorf("%q, %v", all, err)
	}
}
