// Package release makes the folder of a finished firmware: the image in its forms, sizes, digests, a bill of materials
// and licences. Equal inputs give equal bytes: nothing in it depends on time, place, user or computer.
//
// It does not build: package project does. It signs nothing.
package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/plainfile"
	"github.com/boardsmith/boardsmith/project"
)

// The files of every release, beside those of the image.
const (
	aboutFile  = "release.json"
	sbomFile   = "sbom.cdx.json"
	sumsFile   = "SHA256SUMS"
	readmeFile = "README.md"
)

// aboutFormat is the version of release.json; docs/release.md describes it.
const aboutFormat = 1

// A File is one file of a release.
type File struct {
	Name string // slash path in the release
	Data []byte
}

// A Release is the content of a release's folder.
type Release struct {
	Files []File // sorted by name
}

// about is release.json.
type about struct {
	Format  int               `json:"format"`
	App     string            `json:"app"`
	Board   string            `json:"board"`
	Model   string            `json:"model"`
	Archive string            `json:"archive"`
	Digest  string            `json:"archive_sha256"`
	BuildID string            `json:"build_id,omitempty"`
	Options []string          `json:"options"`
	Edited  []string          `json:"edited"` // generated files that were changed by hand
	Parts   []part            `json:"parts"`
	Files   map[string]string `json:"files"` // name to SHA-256
}

type part struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	Licence string `json:"licence,omitempty"`
	URL     string `json:"url,omitempty"`
}

// Of returns the release of the project's last build, i. It has the raw bytes and Intel HEX if the build made them
// (project.Builder.Forms). Errors: class config if i is not that build; those of Project.Usage.
func Of(p *project.Project, i *image.Image) (*Release, error) {
	parts, err := p.Parts(i)
	if err != nil {
		return nil, err
	}
	r := &Release{}
	for _, f := range []struct{ name, path string }{
		{"firmware.elf", i.Path}, {"firmware.bin", i.Bin}, {"firmware.hex", i.Hex},
	} {
		if f.path == "" {
			continue
		}
		data, err := os.ReadFile(f.path)
		if err != nil {
			return nil, plainfile.Error("read", f.path, err)
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
	if now, err := p.Built(); err != nil || now == nil || now.Digest != i.Digest || r.digest("firmware.elf") != i.Digest {
		return nil, errors.Join(err, failure.New(failure.Config, "build again", "%v was replaced meanwhile", i))
	}
	a := about{
		App: appOf(p), Board: p.Board().Name, Model: p.ModelName(), Archive: p.ArchiveName(), Digest: p.ArchiveDigest(),
		BuildID: i.ID(), Options: optionsOf(p), Edited: append([]string{}, i.Edited...),
	}
	return r, r.complete(a, parts, "firmware.elf")
}

func (r *Release) add(name string, data []byte) { r.Files = append(r.Files, File{name, data}) }

// complete adds what describes the other files. main is the file that the bill of materials is for.
func (r *Release) complete(a about, parts []project.Part, main string) error {
	a.Format = aboutFormat
	for _, p := range parts {
		a.Parts = append(a.Parts, part(p))
	}
	bom, err := billOf(a, main, r.digest(main))
	if err != nil {
		return err
	}
	r.add(sbomFile, bom)
	if err := r.addLicences(parts); err != nil {
		return err
	}
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
	slices.SortFunc(r.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var sums bytes.Buffer
	for _, f := range r.Files {
		fmt.Fprintf(&sums, "%s  %s\n", r.digest(f.Name), f.Name)
	}
	r.Files = slices.Insert(r.Files, 0, File{sumsFile, sums.Bytes()})
	slices.SortFunc(r.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return nil
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

// IsIn reports whether the folder has exactly these files.
func (r *Release) IsIn(dir string) bool {
	want := map[string][]byte{}
	for _, f := range r.Files {
		want[f.Name] = f.Data
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		data, err := os.ReadFile(path)
		if w, ok := want[name]; err != nil || !e.Type().IsRegular() || !ok || !bytes.Equal(data, w) {
			return errors.Join(err, errors.New("differs"))
		}
		delete(want, name)
		return nil
	})
	return err == nil && len(want) == 0
}

// Write writes the release to a new folder, which appears with all files or not at all. The folder may exist if it is
// empty or, with replace, if it is a release, which is then removed. Errors have class config.
func (r *Release) Write(dir string, replace bool) error {
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return plainfile.Error("write", dir, err)
	case len(entries) == 0:
	case !isRelease(dir):
		return failure.New(failure.Config, "choose another folder", "%s is not empty, and it is no release", dir)
	case !replace:
		return failure.New(failure.Config, "remove it, or choose another folder", "%s is another release", dir)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return plainfile.Error("write", parent, err)
	}
	made, err := os.MkdirTemp(parent, ".release-")
	if err != nil {
		return plainfile.Error("write", parent, err)
	}
	defer os.RemoveAll(made)
	for _, f := range r.Files {
		path := filepath.Join(made, "new", filepath.FromSlash(f.Name))
		if err := writeFile(path, f.Data); err != nil {
			return plainfile.Error("write", path, err)
		}
	}
	if len(entries) > 0 {
		err = os.Rename(dir, filepath.Join(made, "old"))
	} else if err = os.Remove(dir); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = os.Rename(filepath.Join(made, "new"), dir)
	}
	if err != nil {
		return plainfile.Error("write", dir, err)
	}
	return nil
}

func isRelease(dir string) bool {
	for _, name := range []string{aboutFile, sumsFile} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// writeFile writes a file and its folders, and waits until the file is on the disk.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
