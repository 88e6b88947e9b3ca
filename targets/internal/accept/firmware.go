// This file makes the archive of the firmware: a model whose operators are the functions of firmware/accept.c.

package accept

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
)

//go:embed firmware/accept.c
var functions string

// The unit tests' surroundings on a board.
var (
	//go:embed firmware/unit.c
	unitRunner []byte
	//go:embed firmware/cmocka.h
	cmocka []byte
)

var packed = regexp.MustCompile(`(?m)^PACKED\((accept_\w+)\)`)

// firmware returns the archive of accept.c. accept_variant returns the number.
func firmware(variant int) (*mlf.Archive, error) {
	var names []string
	for _, m := range packed.FindAllStringSubmatch(functions, -1) {
		names = append(names, m[1])
	}
	return archive(names, mlf.File{
		Name: "accept.c", Data: fmt.Appendf(nil, "#define ACCEPT_VARIANT %d\n%s", variant, functions),
	})
}

// archive returns a model whose operators are functions of C files.
func archive(names []string, files ...mlf.File) (*mlf.Archive, error) {
	for i, f := range files {
		folder := "codegen/host/src/"
		if strings.HasSuffix(f.Name, ".h") {
			folder = "codegen/host/include/"
		}
		files[i].Name = folder + f.Name
	}
	return project.Operators{Entries: names, Files: files}.Archive()
}
