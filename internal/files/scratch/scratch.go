// Package scratch makes temporary folders, and removes those that killed processes have left.
package scratch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
)

// A Folder is a temporary folder of this process. It is locked as long as the process lives.
type Folder struct {
	Dir  string // absolute
	lock *os.File
}

const (
	lockFile = ".lock"
	newLock  = ".lock.new" // before it is locked
)

// Make makes a folder whose name begins with prefix. The first call with a prefix removes folders of processes that
// were killed. The caller calls Remove.
func Make(prefix string) (*Folder, error) { return MakeIn(os.TempDir(), prefix) }

// MakeIn is Make in another folder than that for temporary files.
func MakeIn(parent, prefix string) (*Folder, error) {
	parent = abspath.Of(parent)
	once, _ := swept.LoadOrStore(filepath.Join(parent, prefix), &sync.Once{})
	once.(*sync.Once).Do(func() { sweep(parent, prefix) })
	dir, err := os.MkdirTemp(parent, prefix)
	if errors.Is(err, fs.ErrNotExist) {
		err = failure.New(failure.Config, "create it, or set TMPDIR to another folder", "folder for temporary files: %w", err)
	}
	if err != nil {
		return nil, err
	}
	f := &Folder{Dir: dir}
	if err := f.hold(); err != nil {
		return nil, errors.Join(err, f.Remove())
	}
	return f, nil
}

// hold locks the folder. Its lock has its name from the moment on in which it is held, so that no sweep finds it free.
func (f *Folder) hold() (err error) {
	f.lock, err = os.OpenFile(filepath.Join(f.Dir, newLock), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	held, err := filelock.Try(f.lock)
	if err == nil && !held {
		err = errors.New("another process holds the lock of " + f.Dir)
	}
	if err != nil {
		return err
	}
	return os.Rename(f.lock.Name(), filepath.Join(f.Dir, lockFile))
}

// Remove removes the folder with all that is in it.
func (f *Folder) Remove() error {
	var err error
	if f.lock != nil {
		err = f.lock.Close() // before, since Windows removes no open file
	}
	return errors.Join(err, os.RemoveAll(f.Dir))
}

var swept sync.Map // *sync.Once by folder and prefix

// sweep removes the folders whose lock nobody holds. A folder without a lock is another program's, or about to be
// locked.
func sweep(parent, prefix string) {
	entries, _ := os.ReadDir(parent) // what cannot be read stays
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			removeFree(filepath.Join(parent, e.Name()))
		}
	}
}

func removeFree(dir string) {
	name := filepath.Join(dir, lockFile)
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return
	}
	lock, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return // another user's
	}
	free, err := filelock.Try(lock)
	if closed := lock.Close(); err == nil && free && closed == nil {
		_ = os.RemoveAll(dir) // else the next one does it
	}
}
