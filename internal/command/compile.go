// This file compiles an empty file, whose object has the attributes of the compiler and its flags.

package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/internal/files/scratch"
)

// DateVariable is the user's variable with the time that compilers take for the present one, in seconds since 1970.
const DateVariable = "SOURCE_DATE_EPOCH"

// Dated returns flags with which a C compiler refuses the date and the time, which would make each object another one,
// and with the user's variable the environment in which it takes that time.
func Dated() (flags, env []string) {
	macros := []string{"__DATE__", "__TIME__", "__TIMESTAMP__"}
	// With the user's time, these two macros do not differ.
	if date := os.Getenv(DateVariable); date != "" {
		macros, env = macros[2:], []string{DateVariable + "=" + date}
	}

	flags = []string{"-Wno-builtin-macro-redefined"}
	for _, macro := range macros {
		flags = append(flags, fmt.Sprintf(`-D%s=_Pragma("GCC error \"%[1]s differs in each build\"")`, macro))
	}
	return flags, env
}

// CompileEmpty returns the object that a C compiler makes of an empty file.
func CompileEmpty(ctx context.Context, cc string, flags []string) ([]byte, error) {
	folder, err := scratch.Make("boardsmith-empty-")
	if err != nil {
		return nil, err
	}
	defer folder.Remove()

	source, object := filepath.Join(folder.Dir, "empty.c"), filepath.Join(folder.Dir, "empty.o")
	if err := os.WriteFile(source, nil, 0o600); err != nil {
		return nil, err
	}

	args := slices.Concat(flags, []string{"-c", source, "-o", object})
	if err := (Command{Path: cc, Args: args, Dir: folder.Dir, Timeout: askTimeout}).Run(ctx); err != nil {
		return nil, err
	}
	return os.ReadFile(object)
}
