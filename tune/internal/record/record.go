// Package record appends JSON lines to the one file of a folder that a process holds, while other processes read it.
//
// It does not know what a line means.
package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
)

const (
	lockFile = ".boardsmith.lock"
	fileName = "results.jsonl"
)

// A Record is the file of a folder that this process holds. One goroutine at a time may use it.
type Record struct {
	lock, file *os.File
	size       int64 // of whole lines
}

// Open locks a folder and calls line with each line of its file, which it creates. It truncates a last line without a
// newline, which a process wrote that was killed. Errors, which leave the file as it is: those of Lock and Read.
func Open(dir string, line func([]byte) error) (r *Record, err error) {
	r = &Record{}
	if r.lock, err = Lock(dir); err != nil {
		return nil, err
	}

	r.file, err = os.OpenFile(filepath.Join(dir, fileName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err == nil {
		r.size, err = each(r.file, line)
	}
	if err == nil {
		err = r.file.Truncate(r.size)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Lock locks a folder until filelock.Release. Its error is of class config for a folder that is in use, by another
// process or another part of this one.
func Lock(dir string) (*os.File, error) {
	lock, err := filelock.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, regularfile.Error("lock", dir, err)
	}
	if lock == nil {
		return nil, failure.New(failure.Config, "wait until it has ended, or choose another folder",
			"the run in %s is in use", dir)
	}
	return lock, nil
}

// Append writes a value as a line, whole or not at all.
func (r *Record) Append(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", r.file.Name(), err)
	}

	n, err := r.file.Write(append(text, '\n'))
	if err != nil {
		// The next line must not follow a part of this one.
		return errors.Join(err, r.file.Truncate(r.size))
	}
	r.size += int64(n)
	return nil
}

// Close writes the file to the disk and releases the folder.
func (r *Record) Close() (err error) {
	if r.file != nil {
		err = errors.Join(r.file.Sync(), r.file.Close())
	}
	return errors.Join(err, filelock.Release(r.lock))
}

// Read calls line with each line of a folder's file that ends with a newline: another process may be writing the last
// one. It locks and changes nothing. Its error is of class config for a folder without the file, for a line that line
// refuses, and for a file of only a part of a line that is not the beginning of one.
func Read(dir string, line func([]byte) error) error {
	f, err := os.Open(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return failure.New(failure.Config, "choose the folder of a run", "%s: no run: %w", dir, err)
	}
	if err != nil {
		return err
	}
	defer f.Close() // only read

	_, err = each(f, line)
	return err
}

// each calls line with each line that ends with a newline, and returns their size. The part of a line behind them is no
// error, unless it is the whole file and is not one that a process began to write.
func each(f *os.File, line func([]byte) error) (size int64, err error) {
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		text, err := r.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && (size > 0 || isBeginning(text)):
			return size, nil
		case errors.Is(err, io.EOF):
			err = errors.New("it is neither a line nor the beginning of one")
		case err != nil:
			return 0, err
		default:
			err = line(text)
		}

		if err != nil {
			return 0, failure.New(failure.Config, "choose another folder, or repair the file", "%s:%d: not a result: %w",
				f.Name(), n, jsonfile.Plain(err))
		}
		size += int64(len(text))
	}
}

// firstLines are how the first line of a file may begin: the settings of a run, or a result.
var firstLines = []string{`{"settings":`, `{"id":"`}

// isBeginning reports whether a text may be a part of a first line.
func isBeginning(text []byte) bool {
	return slices.ContainsFunc(firstLines, func(line string) bool {
		n := min(len(text), len(line))
		return string(text[:n]) == line[:n]
	})
}
