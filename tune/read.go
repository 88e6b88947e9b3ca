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

	"github.com/boardsmith/boardsmith/failure"
)

// ReadResults returns the results in a run's folder, in order of finishing: of each ID the last, without those that
// Run.LeaveOut left out, and of Confirm's only those of candidates that are in the results. The folder may be in use by
// a run, of this or of another process: a last line without a newline is still being written, and is left out.
// ReadResults locks and changes nothing. Its error is of class config for a folder without a run, and for a line that
// is not a result.
func ReadResults(dir string) ([]Result, error) {
	f, err := os.Open(filepath.Join(dir, resultsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure.New(failure.Config, "choose the folder of a run", "%s: no run: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	all, lines := newIndex(), map[int64]Result{}
	_, err = eachLine(f, f.Name(), func(at int64, l resultLine) error {
		lines[at] = l.Result
		return all.take(at, l)
	})
	if err != nil {
		return nil, err
	}
	return all.current(lines), nil
}

// eachLine calls f with each line until the last newline, and where it begins. It returns how many bytes that is.
func eachLine(from io.Reader, name string, f func(at int64, l resultLine) error) (whole int64, err error) {
	r := bufio.NewReader(from)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return 0, err
		}
		var is resultLine
		if err = json.Unmarshal(line, &is); err == nil {
			err = is.check()
		}
		if err == nil {
			err = f(whole, is)
		}
		if err != nil {
			return 0, failure.New(failure.Config, "choose another folder, or repair the file",
				"%s:%d: not a result: %w", name, n, err)
		}
		whole += int64(len(line))
	}
}
