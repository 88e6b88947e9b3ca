// This file implements leases: only one process at a time uses a device, from flashing to the last call.

package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// A Lease is the exclusive right to use a device. It ends when the last process that has its file open ends: this
// one, or a tool that this one started with the file.
type Lease struct {
	f    *os.File
	note *os.File // with its holder
	once sync.Once
}

// A Holder is the process that has a lease.
type Holder struct {
	PID   int       `json:"pid"`
	Name  string    `json:"name"` // of the program
	User  string    `json:"user,omitempty"`
	Since time.Time `json:"since"`
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "another process"
	}

	owner := ""
	if h.User != "" {
		owner = " of user " + h.User
	}
	return fmt.Sprintf("process %d (%s)%s, since %s", h.PID, h.Name, owner, h.Since.Format(time.TimeOnly))
}

// A LeaseError reports a device that another process uses.
type LeaseError struct {
	Device string
	Holder Holder
	Waited time.Duration
}

func (e *LeaseError) Error() string {
	s := fmt.Sprintf("%s is in use by %v", e.Device, e.Holder)
	if e.Waited > 0 {
		s += fmt.Sprintf(" and remained so for %v", e.Waited.Round(time.Second))
	}
	return s
}

// FailureClass returns failure.ProbeMissing.
func (e *LeaseError) FailureClass() failure.Class { return failure.ProbeMissing }

// NextStep returns what to do.
func (e *LeaseError) NextStep() string {
	return "wait for it, with " + nextstep.Option("Desk.Wait", "60s") + " for instance, or choose another device"
}

// sharedMode is the mode of a folder in which every user may create files and remove only their own.
const sharedMode = fs.ModeSticky | 0o777

// ShareLeases creates a folder for the leases of all users of this computer, unless it exists.
func ShareLeases(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeShared(dir); err != nil {
			return fmt.Errorf("lease: %w", err)
		}
		info, err = os.Lstat(dir)
	}
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}

	if !info.IsDir() || !isShared(info.Mode()) {
		return failure.New(failure.Config, "as its owner: chmod 1777 "+command.Quote(dir)+"; remove it if it is no folder",
			"not every user can create files in %s, the folder for leases of probes", dir)
	}
	return nil
}

// makeShared creates the folder atomically with its mode.
func makeShared(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}

	temp, err := os.MkdirTemp(filepath.Dir(dir), ".boardsmith-")
	if err != nil {
		return err
	}
	defer os.Remove(temp) // unless it was renamed to dir

	// Before the rename, so that nobody finds the folder with another mode.
	if err := os.Chmod(temp, sharedMode); err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		if _, statErr := os.Lstat(dir); statErr == nil {
			return nil // another process was faster
		}
		return err
	}
	return nil
}

const (
	waitStep = 50 * time.Millisecond // between attempts to take a lease
	handover = time.Second           // at most, until a process that is being started has closed what it inherited
)

// Take takes the device's lease in dir, and waits for it at most wait. It creates the folder if necessary. Errors:
// *LeaseError, those of the file system and of ctx.
func Take(ctx context.Context, dir, device string, wait time.Duration) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "lease")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}

	name := filepath.Join(abspath.Of(dir), deviceFile(device))
	start := time.Now()
	for {
		l, err := tryLease(name)
		if err != nil {
			return nil, fmt.Errorf("lease: %w", err)
		}
		if l != nil {
			return l, nil
		}

		// A lease without a holder has just been released, and a process that was being started has its file still.
		by, waited := holder(name), time.Since(start)
		if waited >= wait && (by.PID != 0 || waited >= handover) {
			return nil, &LeaseError{device, by, wait}
		}

		select {
		case <-ctx.Done():
			return nil, failure.Stopped(ctx, "lease")
		case <-time.After(waitStep):
		}
	}
}

// tryLease takes the lease whose files have this name, or returns nil if another process has it.
func tryLease(name string) (*Lease, error) {
	path := name + ".lease"
	f, err := openShared(path)
	if err != nil {
		return nil, err
	}

	ok, err := filelock.Try(f)
	if ok {
		ok, err = filelock.IsAt(f, path) // false if the file was removed: the next attempt creates a new one
	}
	if err != nil || !ok {
		f.Close()
		return nil, err
	}

	note, err := writeHolder(name)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Lease{f: f, note: note}, nil
}

// openShared opens a file that another user may have created, or creates it, readable for all. It opens an existing
// file without O_CREAT, which Linux rejects for another user's file in a folder like /tmp (fs.protected_regular).
func openShared(path string) (*os.File, error) {
	const tries, mode = 10, 0o644
	for range tries {
		f, err := os.OpenFile(path, os.O_RDWR|openFlags, 0)

		// Another user's file: a lock needs no right to write.
		if errors.Is(err, fs.ErrPermission) {
			f, err = os.OpenFile(path, os.O_RDONLY|openFlags, 0)
		}
		if errors.Is(err, fs.ErrNotExist) {
			f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, mode)
			if err == nil {
				err = f.Chmod(mode) // whatever the umask
			}
		}
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			continue // another process was faster
		}

		if err != nil {
			f.Close()
			return nil, err
		}

		// Anybody may have put something else there.
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			f.Close()
			return nil, cmp.Or(err, fmt.Errorf("%s is not a file", path))
		}
		return f, nil
	}
	return nil, fmt.Errorf("%s is created and removed repeatedly", path)
}

const (
	noteMark       = "@" // separates the device's name, which does not contain it, from the user's
	noteExtension  = ".holder"
	maxHolderBytes = 4 << 10
)

// writeHolder writes the holder, for other users' messages, into this user's file beside the lock file, which is
// not writable on Windows.
func writeHolder(name string) (*os.File, error) {
	h := Holder{PID: os.Getpid(), Name: filepath.Base(os.Args[0]), Since: time.Now()}
	id := fmt.Sprint(os.Getuid())
	if u, err := user.Current(); err == nil {
		id, h.User = u.Uid, u.Username
	}

	data, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	f, err := openShared(name + noteMark + deviceFile(id) + noteExtension)
	if err != nil {
		return nil, err
	}

	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// holder returns the holder of the lease: of the holder files that are not empty, the newest. Any user may have
// written one.
func holder(name string) (last Holder) {
	notes, _ := os.ReadDir(filepath.Dir(name)) // without them the holder is unknown
	for _, n := range notes {
		if strings.HasPrefix(n.Name(), filepath.Base(name)+noteMark) && strings.HasSuffix(n.Name(), noteExtension) {
			if h := readHolder(filepath.Join(filepath.Dir(name), n.Name())); h.Since.After(last.Since) {
				last = h
			}
		}
	}
	return last
}

func readHolder(path string) (h Holder) {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return Holder{}
	}
	defer f.Close()

	data, err := io.ReadAll(io.LimitReader(f, maxHolderBytes))
	if err != nil || json.Unmarshal(data, &h) != nil {
		return Holder{} // empty, or half-written
	}

	// Any user may have written it: control characters would change the terminal.
	h.Name, h.User = printable(h.Name), printable(h.User)
	return h
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// File returns the locked file, for tools to inherit: the lease then lasts until they end. It is valid until
// Release.
func (l *Lease) File() *os.File { return l.f }

// Release ends the lease. It may be called again, and on nil.
func (l *Lease) Release() {
	if l == nil {
		return
	}
	l.once.Do(func() {
		_ = l.note.Truncate(0) // the holder no longer matters
		_ = l.note.Close()
		_ = l.f.Close() // close without unlocking: a remaining tool still has the lease
	})
}
