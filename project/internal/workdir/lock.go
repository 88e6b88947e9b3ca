// This file locks a project's folder: many processes and goroutines may read it at once, or one may change it.
//
// Two files are locked. LockFile: shared by everyone who has the folder open, exclusively by the one who changes
// its files. TurnFile: exclusively by whoever changes anything, from before the wait for readers to the end. Only
// its holder asks for LockFile exclusively, so that a reader can become the one who changes files, and a reader
// again, without anyone else's change in between. A change of project.json alone, which is replaced in one step,
// takes the turn only, and leaves no note in HolderFile.

package workdir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
)

const (
	LockFile   = ".boardsmith.lock"   // the file stays; the lock on it ends with the process
	TurnFile   = ".boardsmith.turn"   // as lockFile
	HolderFile = ".boardsmith.holder" // names the process that changes files: on Windows a locked file cannot be written
)

const (
	readersWait = 2 * time.Second  // how long a change waits for readers
	turnWait    = 10 * time.Second // longer than others hold the turn while this one reads
	lockPoll    = 10 * time.Millisecond
)

// A Lock holds the locks of one Project.
type Lock struct {
	dir   string
	files fileLock // LockFile
	turn  fileLock // TurnFile
}

// A fileLock is a file and, while it is locked, the open file.
type fileLock struct {
	path   string
	file   *os.File
	shared bool
}

// plain returns an error for a lock's file that is a link, which could lead out of the folder, or a pipe, whose opening
// would wait. A file that does not exist is fine.
func plain(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().IsRegular() {
		return nil // opening it reports the rest
	}
	return failure.New(failure.Config, "remove it", "%s is not a plain file (%v)", path, info.Mode().Type())
}

func NewLock(dir string) *Lock {
	return &Lock{dir, fileLock{path: filepath.Join(dir, LockFile)}, fileLock{path: filepath.Join(dir, TurnFile)}}
}

// Share opens the folder for reading, without waiting. Errors: *LockedError.
func Share(dir string) (*Lock, error) {
	l := NewLock(dir)
	ok, err := l.files.tryShared()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, l.locked()
	}
	return l, nil
}

// Change gives l exclusive use of the folder until ShareAgain or Release. It waits briefly for readers, but not if
// another change already waits, which would wait for l. After an error l is unchanged. Errors: *LockedError; those
// of ctx.
func (l *Lock) Change(ctx context.Context) error {
	if err := l.takeTurnAlone(ctx); err != nil {
		return err
	}

	reads := l.files.file != nil && l.files.shared
	err := l.takeFiles(ctx)
	if err != nil && reads {
		_ = l.ShareAgain() // no one else can have changed anything
	} else if err != nil {
		l.Release()
	}
	return err
}

// TakeTurn waits while another one changes project.json or waits to change files.
func (l *Lock) TakeTurn(ctx context.Context) error {
	return l.await(ctx, turnWait, l.turn.try)
}

// takeTurnAlone returns an error if another one changes files or waits to.
func (l *Lock) takeTurnAlone(ctx context.Context) error {
	return l.await(ctx, turnWait, func() (bool, error) {
		ok, err := l.turn.try()
		// Without a note, the turn may be for project.json alone, which takes little time.
		if e := l.locked(); err == nil && !ok && e.Holder != "" {
			err = e
		}
		return ok, err
	})
}

// takeFiles waits for readers. l must have the turn.
func (l *Lock) takeFiles(ctx context.Context) error {
	who := fmt.Sprintf("%s%s)\n", holder(os.Getpid()), filepath.Base(os.Args[0]))

	if err := plain(l.note()); err != nil {
		return err
	}

	// The note precedes the wait: it tells others that a change waits.
	if err := os.WriteFile(l.note(), []byte(who), 0o644); err != nil {
		return regularfile.Error("lock", l.note(), err)
	}

	l.files.unlock() // not every system can convert a shared lock to an exclusive one
	return l.await(ctx, readersWait, l.files.try)
}

// ShareAgain goes back from Change to reading.
func (l *Lock) ShareAgain() error {
	l.files.unlock()
	ok, err := l.files.tryShared()
	l.EndTurn()
	if err == nil && !ok {
		return l.locked() // by a program that does not use turns
	}
	return err
}

// EndTurn may be called without a turn.
func (l *Lock) EndTurn() {
	if l.turn.file != nil {
		_ = os.Remove(l.note()) // a killed process may have left one, too
		l.turn.unlock()
	}
}

// Release may be called again, and on nil. The end of the process also releases the locks.
func (l *Lock) Release() {
	if l == nil {
		return
	}
	l.files.unlock()
	l.EndTurn()
}

// Discard releases a lock held for a change and removes its files.
func (l *Lock) Discard() {
	var left []string
	for _, f := range []fileLock{l.files, l.turn} {
		if os.Remove(f.path) != nil {
			left = append(left, f.path)
		}
	}

	l.Release()
	for _, path := range left {
		_ = os.Remove(path) // Windows does not remove an open file, and so none that was locked meanwhile
	}
}

// await repeats take until it is ok or fails, or gives up after the limit.
func (l *Lock) await(ctx context.Context, limit time.Duration, take func() (bool, error)) error {
	end := time.After(limit)
	for {
		if ok, err := take(); ok || err != nil {
			return err
		}

		select {
		case <-ctx.Done():
			return failure.Stopped(ctx, "project %s", l.dir)
		case <-end:
			return &LockedError{Dir: l.dir}
		case <-time.After(lockPoll):
		}
	}
}

// try locks the file for one alone. A file that is locked already stays so.
func (f *fileLock) try() (bool, error) { return f.tryAs(filelock.Try) }

// tryShared locks the file for all who share it.
func (f *fileLock) tryShared() (bool, error) {
	ok, err := f.tryAs(filelock.TryShared)
	f.shared = ok
	return ok, err
}

// tryAs opens the file and locks it, and begins anew if it was removed in between.
func (f *fileLock) tryAs(lock func(*os.File) (bool, error)) (bool, error) {
	if err := plain(f.path); err != nil || f.file != nil {
		return err == nil, err
	}

	for {
		file, err := openLock(f.path)
		if err != nil {
			return false, regularfile.Error("lock", f.path, err)
		}

		ok, err := lock(file)
		if err != nil || !ok {
			return false, regularfile.Error("lock", f.path, errors.Join(err, file.Close()))
		}

		// Another process may have removed the file before it was locked here.
		if ok, err = filelock.IsAt(file, f.path); err == nil && ok {
			f.file = file
			return true, nil
		}

		file.Close()
		if err != nil {
			return false, regularfile.Error("lock", f.path, err)
		}
	}
}

// openLock opens or creates a lock's file: for writing too, which NFS wants for a lock that nobody shares, or else for
// reading, in a folder that may only be read.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		f, err = os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o644)
	}
	return f, err
}

// unlock may be called without a lock.
func (f *fileLock) unlock() {
	if f.file != nil {
		_ = filelock.Release(f.file)
	}
	f.file, f.shared = nil, false
}

func (l *Lock) note() string { return filepath.Join(l.dir, HolderFile) }

// locked returns the error that names who changes the folder, if known.
func (l *Lock) locked() *LockedError {
	if plain(l.note()) != nil {
		return &LockedError{Dir: l.dir}
	}

	holder, _ := os.ReadFile(l.note()) // for the message only
	return &LockedError{l.dir, strings.TrimSpace(string(holder))}
}

// A LockedError reports a project folder that is in use: somebody else changes it, or has it open while this call
// would change it. The user may be another process or another part of this one.
type LockedError struct {
	Dir    string
	Holder string // the process that changes it; "" if it is open for reading
}

func (e *LockedError) Error() string {
	who := Printable(e.Holder)
	switch {
	case who == "":
		who = "a reader, in another process or in this one"
	case strings.HasPrefix(who, holder(os.Getpid())):
		who = "another call of this process, which changes it"
	}
	return fmt.Sprintf("project %s is in use by %s", e.Dir, who)
}

// FailureClass returns failure.Config.
func (e *LockedError) FailureClass() failure.Class { return failure.Config }

// NextStep returns how to go on.
func (e *LockedError) NextStep() string {
	if e.Holder == "" {
		return "close it where this program has it open, wait for other programs, or choose another project folder"
	}
	return "wait until that has ended, or choose another project folder"
}

// holder returns the beginning of the note that a process leaves.
func holder(pid int) string { return fmt.Sprintf("process %d (", pid) }

// Printable returns a text from a folder that others may have written, quoted if it has control characters.
func Printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
