// This file keeps two processes from working in one project folder at once.

package project

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// lockFile stays in the folder when nobody holds it; what counts is the lock on it, which ends with the process.
const lockFile = ".boardsmith.lock"

type lock struct{ f *flock.Flock }

// takeLock takes the folder's lock or says who has it: *LockedError. It does not wait.
func takeLock(dir string) (*lock, error) {
	path := filepath.Join(dir, lockFile)
	f := flock.New(path, flock.SetPermissions(0o644))
	ok, err := f.TryLock()
	if err != nil {
		return nil, fileError("lock", path, err)
	}
	if !ok {
		holder, _ := os.ReadFile(path) // only for the message
		return nil, &LockedError{dir, strings.TrimSpace(string(holder))}
	}
	who := fmt.Sprintf("process %d (%s)\n", os.Getpid(), filepath.Base(os.Args[0]))
	if err := os.WriteFile(path, []byte(who), 0o644); err != nil {
		_ = f.Unlock()
		return nil, fileError("lock", path, err)
	}
	return &lock{f}, nil
}

// release may be called again, and on nil.
func (l *lock) release() {
	if l == nil || !l.f.Locked() {
		return
	}
	_ = os.Truncate(l.f.Path(), 0) // who held it matters to nobody now
	_ = l.f.Unlock()               // the lock ends with the process at the latest
}
