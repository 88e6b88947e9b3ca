//go:build !unix

package plainfile

import "io/fs"

func keepOwner(string, fs.FileInfo) {}
