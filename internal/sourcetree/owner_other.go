//go:build !unix

package sourcetree

import "io/fs"

// onlyOurs is true: permissions are in lists here, which a mode does not show.
func onlyOurs(fs.FileInfo) bool { return true }
