// Package release makes the folder of a finished firmware: the image in its forms, sizes, digests, a bill of materials
// and licences. Equal inputs give equal bytes: nothing in it depends on time, place, user or computer.
//
// It does not build: package project does. It signs nothing.
package release

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/files/atomicfolder"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/project"
)

// The files of every release, beside those of the image.
const (
	aboutFile  = "release.json"
	sbomFile   = "sbom.cdx.json"
	sumsFile   = atomicfolder.SumsFile
	readmeFile = "README.md"
)

// aboutFormat is the version of release.json; docs/release.md describes it.
const aboutFormat = 1

// A File is one file of a release: a slash path in it, and its bytes.
type File = atomicfolder.File

// A Release is the content of a release's folder.
type Release struct {
	Files []File // sorted by name
}

// about is release.json.
type about struct {
	Format     int               `json:"format"`
	Product    string            `json:"product,omitempty"`
	Version    string            `json:"version,omitempty"` // the product's
	Commit     string            `json:"commit,omitempty"`  // of the product's repository
	Changed    string            `json:"changed,omitempty"` // digest of its files that differ from the commit
	App        string            `json:"app"`
	Board      string            `json:"board"`
	Models     []model           `json:"models"`
	BuildID    string            `json:"build_id,omitempty"`
	Options    []string          `json:"options"`
	Edited     []string          `json:"edited"` // generated files that were changed by hand
	Boardsmith version           `json:"boardsmith"`
	Parts      []part            `json:"parts"`
	Licences   []licence         `json:"licences"`
	Files      map[string]string `json:"files"` // name to SHA-256
}

type model struct {
	Name    string `json:"name"`
	Archive string `json:"archive"`
	Digest  string `json:"archive_sha256"`
}

// Options describe the product that a release is of.
type Options struct {
	Product string // name; "" is the models' names and the board
	Version string // of the product; "" is the firmware's build id
	// of the product's repository, as of Version; "": not known
	Commit, Changed string
	Notices         []File // of the compiler's libraries, for licences/
	// folders with texts of licences, ID.txt each, beside those of the project and boardsmith's own
	Licences []string
	// Boardsmith is this module's version; zero: as Go recorded it in the running program.
	Boardsmith version
}

// Of returns the release of the project's last build, i. It has the raw bytes and Intel HEX if the build made them
// (project.Builder.Forms). Errors: class config if i is not that build; those of Project.Usage.
func Of(p *project.Project, i *image.Image, o Options) (*Release, error) {
	parts, err := projectParts(p, i)
	if err != nil {
		return nil, err
	}
	texts, err := licenceFiles(p)
	if err != nil {
		return nil, err
	}

	r := &Release{}
	for _, f := range []struct{ name, path string }{
		{"firmware.elf", i.Path}, {"firmware.bin", i.Bin}, {"firmware.hex", i.Hex}, {filepath.Base(i.ExtraBin), i.ExtraBin},
	} {
		if f.path == "" {
			continue
		}
		data, err := os.ReadFile(f.path)
		if err != nil {
			return nil, regularfile.Error("read", f.path, err)
		}
		r.add(f.name, data)
	}

	usage, err := p.Usage(i)
	if err != nil {
		return nil, err
	}
	if err := r.addSizes(usage); err != nil {
		return nil, err
	}

	// The files were read one after the other: a build may have replaced some meanwhile.
	if now, err := p.Built(); err != nil || now == nil || now.Digest != i.Digest || r.digest("firmware.elf") != i.Digest {
		return nil, errors.Join(err, failure.New(failure.Config, "build again", "%v was replaced meanwhile", i))
	}

	a := about{
		App: appOf(p), Board: p.Board().Name, Models: []model{{p.ModelName(), p.ArchiveName(), p.ArchiveDigest()}},
		BuildID: i.ID(), Options: p.Options().Words(), Edited: append([]string{}, i.Edited...),
	}

	return r, r.complete(o, a, parts, texts, "firmware.elf", cyclonedx.ComponentTypeFirmware)
}

func (r *Release) add(name string, data []byte) {
	r.Files = append(r.Files, File{Name: name, Data: data})
}

// complete adds what describes the other files. main is the file that the bill of materials is for, and kind its type.
func (r *Release) complete(o Options, a about, parts []part, texts []licenceFile, main string,
	kind cyclonedx.ComponentType,
) (err error) {
	a.Format, a.Product, a.Version, a.Boardsmith = aboutFormat, o.Product, o.Version, o.Boardsmith
	a.Commit, a.Changed = o.Commit, o.Changed
	if a.Boardsmith == (version{}) {
		a.Boardsmith = runningVersion()
	}

	for _, p := range parts {
		a.Parts = append(a.Parts, a.part(p))
	}

	bom, err := billOf(a, main, r.digest(main), kind)
	if err != nil {
		return err
	}
	r.add(sbomFile, bom)

	if a.Licences, err = r.addLicences(parts, texts, o.Licences); err != nil {
		return err
	}
	for _, n := range o.Notices {
		r.add("licences/"+n.Name, n.Data)
	}

	// Each of these describes the files so far: README.md, release.json, SHA256SUMS.
	r.add(readmeFile, readme(a, r.Files))
	a.Files = map[string]string{}
	for _, f := range r.Files {
		a.Files[f.Name] = r.digest(f.Name)
	}

	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", aboutFile, err)
	}
	r.add(aboutFile, append(text, '\n'))
	r.Files = append(r.Files, atomicfolder.Sums(r.Files))
	slices.SortFunc(r.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// part returns a part with its package URL: boardsmith's own files have its version, and the user's the product's name
// and version.
func (a *about) part(p part) part {
	switch {
	case p.Shipped:
		p.Version = a.Boardsmith.text()
	case p.Kind == partUser:
		p.Name, p.Version = cmp.Or(a.Product, p.Name), a.Version
	}

	p.PURL = a.Boardsmith.purlOf(p)
	return p
}

// digest returns the SHA-256 of a file, in hexadecimal.
func (r *Release) digest(name string) string {
	for _, f := range r.Files {
		if f.Name == name {
			sum := sha256.Sum256(f.Data)
			return hex.EncodeToString(sum[:])
		}
	}
	return ""
}

// Digest returns the SHA-256 of SHA256SUMS, in hexadecimal: it stands for the whole release.
func (r *Release) Digest() string { return r.digest(sumsFile) }

// Matches reports whether the folder has exactly these files.
func (r *Release) Matches(dir string) bool { return atomicfolder.Has(dir, r.Files) }

// Write writes the release to a new folder, which appears with all files or not at all. The folder may exist if it is
// empty or, with replace, if it is a release and nothing else, which is then removed. Errors have class config
// unless ctx ends; nothing is replaced then.
func (r *Release) Write(ctx context.Context, dir string, replace bool) error {
	return atomicfolder.Write(ctx, dir, r.Files, func() error {
		listed, err := atomicfolder.Listed(dir)
		if err != nil {
			return err
		}

		foreign, err := atomicfolder.Foreign(dir, listed)
		_, isRelease := listed[aboutFile]

		switch {
		case err != nil:
			return err
		case !isRelease:
			return failure.New(failure.Config, "choose another folder", "%s is not empty, and it is no release", dir)
		case !replace:
			return failure.New(failure.Config, "remove it, or choose another folder", "%s is another release", dir)
		case foreign != "":
			return failure.New(failure.Config, "move it elsewhere, or choose another folder",
				"%s has %s, which is not of the release", dir, foreign)
		}
		return nil
	})
}
