// This file opens models in plain C, which package plainc packs as archives.

package mlf

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/plainc"
)

// readDescribed returns the archive of the model that a file describes, or the file plainc.File in a folder; nil if the
// path is neither a folder nor a .json file.
func readDescribed(file string) ([]byte, error) {
	info, err := os.Stat(file)
	dir, name := file, plainc.File
	switch {
	case err != nil:
		return nil, nil // Open reports it
	case !info.IsDir() && filepath.Ext(file) != ".json":
		return nil, nil
	case !info.IsDir():
		target, err := filepath.EvalSymlinks(file) // the files lie beside the description, not beside a link to it
		if err != nil {
			return nil, failure.Errorf(failure.Config, "model %s: %w", file, err)
		}
		dir, name = filepath.Split(target)
		dir = filepath.Clean(dir)
	default:
		file = filepath.Join(file, name)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", file, err)
	}
	defer root.Close()
	return plainc.Pack(root.FS(), name, file)
}

// packDescribed returns the archive of the model that a file of a, of the name plainc.File, describes; nil without one.
func (a *Archive) packDescribed() ([]byte, error) {
	top := ""
	for _, f := range a.Files {
		switch dir, base := path.Split(f.Name); {
		case base == metadataFile:
			return nil, nil
		case base == plainc.File && (top == "" || len(f.Name) < len(top)):
			top = dir + base
		}
	}
	if top == "" {
		return nil, nil
	}
	files, err := a.memoryFS()
	if err != nil {
		return nil, a.fault("", "", "%w", err)
	}
	if dir := path.Dir(top); dir != "." {
		if files, err = fs.Sub(files, dir); err != nil {
			return nil, a.fault("", "", "%w", err)
		}
	}
	return plainc.Pack(files, plainc.File, a.Path+": "+top)
}

// memoryFS returns the archive's files as a file system.
func (a *Archive) memoryFS() (fs.FS, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range a.Files {
		to, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Store})
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
}
