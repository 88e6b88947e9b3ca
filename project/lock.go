// This file keeps two processes from working in one project folder at once.

package project

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/boardsmith/boardsmith/internal/plainfile"
)

const (
	lockFile   = ".boardsmith.lock"   // stays when nobody holds it; what counts is the lock on it, which ends with the process
	holderFile = ".boardsmith.holder" // names who has the lock: Windows lets nobody write to a file that is locked
)

type lock struct{ f *flock.Flock }

// takeLock takes the folder's lock or says who has it: *LockedError. It does not wait.
func takeLock(dir string) (*lock, error) {
	path, note := filepath.Join(dir, lockFile), filepath.Join(dir, holderFile)
	f := flock.New(path, flock.SetPermissions(0o644))
	ok, err := f.TryLock()
	if err != nil {
		return nil, plainfile.Error("lock", path, err)
	}
	if !ok {
		holder, _ := os.ReadFile(note) // only for the message
		return nil, &LockedError{dir, strings.TrimSpace(string(holder))}
	}
	who := fmt.Sprintf("process %d (%s)\n", os.Getpid(), filepath.Base(os.Args[0]))
	if err := os.WriteFile(note, []byte(who), 0o644); err != nil {
		_ = os.Remove(note)
		_ = f.Unlock()
		return nil, plainfile.Error("lock", note, err)
	}
	return &lock{f}, nil
}

// release may be called again, and on nil.
func (l *lock) release() {
	if l == nil || !l.f.Locked() {
		return
	}
	_ = os.Remove(filepath.Join(filepath.Dir(l.f.Path()), holderFile)) // who held it matters to nobody now
	_ = l.f.Unlock()                                                   // the lock ends with the process at the latest
}
