// This file keeps two processes from using one board at once: from flashing through the last call.

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
	"github.com/boardsmith/boardsmith/internal/filelock"
)

// A Lease is the right to use a device. It ends with the last process that has its file open: this one, or a tool that this
// one has started with it.
type Lease struct {
	f    *os.File
	note *os.File // says who has it
	once sync.Once
}

// A Holder is who has a lease.
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
	of := ""
	if h.User != "" {
		of = " of user " + h.User
	}
	return fmt.Sprintf("process %d (%s)%s, since %s", h.PID, h.Name, of, h.Since.Format(time.TimeOnly))
}

// A LeaseError is a device that somebody else uses.
type LeaseError struct {
	Device string
	Holder Holder
	Waited time.Duration
}

func (e *LeaseError) Error() string {
	s := fmt.Sprintf("%s is in use by %v", e.Device, e.Holder)
	if e.Waited > 0 {
		s += fmt.Sprintf(", and still was after %v", e.Waited.Round(time.Second))
	}
	return s
}

// FailureClass says that the board cannot be had.
func (e *LeaseError) FailureClass() failure.Class { return failure.ProbeMissing }

// NextStep is what helps.
func (e *LeaseError) NextStep() string {
	return "wait for it, with WAIT=60s for instance, or choose another device"
}

// sharedMode is the mode of a folder in which every user may make files, and remove none of another's.
const sharedMode = fs.ModeSticky | 0o777

// ShareLeases makes a folder for the leases of all users of this computer, unless it is there.
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
		return failure.New(failure.Config, "as its owner: chmod 1777 "+dir+" (of something else than a folder: remove it)",
			"leases of probes lie in %s, where not every user can make files", dir)
	}
	return nil
}

// makeShared makes the folder so that nobody sees it with another mode.
func makeShared(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), ".boardsmith-")
	if err != nil {
		return err
	}
	defer os.Remove(made) // where it has not become dir
	if err := os.Chmod(made, sharedMode); err != nil {
		return err
	}
	if err := os.Rename(made, dir); err != nil {
		if _, there := os.Lstat(dir); there == nil {
			return nil // somebody else was faster
		}
		return err
	}
	return nil
}

// waitStep is how often a lease is asked for again.
const waitStep = 50 * time.Millisecond

// Take takes the device's lease in dir, and waits for it at most so long: *LeaseError. The folder is made if need be.
func Take(ctx context.Context, dir, device string, wait time.Duration) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "lease")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	name := filepath.Join(dir, deviceFile(device))
	start := time.Now()
	for {
		l, err := tryLease(name)
		if err != nil {
			return nil, fmt.Errorf("lease: %w", err)
		}
		if l != nil {
			return l, nil
		}
		if time.Since(start) >= wait {
			return nil, &LeaseError{device, holder(name), wait}
		}
		select {
		case <-ctx.Done():
			return nil, failure.Stopped(ctx, "lease")
		case <-time.After(waitStep):
		}
	}
}

// tryLease takes the lease whose files have this name; nil if somebody else has it.
func tryLease(name string) (*Lease, error) {
	path := name + ".lease"
	f, err := openShared(path)
	if err != nil {
		return nil, err
	}
	ok, err := filelock.Try(f)
	if ok {
		ok, err = isAt(f, path) // not where somebody has cleaned up: the next try makes another file
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

// isAt reports whether an open file is still the one of that path.
func isAt(f *os.File, path string) (bool, error) {
	is, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(is, named), err
}

// openShared opens a file of the folder that another user may have made, or makes it for all to read. Opening one that is
// there does not ask for it to be made: Linux refuses that for another user's in a folder like /tmp (fs.protected_regular).
func openShared(path string) (*os.File, error) {
	const tries, mode = 10, 0o644
	for range tries {
		f, err := os.OpenFile(path, os.O_RDWR|openFlags, 0)
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
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			f.Close()
			return nil, cmp.Or(err, fmt.Errorf("%s is not a file", path))
		}
		return f, nil
	}
	return nil, fmt.Errorf("%s comes and goes", path)
}

const (
	noteMark       = "@" // between a device's name, in which it is not, and a user's
	noteEnd        = ".holder"
	maxHolderBytes = 4 << 10
)

// writeHolder writes who has it, for other people's messages: into a file of this user's own, beside the lock, which no one
// could write to on Windows.
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
	f, err := openShared(name + noteMark + deviceFile(id) + noteEnd)
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

// holder is who has the lease: whoever took it last, of those whose files are not empty. Any user may have written one.
func holder(name string) (last Holder) {
	notes, _ := os.ReadDir(filepath.Dir(name)) // without them nobody is named
	for _, n := range notes {
		if strings.HasPrefix(n.Name(), filepath.Base(name)+noteMark) && strings.HasSuffix(n.Name(), noteEnd) {
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

// File is the locked file, for tools to keep open: the lease lasts as long as they do. It is good until Release.
func (l *Lease) File() *os.File { return l.f }

// Release gives it back. It may be called again, and on nil.
func (l *Lease) Release() {
	if l == nil {
		return
	}
	l.once.Do(func() {
		_ = l.note.Truncate(0) // who had it matters to nobody now
		_ = l.note.Close()
		_ = l.f.Close() // not unlocked: a tool that is left still has it
	})
}
