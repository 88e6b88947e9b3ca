// This file recognises boardsmith's own files.

package templatefile

import (
	"io/fs"
	"sync"

	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/templates"
)

// IsShipped reports whether a file has the content of one of boardsmith's own, by its SHA-256 in hexadecimal.
func IsShipped(digest string) bool { return shipped()[digest] }

var shipped = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for _, files := range []fs.FS{templates.FS, crt.Sources.Runtime} {
		_ = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if data, failed := fs.ReadFile(files, name); err == nil && failed == nil {
				all[cachekey.Digest(data)] = true
			}
			return nil
		})
	}
	return all
})
