// This file stores the trials of a network in a folder, in the format of a tuning run.

package search

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/internal/record"
)

// A store appends trials to the record of a folder.
type store struct {
	dir     string
	inputs  string // what the network is measured with, as a hash
	earlier []NetworkTrial

	mu     sync.Mutex
	record *record.Record
}

// A trialRecord is a result's Record: the values for which tune.Result has no field.
type trialRecord struct {
	Flags string `json:"operator_flags"`
	Flash int64  `json:"flash_bytes"`
	RAM   int64  `json:"ram_bytes"`

	Arena  fit.ArenaUse `json:"arena"`
	Inputs string       `json:"inputs"` // as in store
}

func openStore(dir, inputs string) (*store, error) {
	dir = abspath.Of(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}

	r, err := record.Open(dir, checkTrial)
	if err != nil {
		return nil, err
	}
	s := &store{dir: dir, inputs: inputs, record: r}
	if err := s.read(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return s, nil
}

// checkTrial returns an error for a line that is not of a search of flags.
func checkTrial(text []byte) error {
	var r tune.Result
	err := json.Unmarshal(text, &r)
	if err == nil && (r.Tier != tune.Image || json.Unmarshal(r.Record, &trialRecord{}) != nil) {
		err = errors.New("it is of another search")
	}
	return err
}

// firmware returns the folder of a place's project.
func (s *store) firmware(place int) string {
	return filepath.Join(s.dir, "firmware", strconv.Itoa(place))
}

// read reads the earlier trials.
func (s *store) read() error {
	results, err := tune.ReadResults(s.dir)
	if err != nil {
		return err
	}
	for _, r := range results {
		var rec trialRecord
		if err := json.Unmarshal(r.Record, &rec); err != nil {
			return err
		}
		if rec.Inputs != s.inputs {
			return failure.New(failure.Config, "choose another folder", "the search in %s was with other inputs", s.dir)
		}
		s.earlier = append(s.earlier, NetworkTrial{rec.Flags, rec.Flash, rec.RAM, rec.Arena, r})
	}
	return nil
}

func (s *store) add(t NetworkTrial) (err error) {
	if t.Result.Record, err = json.Marshal(trialRecord{t.Flags, t.Flash, t.RAM, t.Arena, s.inputs}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.Append(t.Result)
}
