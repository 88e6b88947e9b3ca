// This file finds functions of TVM that a compiled library calls and nothing in it defines.

package modellib

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
)

// checkDefined returns an error if objects in dir, which become one library, call a function of TVM that none of them
// defines. Other names may be the C library's or the user's, and so may be those of the platform.
func checkDefined(dir string, objects []string) error {
	defined := map[string]bool{}
	type call struct{ name, object string }
	var calls []call
	for _, object := range objects {
		data, err := os.ReadFile(filepath.Join(dir, object))
		if err != nil {
			return err
		}
		info, err := mlf.File{Name: object, Data: data}.Info()
		if err != nil {
			return failure.New(failure.Compile, "", "%s: %w", filepath.Base(object), err)
		}
		if slices.Contains(info.Defined, "__gnu_lto_slim") {
			return nil // with GCC's -flto, only its linker knows the symbols
		}
		for _, name := range info.Defined {
			defined[name] = true
		}
		for _, name := range info.Undefined {
			if strings.HasPrefix(name, "TVM") && !strings.HasPrefix(name, "TVMPlatform") ||
				strings.HasPrefix(name, "tvmgen_") {
				calls = append(calls, call{name, filepath.Base(object)})
			}
		}
	}
	for _, c := range calls {
		if !defined[c.name] {
			return failure.New(failure.Config, "export the model for target c, with all files of codegen/host",
				"%s calls %s, which is neither in the archive nor in the runtime", strings.TrimSuffix(c.object, ".o"), c.name)
		}
	}
	return nil
}
