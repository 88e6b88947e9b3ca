// This file lists what a project's firmware is made of, and by which tools.

package project

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/files/plainfile"
	"github.com/boardsmith/boardsmith/internal/generator"
	"github.com/boardsmith/boardsmith/internal/spdx"
	"github.com/boardsmith/boardsmith/templates"
)

// Kinds of parts.
const (
	PartModel     = "model"     // the archive
	PartModelCode = "code"      // the model's C and objects in the project
	PartRuntime   = "runtime"   // boardsmith's C runtime and headers
	PartTemplate  = "template"  // the template's C: port, start-up, main
	PartGenerated = "generated" // settings that Generate made of the board and the options
	PartBoard     = "board"     // a board's own C, linker script and start-up
	PartLibrary   = "library"   // C that the firmware is linked with
	PartToolchain = "toolchain" // a library that comes with the compiler
	PartTool      = "tool"      // a program that made the firmware
	PartUser      = "user"      // files that the user added to the project, or changed in it
)

// RuntimeName is the name of the part that is boardsmith's runtime.
const RuntimeName = "boardsmith runtime"

// GeneratedLicence is the licence of what boardsmith generates.
const GeneratedLicence = "0BSD"

// NoLicence is the licence of files that do not name one, as the SPDX specification writes it.
const NoLicence = spdx.NoAssertion

// A Part is something that a firmware is made of, or that made it: of files, those of one origin that name one licence.
// No field depends on a place in the file system.
type Part struct {
	Kind    string
	Name    string
	Version string     // "" if it has none
	SHA256  string     // of an archive or a library, else of the names and digests of all its files; "" for a tool
	Licence string     // as the files write it, mostly an SPDX expression; NoLicence; "" of a tool
	URL     string     // "" unless it comes from a git repository
	Shipped bool       // boardsmith's own files, unchanged
	Files   []PartFile // of PartUser; sorted by name
}

// A PartFile is a file of a part.
type PartFile struct {
	Name   string // slash path in the project
	SHA256 string
}

// Parts returns what the image of the project's last build is made of, in a fixed order: equal inputs give equal parts.
// Errors: class config if i is not that image.
func (p *Project) Parts(i *image.Image) ([]Part, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	t, err := openTree(p.dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	last := p.lastBuild(t)
	if last == nil || last.Digest != i.Digest {
		return nil, failure.New(failure.Config, "build again", "%v is not the project's last build", i)
	}
	parts := []Part{{
		Kind: PartModel, Name: p.ArchiveName(), Version: p.ModelName(), SHA256: p.ArchiveDigest(), Licence: NoLicence,
	}}
	groups := map[origin][]PartFile{}
	for name, sum := range last.Inputs {
		o := p.originOf(name, sum)
		if err := o.addLicence(t, name); err != nil {
			return nil, err
		}
		groups[o] = append(groups[o], PartFile{name, sum})
	}
	for o, files := range groups {
		parts = append(parts, o.part(files))
	}
	for _, tool := range last.Tools {
		parts = append(parts, toolPart(tool))
	}
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(slices.Index(partOrder, a.Kind), slices.Index(partOrder, b.Kind)),
			strings.Compare(a.Name, b.Name), strings.Compare(a.Licence, b.Licence), strings.Compare(a.SHA256, b.SHA256))
	})
	return parts, nil
}

var partOrder = []string{
	PartUser, PartModel, PartModelCode, PartRuntime, PartTemplate, PartGenerated, PartBoard, PartLibrary, PartToolchain,
	PartTool,
}

// isShipped reports whether a file has the content of one of boardsmith's own.
func isShipped(digest string) bool { return shipped()[digest] }

var shipped = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for _, files := range []fs.FS{templates.FS, crt.FS} {
		_ = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if data, failed := fs.ReadFile(files, name); err == nil && failed == nil {
				all[image.DigestOf(data)] = true
			}
			return nil
		})
	}
	return all
})

// An origin is what the files of one part have in common: a Part without files.
type origin struct {
	kind, name, version, licence, url string
	shipped                           bool
}

// originOf returns the origin of an input with its digest in the last build. The licence is that of files that
// name none, or "".
func (p *Project) originOf(name, sum string) origin {
	first, rest, _ := strings.Cut(name, "/")
	switch {
	case p.state.Files[name] != sum: // Generate did not write it, or not so
		return origin{kind: PartUser, name: p.ModelName()}
	case p.folders().InModel(name):
		return origin{kind: PartModelCode, name: p.ModelName()}
	case p.folders().InRuntime(name):
		return origin{kind: PartRuntime, name: RuntimeName, shipped: isShipped(sum)}
	case first == generator.Libraries:
		return p.libraryOrigin(rest)
	case first == generator.Board:
		return origin{kind: PartBoard, name: p.state.Board.Name}
	case slices.Contains(p.state.Template.Generate, name):
		return origin{kind: PartGenerated, name: p.state.Board.Name, licence: GeneratedLicence}
	}
	o := origin{kind: PartTemplate, name: p.state.Template.Name, shipped: isShipped(sum)}
	if from := p.state.Template.Origin; from != nil && !o.shipped {
		o.version, o.url = from.Commit, from.URL
	}
	return o
}

// libraryOrigin returns the origin of a file below the folder of libraries.
func (p *Project) libraryOrigin(name string) origin {
	of, _, _ := strings.Cut(name, "/")
	o := origin{kind: PartLibrary, name: of}
	for _, l := range p.state.Libraries {
		if l.Name == of {
			o.version, o.url, o.licence = l.Commit, l.URL, l.Licence
		}
	}
	return o
}

// addLicence sets the licence that the file beside a file names, or it itself in its first lines, if one does.
func (o *origin) addLicence(t *tree, name string) error {
	own, err := t.licence(name)
	if err != nil {
		return err
	}
	beside, err := t.licence(name + spdx.Sidecar)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.licence = cmp.Or(beside, own, o.licence, NoLicence)
	return nil
}

func (t *tree) licence(name string) (string, error) {
	f, err := t.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|plainfile.NoWait, 0)
	if err != nil {
		return "", t.error("read", name, err)
	}
	defer f.Close()
	licence, err := spdx.Of(f)
	return licence, t.error("read", name, err)
}

func (o origin) part(files []PartFile) Part {
	slices.SortFunc(files, func(a, b PartFile) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %s\n", f.Name, f.SHA256)
	}
	part := Part{
		Kind: o.kind, Name: o.name, Version: o.version, SHA256: hex.EncodeToString(h.Sum(nil)), Licence: o.licence,
		URL: o.url, Shipped: o.shipped,
	}
	if o.kind == PartUser {
		part.Files = files
	}
	return part
}

// toolPart returns a tool, or a library of the compiler, which is known by its digest.
func toolPart(t toolState) Part {
	if sum, ok := strings.CutPrefix(t.Version, "SHA-256 "); ok {
		if path.Ext(t.Name) == ".a" || path.Ext(t.Name) == ".o" {
			return Part{Kind: PartToolchain, Name: t.Name, SHA256: sum, Licence: NoLicence}
		}
		return Part{Kind: PartTool, Name: t.Name, SHA256: sum}
	}
	return Part{Kind: PartTool, Name: t.Name, Version: t.Version}
}

// LicenceFolder is the folder with the texts of a project's, library's or template's licences, ID.txt each, as in the
// REUSE specification 3.3.
const LicenceFolder = "LICENSES"

// licenceFiles are patterns of the files with licences at the top of a project or library.
var licenceFiles = []string{"LICEN[CS]E*", "COPYING*", "NOTICE*", LicenceFolder + "/*.txt"}

// maxLicenceBytes limits a file of licences; the longest text of the SPDX list has 110 KiB.
const maxLicenceBytes = 1 << 20

// A LicenceText is a file with a licence, or a notice.
type LicenceText struct {
	Name string // slash path in the project
	ID   string // the licence's SPDX identifier, of a file in LicenceFolder; else ""
	Text []byte
}

// LicenceTexts returns the texts of licences, and the files LICENSE, COPYING and NOTICE, of the project and of its
// libraries, sorted by name.
func (p *Project) LicenceTexts() (all []LicenceText, err error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	t, err := openTree(p.dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	folders := []string{"."}
	for _, l := range p.state.Libraries {
		folders = append(folders, path.Join(generator.Libraries, l.Name))
	}
	for _, folder := range folders {
		for _, pattern := range licenceFiles {
			names, err := fs.Glob(t.root.FS(), path.Join(folder, pattern))
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				text, err := t.licenceText(name)
				if err != nil {
					return nil, err
				}
				if text != nil {
					all = append(all, LicenceText{name, licenceIn(name), text})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b LicenceText) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// licenceIn returns the licence whose text a file has, by its name; "" of a notice.
func licenceIn(name string) string {
	if path.Base(path.Dir(name)) != LicenceFolder {
		return ""
	}
	return strings.TrimSuffix(path.Base(name), ".txt")
}

// licenceText reads a file, or nothing if it is a folder, such as LICENSES.
func (t *tree) licenceText(name string) ([]byte, error) {
	f, err := t.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|plainfile.NoWait, 0)
	if err != nil {
		return nil, t.error("read", name, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxLicenceBytes+1))
	if err == nil && len(text) > maxLicenceBytes {
		err = errors.New("larger than any licence")
	}
	if err != nil {
		return nil, t.error("read", name, err)
	}
	return text, nil
}
