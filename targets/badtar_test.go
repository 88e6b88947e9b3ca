package targets

import (
	"archive/tar"
	"bytes"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/boardsmith/boardsmith/examples/samples"
)

// badTar KIND FILE writes an archive that must be refused: the bundled one with one thing wrong.
func badTar(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: badtar KIND FILE")
	}
	data := samples.Archive()
	add := func(h tar.Header, content string) []byte {
		h.Size = int64(len(content))
		h.Mode = 0o644
		return withMember(ts, data, h, content)
	}
	switch args[0] {
	case "cut":
		data = data[:len(data)/2]
	case "noise":
		data = bytes.Repeat([]byte("no tar "), 300)
	case "empty":
		data = nil
	case "version":
		data = bytes.Replace(data, []byte(`"version": 7`), []byte(`"version": 9`), 1)
	case "climbs":
		data = add(tar.Header{Name: "../../climbed.c"}, "int x;\n")
	case "absolute":
		data = add(tar.Header{Name: "/tmp/climbed.c"}, "int x;\n")
	case "link":
		data = add(tar.Header{Name: "./l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, "")
	case "device":
		data = add(tar.Header{Name: "./null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, "")
	default:
		ts.Fatalf("no such kind of archive: %s", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o644))
}

// withMember is a tar with one member more, at its beginning.
func withMember(ts *testscript.TestScript, data []byte, h tar.Header, content string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	ts.Check(w.WriteHeader(&h))
	_, err := w.Write([]byte(content))
	ts.Check(err)
	ts.Check(w.Flush())
	return append(b.Bytes(), data...)
}
