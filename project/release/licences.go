// This file collects the texts of the licences that the parts name.

package release

import (
	"cmp"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/project/release/internal/spdx"
)

//go:embed licences/*.txt
var licences embed.FS

// A licence is one that a part names.
type licence struct {
	ID   string `json:"id"`             // an SPDX identifier, or the text that files have in its place
	File string `json:"file,omitempty"` // of the release; "": it has no text of it
}

// addLicences adds the texts of the licences that the parts name, and notices of the project, which name authors. It
// takes the texts from the project, else from the folders, else its own, and returns the licences.
func (r *Release) addLicences(parts []part, texts []licenceFile, folders []string) ([]licence, error) {
	all := []licence{}
	for _, id := range licenceIDs(parts) {
		text, err := licenceText(id, texts, folders)
		if err != nil {
			return nil, err
		}

		l := licence{ID: id}
		if text != nil {
			l.File = "licences/" + id + ".txt"
			r.add(l.File, text)
		}
		all = append(all, l)
	}

	for _, t := range texts {
		// A text that is no licence's is a notice.
		if t.ID == "" {
			r.add("licences/"+t.Name, t.Text)
		}
	}
	return all, nil
}

// licenceIDs returns the identifiers in the parts' licences, sorted; of a licence that is no expression, its text.
func licenceIDs(parts []part) (all []string) {
	for _, p := range parts {
		switch ids := spdx.IDs(p.Licence); {
		case ids != nil:
			all = append(all, ids...)
		case p.Licence != "" && p.Licence != noLicence:
			all = append(all, p.Licence)
		}
	}

	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(strings.Compare(strings.ToLower(a), strings.ToLower(b)), strings.Compare(a, b))
	})
	return slices.CompactFunc(all, strings.EqualFold) // as SPDX compares them
}

// licenceText returns the text of a licence, or nil if there is none.
func licenceText(id string, texts []licenceFile, folders []string) ([]byte, error) {
	if !spdx.IsExpression(id) {
		return nil, nil // no file has its name
	}

	for _, t := range texts {
		if strings.EqualFold(t.ID, id) {
			return t.Text, nil
		}
	}

	for _, folder := range folders {
		text, err := textIn(os.DirFS(folder), ".", id)
		if text != nil || err != nil {
			return text, regularfile.Error("read", folder, err)
		}
	}

	return textIn(licences, "licences", id)
}

// textIn returns the text of a licence in a folder, or nil if there is none.
func textIn(f fs.FS, folder, id string) ([]byte, error) {
	all, err := fs.ReadDir(f, folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	for _, e := range all {
		if strings.EqualFold(e.Name(), id+".txt") {
			return fs.ReadFile(f, path.Join(folder, e.Name()))
		}
	}
	return nil, nil
}

// missingTexts lists the licences without a text.
func missingTexts(all []licence) (ids []string) {
	for _, l := range all {
		if l.File == "" {
			ids = append(ids, l.ID)
		}
	}
	return ids
}
