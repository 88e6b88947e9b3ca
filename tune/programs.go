// This file keeps what was linked of some candidates: of the best, and of those that failed on a device.

package tune

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
)

const (
	programsFolder = "programs"
	keptBest       = 10  // of each kind of board
	keptFailures   = 100 // of each kind of board
)

// programs lists the results of a kind whose linked file is kept.
type programs struct {
	dir    string
	best   []timed  // the fastest first
	failed []string // the latest last, by key
}

type timed struct {
	key    string
	median float64
}

func programPath(dir, key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(dir, programsFolder, fmt.Sprintf("%x.elf", sum[:16]))
}

// keep writes the linked file of a result that is among those to keep, and removes that of another one. A
// run that goes on passes results without files first.
func (p *programs) keep(r Result, elf []byte) error {
	key := r.key()
	p.best = slices.DeleteFunc(p.best, func(t timed) bool { return t.key == key }) // it may be measured again
	p.failed = slices.DeleteFunc(p.failed, func(of string) bool { return of == key })
	drop := ""
	switch {
	case r.Time != nil:
		at, _ := slices.BinarySearchFunc(p.best, r.Time.Median, func(t timed, m float64) int {
			if t.median <= m {
				return -1
			}
			return 1
		})
		if at == keptBest {
			return nil
		}
		p.best = slices.Insert(p.best, at, timed{key, r.Time.Median})
		if len(p.best) > keptBest {
			drop = p.best[keptBest].key
			p.best = p.best[:keptBest]
		}
	default:
		p.failed = append(p.failed, key)
		if len(p.failed) > keptFailures {
			drop = p.failed[0]
			p.failed = p.failed[1:]
		}
	}
	var errs []error
	if drop != "" {
		if err := os.Remove(programPath(p.dir, drop)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if elf != nil {
		errs = append(errs, writeWhole(programPath(p.dir, key), elf, 0o644))
	}
	return errors.Join(errs...)
}

// resume notes the results of the kind whose linked file an earlier process has kept.
func (k *kind) resume() error {
	results, err := k.run.Results()
	for _, r := range results {
		if _, none := os.Stat(programPath(k.run.dir, r.key())); r.Kind == k.name && none == nil {
			err = errors.Join(err, k.programs.keep(r, nil))
		}
	}
	return err
}

// ReadProgram returns the ELF file of what was linked of a candidate, from a run's folder. The folder has those of the
// ten fastest candidates of each kind of board, and of the last hundred that failed on a device. Its error is of class
// config for any other.
func ReadProgram(dir, id string) ([]byte, error) {
	results, err := ReadResults(dir)
	if err != nil {
		return nil, err
	}
	key := ""
	for _, r := range results {
		if r.ID == id {
			key = r.key()
		}
	}
	data, err := os.ReadFile(programPath(dir, key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure.New(failure.Config, "measure it again", "%s: no linked file of %s is kept", dir, id)
	}
	return data, err
}
