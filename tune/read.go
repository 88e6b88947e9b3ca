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
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

const resultsFile = "results.jsonl"

// ReadResults returns the results in a run's folder, in order of finishing: the last one of each ID, without those
// that Run.LeaveOut left out, and without results of Run.Confirm whose candidates have no result. A run of this or of
// another process may use the folder: ReadResults ignores a last line without a newline, which is still being written.
// It locks and changes nothing. Its error is of class config for a folder without a run, and for a line that is not a
// result.
func ReadResults(dir string) ([]Result, error) {
	f, err := os.Open(filepath.Join(dir, resultsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure.New(failure.Config, "choose the folder of a run", "%s: no run: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	all, lines := newIndex(), map[int64]Result{}
	_, err = eachLine(f, f.Name(), func(offset int64, l resultLine) error {
		lines[offset] = l.Result
		return all.add(offset, l)
	})
	if err != nil {
		return nil, err
	}
	return all.current(lines), nil
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

// readLine reads the line at an offset.
func readLine(f io.ReaderAt, offset int64) ([]byte, error) {
	return bufio.NewReader(io.NewSectionReader(f, offset, 1<<40)).ReadBytes('\n')
}
