// This file opens models in plain C, which package modelfile packs as archives.

package mlf

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing/fstest"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/modelfile"
)

// readDescribed returns the archive of the model that a file describes, or the file modelfile.File in a folder; nil if
// the path is neither a folder nor a .json file.
func readDescribed(file string) ([]byte, error) {
	info, err := os.Stat(file)
	dir, name := file, modelfile.File
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
	return modelfile.Pack(root.FS(), name, file)
}

// packDescribed returns the archive of the model that a file of a, of the name modelfile.File, describes; nil without
// one.
func (a *Archive) packDescribed() ([]byte, error) {
	top := ""
	for _, f := range a.Files {
		switch dir, base := path.Split(f.Name); {
		// With metadata.json it is an archive, whatever else it has.
		case base == metadataFile:
			return nil, nil
		// The outermost, if there are several.
		case base == modelfile.File && (top == "" || len(f.Name) < len(top)):
			top = dir + base
		}
	}
	if top == "" {
		return nil, nil
	}

	var files fs.FS = a.memoryFS()
	if dir := path.Dir(top); dir != "." {
		var err error
		if files, err = fs.Sub(files, dir); err != nil {
			return nil, a.fault("", "", "%w", err)
		}
	}
	return modelfile.Pack(files, modelfile.File, a.Path+": "+top)
}

// memoryFS returns the archive's files as a file system.
func (a *Archive) memoryFS() fstest.MapFS {
	files := fstest.MapFS{}
	for _, f := range a.Files {
		files[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o644}
	}
	return files
}
