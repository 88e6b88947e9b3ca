// This file stores the trials of a network in a folder, in the format of a tuning run.

package search

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/tune"
)

const (
	resultsFile = "results.jsonl"
	lockFile    = ".boardsmith.lock"
)

// A store appends trials to results.jsonl.
type store struct {
	dir     string
	lock    *os.File
	earlier []NetworkTrial

	mu   sync.Mutex
	file *os.File
}

// A record is a result's Record: the values for which tune.Result has no field.
type record struct {
	Flags string `json:"operator_flags"`
	Flash int64  `json:"flash_bytes"`
	RAM   int64  `json:"ram_bytes"`
}

func openStore(dir string) (*store, error) {
	dir = abspath.Of(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}

	lock, err := filelock.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, failure.New(failure.Config, "wait until it has ended, or choose another folder",
			"the run in %s is in use", dir)
	}

	s := &store{dir: dir, lock: lock}
	if err := s.read(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// firmware returns the folder of a place's project.
func (s *store) firmware(place int) string {
	return filepath.Join(s.dir, "firmware", strconv.Itoa(place))
}

// read reads the earlier trials, and truncates a last line without a newline.
func (s *store) read() error {
	name := filepath.Join(s.dir, resultsFile)
	results, err := tune.ReadResults(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, r := range results {
		var rec record
		if err := json.Unmarshal(r.Record, &rec); err != nil || r.Tier != tune.Image {
			return failure.New(failure.Config, "choose another folder", "%s is not of a search of flags", name)
		}
		s.earlier = append(s.earlier, NetworkTrial{rec.Flags, rec.Flash, rec.RAM, r})
	}

	if s.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return err
	}

	// A killed process may have left a part of a line.
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return s.file.Truncate(int64(bytes.LastIndexByte(data, '\n') + 1))
}

func (s *store) add(t NetworkTrial) (err error) {
	if t.Result.Record, err = json.Marshal(record{t.Flags, t.Flash, t.RAM}); err != nil {
		return err
	}
	line, err := json.Marshal(t.Result)
	if err != nil {
		return fmt.Errorf("trial %s: %w", t.Result.ID, err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	end, err := s.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		return errors.Join(err, s.file.Truncate(end)) // another trial's line must not follow a part of this one
	}
	return nil
}

func (s *store) close() error {
	var err error
	if s.file != nil {
		err = s.file.Close()
	}
	return errors.Join(err, filelock.Release(s.lock))
}
