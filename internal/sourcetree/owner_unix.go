//go:build unix

package sourcetree

import (
	"io/fs"
	"os"
	"syscall"
)

// onlyOurs reports whether this user or root owns a folder, and not everybody may write to it. Members of its group
// may: some systems give each user a group of their own.
func onlyOurs(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (s.Uid == 0 || int(s.Uid) == os.Geteuid()) && info.Mode()&0o002 == 0
}
