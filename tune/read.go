// This file reads the folder of a run that another process may be writing.

package tune

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

const resultsFile = "results.jsonl"

// ReadResults returns the results in a run's folder, in order of finishing: the last one of each ID, without those
// that Run.LeaveOut left out, and without results of Run.Confirm whose candidates have no result. A run of this or of
// another process may use the folder: ReadResults ignores a last line without a newline, which is still being written.
// It locks and changes nothing. Its error is of class config for a folder without a run, and for a line that is not a
// result.
func ReadResults(dir string) ([]Result, error) {
	all, lines := newIndex(), map[int64]Result{}
	err := readLines(dir, func(offset int64, l resultLine) error {
		lines[offset] = l.Result
		return all.add(offset, l)
	})
	if err != nil {
		return nil, err
	}
	return all.current(lines), nil
}

// ReadCandidate returns the candidate of a result from a run's folder, which may be in use. Its error is of class
// config if the folder contains no such candidate, and for files that no run writes.
func ReadCandidate(dir string, r Result) (c Candidate, err error) {
	var described *candidateLine
	content := strings.TrimSuffix(r.Content, flashSuffix)
	err = readLines(dir, func(_ int64, l resultLine) error {
		if l.Candidate != nil && l.Content == content {
			described = l.Candidate
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	if described == nil {
		return c, noCandidate(dir, r.ID)
	}
	return described.candidate(dir, r)
}

func noCandidate(dir, id string) error {
	return failure.New(failure.Config, "choose another folder", "%s: no candidate %s", dir, id)
}

// readLines calls f with each line of the run in dir.
func readLines(dir string, f func(offset int64, l resultLine) error) error {
	file, err := os.Open(filepath.Join(dir, resultsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return failure.New(failure.Config, "choose the folder of a run", "%s: no run: %w", dir, err)
	}
	if err != nil {
		return err
	}
	defer file.Close() // only read
	_, err = eachLine(file, file.Name(), f)
	return err
}

// eachLine calls f with each line that ends with a newline, and with its offset. It returns the size of these lines.
func eachLine(from io.Reader, name string, f func(offset int64, l resultLine) error) (size int64, err error) {
	r := bufio.NewReader(from)
	for n := 1; ; n++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, err
		}
		var l resultLine
		if err = json.Unmarshal(text, &l); err == nil {
			err = l.check()
		}
		if err == nil {
			err = f(size, l)
		}
		if err != nil {
			return 0, failure.New(failure.Config, "choose another folder, or repair the file",
				"%s:%d: not a result: %w", name, n, jsonfile.Plain(err))
		}
		size += int64(len(text))
	}
}
