package boards

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
)

// ownShelf writes a chip, and a board that has some more fields.
func ownShelf(t *testing.T, args, fields string) string {
	t.Helper()
	return boardstest.Shelf(t, map[string]string{
		"chip/mine.json": `{"inherits": "cpu/cortex-m4f", "memory": [
			{"name": "code", "origin": 0, "size": "0x400000", "exec": true}, {"name": "ram", "origin": "0x20000000",
			"size": "0x400000"}], "place": {"code": "code", "data": "ram"}, "linker_script": "mine.ld", "startup": "start.S",
			"include": ["inc"], "libraries": ["./dsp"], "post_link": ["tool", "{bin}", "{out.bin}"]}`,
		"mine.json": `{
		"doc": "mine", "inherits": "chip/mine", "arena_kib": 64,
		"link": {"kind": "qemu", "program": "qemu-system-arm", "args": ["` + args + `"]},
		"flash": {"programmer": "none"}` + fields + `}`,
	})
}

// TestOwnFiles: paths are in the folder of the file that has them; a board replaces or extends what its chip names.
func TestOwnFiles(t *testing.T) {
	dir := ownShelf(t, "file={board}/a", "")
	b, err := Find("mine", []string{dir})
	must(t, err)
	chip := filepath.Join(dir, "boards", "chip")
	if b.LinkerScript.Name != "mine.ld" || b.LinkerScript.Dir != chip || b.LinkerScript.At.Line != 3 ||
		b.Startup.Name != "start.S" || b.Include[0].Dir != chip || b.Libraries[0].Name != "./dsp" ||
		b.PostLink.Dir != chip || b.PostLink.Writes() != boardfile.OutBinWord || b.Link.Dir != filepath.Join(dir, "boards") {
		t.Errorf("%+v", b)
	}
	own := ownShelf(t, "", `, "linker_script": "other.ld", "startup": "", "include": ["more"],
		"post_link": ["{board}/sign", "--key={board}/keys/a.pem", "$KEY", "{hex}", "{out.hex}"]`)
	b, err = Find("mine", []string{own})
	must(t, err)
	if b.LinkerScript.Dir != filepath.Join(own, "boards") || b.Startup != (Source{}) || len(b.Include) != 2 ||
		b.PostLink.Writes() != boardfile.OutHexWord || !slices.Equal(b.PostLink.Variables(), []string{"KEY"}) ||
		!slices.Equal(boardfile.FilesIn(b.PostLink.Words), []string{"sign", "keys/a.pem"}) {
		t.Errorf("%+v", b)
	}
}

// TestOwnErrors: what is wrong with a board's own files is an error with file and line.
func TestOwnErrors(t *testing.T) {
	for fields, want := range map[string]string{
		`"linker_script": "../a.ld"`:                   `linker_script: "../a.ld" is not a relative path of plain names`,
		`"linker_script": "a.txt"`:                     `linker_script: "a.txt" is none of .ld, .lds, .x, .S`,
		`"startup": "a.h"`:                             `startup: "a.h" is none of .c, .S`,
		`"include": ["../inc"]`:                        `include[0]: "../inc" is not a relative path`,
		`"libraries": ["../dsp"]`:                      `libraries[0]: "../dsp" is not the name of a library`,
		`"post_link": ["a", "{bin}", "{out}"]`:         `post_link[2]: "{out}" is not $NAME, or a word with`,
		`"post_link": ["a", "{bin}"]`:                  `post_link: one of {out.bin} and {out.hex} must name the file`,
		`"post_link": ["$SIGNER", "{out.bin}"]`:        `post_link: "$SIGNER" is no program: write a name or {board}/FILE`,
		`"post_link": ["{board}/a{bin}", "{out.bin}"]`: `post_link: "{board}/a{bin}" is no program`,
		`"post_link": ["a", "{board}", "{out.bin}"]`:   `post_link[1]: "{board}" is not $NAME, or a word`,
		`"post_link": ["{board}/../a", "{out.bin}"]`:   `post_link[0]: "{board}/../a" is not $NAME, or a word`,
		`"post_link": ["a", "$KEY/x", "{out.bin}"]`:    `post_link[1]: "$KEY/x" is not $NAME, or a word`,
		`"post_link": ["{board}/a/../b", "{out.bin}"]`: `post_link: "a/../b" is not a relative path`,
		`"memory": [{"name": "code", "origin": 0, "size": 4096, "exec": true, "reserved": true},
			{"name": "ram", "origin": "0x20000000", "size": "0x400000"}], "model_at": 0`: `place.code: region "code" is reserved`,
	} {
		_, err := Find("mine", []string{ownShelf(t, "", ",\n"+fields)})
		wantError(t, err, failure.Config, want, "mine.json:")
	}
}

// TestOwnArgs: a file that an argument of an emulator names is beside the board file.
func TestOwnArgs(t *testing.T) {
	_, err := Find("mine", []string{ownShelf(t, "loader,file={board}/../a,addr=1", "")})
	wantError(t, err, "", `link.args: "../a" is not a relative path`)
}

// TestReadBeside: a link that leads out of the folder is not followed, and a pipe is not read.
func TestReadBeside(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "in")
	testkit.WriteFiles(t, dir, map[string]string{"secret": "secret", "in/a.ld": "text"})
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
	must(t, os.Symlink("none", filepath.Join(inside, "dangling")))
	all, err := boardfile.FilesBeside(inside, ".", func(string) bool { return true })
	must(t, err)
	testkit.Equal(t, "files", all, []string{"a.ld", "same"})
}
