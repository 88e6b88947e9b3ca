// This file declares the plan of a project's folder: its files, and where their content is.

package project

import (
	"io/fs"
	"strings"

	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// A plan is the intended content of the folder.
type plan struct {
	state   projectfile.State // with Files
	files   map[string]planned
	archive *mlf.Archive
	app     *templatefile.App // nil: firmware with an RPC server
	samples []ndarray.Named
}

// planned is one file: from files under a name, or data.
type planned struct {
	files fs.FS
	name  string
	data  []byte
	own   string // the path of data, a file that the board brings
	mode  fs.FileMode
}

func (f planned) read() ([]byte, error) {
	if f.files == nil {
		return f.data, nil
	}
	return fs.ReadFile(f.files, f.name)
}

func modeOf(name string) fs.FileMode {
	if strings.HasSuffix(name, ".sh") {
		return 0o755
	}
	return 0o644
}
