// This file lists the folders around one, as far as nobody else may put files there.

package sourcetree

import (
	"os"
	"path/filepath"
)

// Around returns a folder and those around it, the nearest first, up to the first one into which another user may put
// files: programs there may be anybody's.
func Around(dir string) []string {
	all := []string{dir}
	for {
		above := filepath.Dir(dir)
		if info, err := os.Stat(above); above == dir || err != nil || !onlyOurs(info) {
			return all
		}
		all, dir = append(all, above), above
	}
}
