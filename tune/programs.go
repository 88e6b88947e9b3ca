// This file stores the linked files of some candidates: of the fastest, and of those that failed on a device.

package tune

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
)

const (
	programsFolder = "programs"
	maxFastest     = 10  // stored files of each kind of board
	maxFailed      = 100 // stored files of each kind of board
)

// programs lists the results of a kind whose linked file is stored. Many goroutines may use it.
type programs struct {
	dir string

	mu      sync.Mutex
	fastest []timedKey // fastest first
	failed  []string   // keys, latest last
}

// A timedKey is the key of a result with its median time in seconds.
type timedKey struct {
	key    string
	median float64
}

func programPath(dir, key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(dir, programsFolder, fmt.Sprintf("%x.elf", sum[:16]))
}

// keep stores the linked file of a result if the result is among the fastest or the last failures, and removes the file
// of the result that drops out. If elf is nil, the file is stored already.
func (p *programs) keep(r Result, elf []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	key := r.key()
	p.fastest = slices.DeleteFunc(p.fastest, func(t timedKey) bool { return t.key == key }) // may be measured again
	p.failed = slices.DeleteFunc(p.failed, func(k string) bool { return k == key })

	var dropped string
	if r.Time == nil {
		dropped = p.addFailed(key)
	} else {
		dropped = p.addTimed(timedKey{key, r.Time.Median})
	}
	// neither among the fastest nor a late failure
	if dropped == key {
		return nil
	}

	var errs []error
	if dropped != "" {
		if err := os.Remove(programPath(p.dir, dropped)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if elf != nil {
		errs = append(errs, writeAtomic(programPath(p.dir, key), elf, 0o644))
	}
	return errors.Join(errs...)
}

// addTimed inserts t after those that are as fast, and returns the key that drops out, "" for none.
func (p *programs) addTimed(t timedKey) (dropped string) {
	// never equal, so that the place is behind equal times
	i, _ := slices.BinarySearchFunc(p.fastest, t.median, func(other timedKey, median float64) int {
		if other.median <= median {
			return -1
		}
		return 1
	})
	p.fastest = slices.Insert(p.fastest, i, t)
	if len(p.fastest) > maxFastest {
		dropped = p.fastest[maxFastest].key
		p.fastest = p.fastest[:maxFastest]
	}
	return dropped
}

// addFailed appends a key, and returns the one that drops out, "" for none.
func (p *programs) addFailed(key string) (dropped string) {
	p.failed = append(p.failed, key)
	if len(p.failed) > maxFailed {
		dropped = p.failed[0]
		p.failed = p.failed[1:]
	}
	return dropped
}

// resume lists the results of a kind of board whose linked file an earlier process has stored.
func (p *programs) resume(results []Result, kind string) error {
	var errs []error
	for _, r := range results {
		if _, err := os.Stat(programPath(p.dir, r.key())); r.Kind == kind && err == nil {
			errs = append(errs, p.keep(r, nil))
		}
	}
	return errors.Join(errs...)
}

// ReadProgram returns the linked ELF file of a result from a run's folder. The folder has those of the ten fastest
// candidates of each kind of board, and of the last hundred that failed on a device. Its error is of class config for
// any other.
func ReadProgram(dir string, r Result) ([]byte, error) {
	data, err := os.ReadFile(programPath(dir, r.key()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure.New(failure.Config, "measure it again", "%s: no linked file of %s is kept", dir, r.ID)
	}
	return data, err
}
