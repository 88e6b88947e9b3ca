// This file explains headers and symbols that are missing when a model is compiled.

package fit

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/boardsmith/boardsmith/mlf"
)

// NextProcessor is the advice for code that uses instructions which the processor does not have.
const NextProcessor = "export the model for this board's processor, or choose a board whose core has these instructions"

// ofModel matches paths of a model's sources and objects, also in the build folder.
var ofModel = regexp.MustCompile(`\bcodegen/host/|(^|[\s/])model/`)

// NextTwice is the advice for a symbol that two files define. files are the linker's lines that name them, "" if both
// are of operators alone.
func NextTwice(symbol, files string) string {
	if files != "" && !ofModel.MatchString(files) {
		return fmt.Sprintf("rename %s in one of the two files, or make it static", symbol)
	}

	const next = "rename %s in the model, or make it static; of plain C, the define %[1]s=model_%[1]s renames it"
	return fmt.Sprintf(next, symbol)
}

// CXX lists the archive's C++ files beside its sources, which are not compiled unless a source includes them.
func CXX(a *mlf.Archive) (names []string) {
	for _, f := range a.Files {
		if ext := path.Ext(f.Name); path.Dir(f.Name) == "codegen/host/src" && (ext == ".cc" || ext == ".cpp") {
			names = append(names, f.Name)
		}
	}
	return names
}

// ExplainHeader returns why a compiler did not find a header that a file includes, and the next step. files are those
// of the model's archive, none if the file that includes it is not among them. inLibrary is the next step for a header
// of a library.
func ExplainHeader(header, includer string, files []mlf.File, inLibrary string) (cause, next string) {
	const beside = "codegen/host/include"
	const described = "; of a model in plain C, name in headers the header, or the folder where its path begins: " +
		"a path with ../ has none, as all sources are compiled in one folder"

	switch {
	case header == "arm_acle.h":
		return "arm_acle.h stands for instructions of Arm's processors, such as their DSP instructions", NextProcessor
	case len(files) == 0:
		return fmt.Sprintf("%s includes %s, which is not beside it and in no library that is used", includer, header),
			inLibrary + ", or add the header beside the file that includes it"
	}

	for _, f := range files {
		if strings.EqualFold(path.Base(f.Name), path.Base(header)) {
			return fmt.Sprintf("%s includes %s; the archive has %s, where C does not look for this name", includer, header,
				f.Name), "move it in the archive: into " + beside + ", or to the source that includes it" + described
		}
	}

	return fmt.Sprintf("%s includes %s, which is neither in the archive nor in a library that is used", includer, header),
		inLibrary + ", or add the header to the archive, in " + beside + " or beside the source" + described
}
