// This file lists what a project's firmware is made of, and by which tools.

package release

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

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/library"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/internal/builddir"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
	"github.com/boardsmith/boardsmith/project/release/internal/spdx"
)

// Kinds of parts.
const (
	partModel     = "model"     // the archive
	partModelCode = "code"      // the model's C and objects in the project
	partRuntime   = "runtime"   // boardsmith's C runtime and headers
	partTemplate  = "template"  // the template's C: port, start-up, main
	partGenerated = "generated" // settings that Generate made of the board and the options
	partBoard     = "board"     // a board's own C, linker script and start-up
	partLibrary   = "library"   // C that the firmware is linked with
	partToolchain = "toolchain" // a library that comes with the compiler
	partTool      = "tool"      // a program that made the firmware
	partUser      = "user"      // files that the user added to the project, or changed in it
)

// runtimeName is the name of the part that is boardsmith's runtime.
const runtimeName = "boardsmith runtime"

// generatedLicence is the licence of what boardsmith generates.
const generatedLicence = "0BSD"

// noLicence is the licence of files that do not name one, as the SPDX specification writes it.
const noLicence = spdx.NoAssertion

// A part is something that a firmware is made of, or that made it: of files, those of one origin that name one licence.
// No field depends on a place in the file system.
type part struct {
	Kind    string     `json:"kind"`
	Name    string     `json:"name"`
	Version string     `json:"version,omitempty"` // "" if it has none
	SHA256  string     `json:"sha256,omitempty"`  // of an archive or a library, else of its files' names and digests
	Licence string     `json:"licence,omitempty"` // as the files write it, mostly an SPDX expression; "" of a tool
	URL     string     `json:"url,omitempty"`     // "" unless it comes from a git repository
	PURL    string     `json:"purl,omitempty"`    // set by about.part
	Files   []partFile `json:"files,omitempty"`   // of partUser; sorted by name
	Shipped bool       `json:"-"`                 // boardsmith's own files, unchanged
}

// A partFile is a file of a part.
type partFile struct {
	Name   string `json:"name"` // slash path in the project
	SHA256 string `json:"sha256"`
}

// open returns project.json of an open project, and its folder. Close the folder.
func open(p *project.Project) (*projectfile.State, *workdir.Tree, error) {
	if _, _, err := p.Model(); err != nil { // it was closed: others may have changed the folder
		return nil, nil, err
	}

	s, err := projectfile.Read(p.Dir())
	if err != nil {
		return nil, nil, err
	}
	t, err := workdir.Open(p.Dir())
	return s, t, err
}

// projectParts returns what the image of the project's last build is made of, in a fixed order: equal inputs give equal
// parts. Errors: class config if i is not that image.
func projectParts(p *project.Project, i *image.Image) ([]part, error) {
	s, t, err := open(p)
	if err != nil {
		return nil, err
	}
	defer t.Close()

	last := builddir.Last(t, s)
	if last == nil || last.Digest != i.Digest {
		return nil, failure.New(failure.Config, "build again", "%v is not the project's last build", i)
	}

	parts := []part{{
		Kind: partModel, Name: p.ArchiveName(), SHA256: p.ArchiveDigest(), Licence: noLicence,
	}}

	// Files of one origin, with one licence, are one part.
	groups := map[origin][]partFile{}
	for name, sum := range last.Inputs {
		o := originOf(s, name, sum)
		if err := o.addLicence(t, name); err != nil {
			return nil, err
		}
		groups[o] = append(groups[o], partFile{name, sum})
	}

	for o, files := range groups {
		parts = append(parts, o.part(files))
	}
	for _, tool := range last.Tools {
		parts = append(parts, toolPart(tool))
	}

	// The map of groups has no order.
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(slices.Index(partOrder, a.Kind), slices.Index(partOrder, b.Kind)),
			strings.Compare(a.Name, b.Name), strings.Compare(a.Licence, b.Licence), strings.Compare(a.SHA256, b.SHA256))
	})
	return parts, nil
}

var partOrder = []string{
	partUser, partModel, partModelCode, partRuntime, partTemplate, partGenerated, partBoard, partLibrary, partToolchain,
	partTool,
}

// An origin is what the files of one part have in common: a part without files.
type origin struct {
	kind, name, version, licence, url string
	shipped                           bool
}

// originOf returns the origin of an input with its digest in the last build. The licence is that of files that
// name none, or "".
func originOf(s *projectfile.State, name, sum string) origin {
	first, rest, _ := strings.Cut(name, "/")
	switch {
	case s.Files[name] != sum: // Generate did not write it, or not so
		return origin{kind: partUser, name: s.Model.ModelName}
	case s.Template.Landmarks.Folders.InModel(name):
		return origin{kind: partModelCode, name: s.Model.ModelName}
	case s.Template.Landmarks.Folders.InRuntime(name):
		return origin{kind: partRuntime, name: runtimeName, shipped: templatefile.IsShipped(sum)}
	case first == generator.Libraries:
		return libraryOrigin(s, rest)
	case first == generator.Board:
		return origin{kind: partBoard, name: s.Board.Name}
	case slices.Contains(s.Template.Generate, name):
		return origin{kind: partGenerated, name: s.Board.Name, licence: generatedLicence}
	}
	o := origin{kind: partTemplate, name: s.Template.Name, shipped: templatefile.IsShipped(sum)}

	// Unchanged shipped files are boardsmith's, wherever the template is from.
	if from := s.Template.Origin; from != nil && !o.shipped {
		o.version, o.url = version{Commit: from.Commit, Changed: from.Changed}.text(), from.URL
	}
	return o
}

// libraryOrigin returns the origin of a file below the folder of libraries.
func libraryOrigin(s *projectfile.State, name string) origin {
	of, _, _ := strings.Cut(name, "/")
	o := origin{kind: partLibrary, name: of}
	for _, l := range s.Libraries {
		if l.Name == of {
			o.version, o.url, o.licence = version{Commit: l.Commit, Changed: l.Changed}.text(), l.URL, l.Licence
		}
	}
	return o
}

// addLicence sets the licence that the file beside a file names, or it itself in its first lines, if one does.
func (o *origin) addLicence(t *workdir.Tree, name string) error {
	own, err := licenceOf(t, name)
	if err != nil {
		return err
	}

	beside, err := licenceOf(t, name+spdx.Sidecar)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.licence = cmp.Or(beside, own, o.licence, noLicence)
	return nil
}

func licenceOf(t *workdir.Tree, name string) (string, error) {
	f, err := t.Root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|regularfile.NoWait, 0)
	if err != nil {
		return "", t.Error("read", name, err)
	}
	defer f.Close()
	licence, err := spdx.Of(f)
	return licence, t.Error("read", name, err)
}

func (o origin) part(files []partFile) part {
	slices.SortFunc(files, func(a, b partFile) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %s\n", f.Name, f.SHA256)
	}

	part := part{
		Kind: o.kind, Name: o.name, Version: o.version, SHA256: hex.EncodeToString(h.Sum(nil)), Licence: o.licence,
		URL: o.url, Shipped: o.shipped,
	}

	if o.kind == partUser {
		part.Files = files
	}
	return part
}

// toolPart returns a tool, or a library of the compiler, which is known by its digest.
func toolPart(t buildenv.Identity) part {
	if sum, ok := strings.CutPrefix(t.Version, "SHA-256 "); ok {
		if path.Ext(t.Name) == ".a" || path.Ext(t.Name) == ".o" {
			return part{Kind: partToolchain, Name: t.Name, SHA256: sum, Licence: noLicence}
		}
		return part{Kind: partTool, Name: t.Name, SHA256: sum}
	}
	return part{Kind: partTool, Name: t.Name, Version: t.Version}
}

// maxLicenceBytes limits a file of licences; the longest text of the SPDX list has 110 KiB.
const maxLicenceBytes = 1 << 20

// A licenceFile is a file with a licence, or a notice.
type licenceFile struct {
	Name string // slash path in the project
	ID   string // the licence's SPDX identifier, of a file in LicenceFolder; else ""
	Text []byte
}

// licenceFiles returns the texts of licences, and the files LICENSE, COPYING and NOTICE, of the project and of its
// libraries, sorted by name.
func licenceFiles(p *project.Project) (all []licenceFile, err error) {
	s, t, err := open(p)
	if err != nil {
		return nil, err
	}
	defer t.Close()

	folders := []string{"."}
	for _, l := range s.Libraries {
		folders = append(folders, path.Join(generator.Libraries, l.Name))
	}

	for _, folder := range folders {
		for _, pattern := range library.LicenceFiles {
			names, err := fs.Glob(t.Root.FS(), path.Join(folder, pattern))
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				text, err := readLicence(t, name)
				if err != nil {
					return nil, err
				}
				if text != nil {
					all = append(all, licenceFile{name, licenceIn(name), text})
				}
			}
		}
	}

	slices.SortFunc(all, func(a, b licenceFile) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// licenceIn returns the licence whose text a file has, by its name; "" of a notice.
func licenceIn(name string) string {
	if path.Base(path.Dir(name)) != library.LicenceFolder {
		return ""
	}
	return strings.TrimSuffix(path.Base(name), ".txt")
}

// readLicence reads a file, or nothing if it is a folder, such as LICENSES.
func readLicence(t *workdir.Tree, name string) ([]byte, error) {
	f, err := t.Root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|regularfile.NoWait, 0)
	if err != nil {
		return nil, t.Error("read", name, err)
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
		return nil, t.Error("read", name, err)
	}
	return text, nil
}
