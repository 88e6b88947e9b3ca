// This file declares the plan of a project's folder: the parts it is made of, its files, and where their content is.

package project

import (
	"io/fs"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// A plan is the intended content of a folder: the parts that a Spec names, each found once, and the files made of them.
type plan struct {
	board    *boards.Board  // with the parts of the firmware where the options place them
	options  boards.Options // settled
	template *templatefile.Template
	app      *templatefile.App // nil: firmware with an RPC server
	archive  *mlf.Archive
	model    *mlf.Model
	samples  []ndarray.Named

	files map[string]planned
	state projectfile.State // with Files
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
