package mlf_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/operatormemory"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
)

// A packer changes the members of an archive as a tool of another system does.
type packer func(w *tar.Writer, name string, data []byte) error

// packed packs graphModel.
func packed(t *testing.T, pack packer) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range graphModel() {
		must(t, pack(w, f.Name, f.Data))
	}
	must(t, w.Close())
	return b.Bytes()
}

func add(w *tar.Writer, h tar.Header, data []byte) error {
	h.Size = int64(len(data))
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
	}
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func plain(w *tar.Writer, name string, data []byte) error {
	return add(w, tar.Header{Name: name, Mode: 0o644}, data)
}

// withExtra packs further members beside each one.
func withExtra(extra func(name string) string) packer {
	return func(w *tar.Writer, name string, data []byte) error {
		if err := plain(w, extra(name), []byte("\x00\x05\x16\x07 of the system")); err != nil {
			return err
		}
		return plain(w, name, data)
	}
}

// TestPackedElsewhere: an archive that tools of other systems packed has the same files and models.
func TestPackedElsewhere(t *testing.T) {
	want := mlftest.Parse(t, graphModel()...)
	for name, pack := range map[string]packer{
		"folder":     func(w *tar.Writer, name string, data []byte) error { return plain(w, "my model/"+name, data) },
		"two":        func(w *tar.Writer, name string, data []byte) error { return plain(w, "./a/b/"+name, data) },
		"macOS":      withExtra(func(name string) string { return path.Join(path.Dir(name), "._"+path.Base(name)) }),
		"in folder":  withExtra(func(name string) string { return "__MACOSX/my/._" + path.Base(name) }),
		"Finder":     withExtra(func(name string) string { return path.Join("x", name, "..", ".DS_Store") }),
		"Explorer":   withExtra(func(name string) string { return path.Join(path.Dir(name), "Thumbs.db") }),
		"mode":       func(w *tar.Writer, name string, data []byte) error { return add(w, tar.Header{Name: name}, data) },
		"PAX header": paxHeaders,
	} {
		a, err := mlf.Parse("x.tar", packed(t, pack))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.EqualFunc(a.Files, want.Files, func(x, y mlf.File) bool {
			return x.Name == y.Name && bytes.Equal(x.Data, y.Data)
		}) || len(a.Models) != 1 || a.Models[0].Name != want.Models[0].Name {
			t.Errorf("%s: other files than those of the model: %d, want %d", name, len(a.Files), len(want.Files))
		}
	}
}

func paxHeaders(w *tar.Writer, name string, data []byte) error {
	if name == "metadata.json" {
		h := tar.Header{
			Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header",
			PAXRecords: map[string]string{"comment": "x"},
		}
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
	}
	return add(w, tar.Header{
		Name: name, Mode: 0o644, Format: tar.FormatPAX,
		PAXRecords: map[string]string{"SCHILY.xattr.user.note": "x", "LIBARCHIVE.creationtime": "1"},
	}, data)
}

// TestPackedTwice: what no target can have rightly is refused with the member's name and the next step.
func TestPackedTwice(t *testing.T) {
	after := func(h tar.Header) packer {
		return func(w *tar.Writer, name string, data []byte) error {
			if name == "metadata.json" {
				if err := add(w, h, nil); err != nil {
					return err
				}
			}
			return plain(w, name, data)
		}
	}
	for _, c := range []struct {
		pack               packer
		member, want, next string
	}{
		{after(tar.Header{Name: "src/A.relay"}), "src/", "", ""},
		{after(tar.Header{Name: "Metadata.json"}), "etadata.json", "differs from that of", "rename one"},
		{after(tar.Header{Name: "CODEGEN/host/x.h"}), "odegen", "differs from that of", "rename one"},
		{
			after(tar.Header{Name: "l.c", Linkname: "a.c", Typeflag: tar.TypeLink}),
			"l.c", `a link to "a.c"`, "--hard-dereference",
		},
		{
			after(tar.Header{Name: "l.c", Linkname: "a.c", Typeflag: tar.TypeSymlink}),
			"l.c", `a link to "a.c"`, "--dereference",
		},
		{after(tar.Header{Name: "metadata.json"}), "metadata.json", "twice", "each file once"},
	} {
		_, err := mlf.Parse("x.tar", packed(t, c.pack))
		testkit.WantErrorIf(t, c.want != "", err, "", c.want, c.next, c.member)
	}
	outside := mlftest.Tar(t, append([]mlf.File{{Name: "readme.txt", Data: []byte("x")}}, inFolder(graphModel())...)...)
	_, err := mlf.Parse("x.tar", outside)
	testkit.WantError(t, err, "", "readme.txt: it lies beside net/, the folder of metadata.json")
}

func inFolder(files []mlf.File) (in []mlf.File) {
	for _, f := range files {
		in = append(in, mlf.File{Name: "net/" + f.Name, Data: f.Data})
	}
	return in
}

// TestLineEnds: archives whose texts got the line ends of Windows describe the same models.
func TestLineEnds(t *testing.T) {
	for _, path := range slices.Concat(mlftest.Archives(t), mlftest.OtherVersions(t)) {
		a, err := mlf.Open(path)
		must(t, err)
		files := slices.Clone(a.Files)
		for i, f := range files {
			if !strings.HasSuffix(f.Name, ".params") && !strings.HasSuffix(f.Name, ".o") {
				files[i].Data = bytes.ReplaceAll(f.Data, []byte("\n"), []byte("\r\n"))
			}
		}
		b := mlftest.Parse(t, files...)
		facts := func(a *mlf.Archive) (all []string) {
			for _, m := range a.Models {
				all = append(all, fmt.Sprintf("%#v %#v %#v %v %v %#v %v", m.Inputs, m.Outputs, m.Functions, m.ABI, m.Entry,
					m.Pools, m.SystemLib), fmt.Sprint(mlftest.Check(a) == nil))
			}
			return all
		}
		testkit.Equal(t, path, facts(b), facts(a))
	}
}

// TestWorkspaceOfIncluded: what a source includes from the archive, of any ending, is read for what it allocates.
func TestWorkspaceOfIncluded(t *testing.T) {
	const kernel = "static int run(void) {\n  void* p = TVMBackendAllocWorkspace(1, 0, size(), 2, 8);\n" +
		"  return TVMBackendFreeWorkspace(1, 0, p);\n}\n"
	for _, name := range []string{"kernel.h", "kernel.cc", "below/kernel.c", "kernel.def"} {
		path := mlftest.Tiny(t, map[string]string{
			"codegen/host/src/" + name: kernel,
			"codegen/host/src/lib1.c": "#include \"" + name + "\"\n" +
				strings.Replace(mlftest.TinyOperator, "return 0", "return run()", 1),
		})
		a, err := mlf.Open(path)
		must(t, err)
		if w := operatormemory.Of(a, a.Models[0]); len(w.Unknown) == 0 {
			t.Errorf("%s: an allocation of a size that is not a constant is no doubt: %+v", name, w)
		}
	}
}
