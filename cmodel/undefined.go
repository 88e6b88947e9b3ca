// This file finds functions of TVM that a compiled library calls and nothing in it defines.

package cmodel

import (
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// checkDefined returns an error if objects in dir, which become one library, call a function of TVM that none of them
// defines. Other names may be the C library's or the user's, and so may be those of the platform.
func checkDefined(dir string, objects []object) error {
	defined := map[string]bool{}
	type call struct{ name, source string }
	var calls []call
	for _, object := range objects {
		info, err := object.info(dir)
		if err != nil {
			return err
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
				calls = append(calls, call{name, object.source()})
			}
		}
	}

	for _, c := range calls {
		if !defined[c.name] {
			return failure.New(failure.Config, "export the model for target c, with all files of codegen/host",
				"%s calls %s, which is neither in the archive nor in the runtime", c.source, c.name)
		}
	}
	return nil
}
