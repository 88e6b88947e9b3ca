//go:build unix

package regularfile

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner and group of another one, or the group alone, if this process may.
func keepOwner(path string, of fs.FileInfo) {
	s, ok := of.Sys().(*syscall.Stat_t)
	if ok && os.Lchown(path, int(s.Uid), int(s.Gid)) != nil {
		_ = os.Lchown(path, -1, int(s.Gid)) // the file is whole, whoever owns it
	}
}
