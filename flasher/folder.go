// This file is the folder that a tool's run works in: what it is to write, and what it has read.

package flasher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

// A toolRun is a command line, the files that it works with, and what the tool prints as it gets on.
type toolRun struct {
	args  []string
	files []Segment // as segment0.bin, ...
	marks []string  // one for each step, in their order
	// erases are what is erased behind each mark; begins is told of them when it comes, nil: nobody is
	erases map[string]uint64
	begins func(addr uint64)
}

const segmentName = "segment%d.bin"

// file notes a segment and returns its name.
func (r *toolRun) file(s Segment) string {
	r.files = append(r.files, s)
	return fmt.Sprintf(segmentName, len(r.files)-1)
}

// texts are the files for people.
func (r *toolRun) texts() (all []string) {
	for i, s := range r.files {
		all = append(all, fmt.Sprintf(segmentName+": %d bytes for 0x%08x", i, len(s.Data), s.Addr))
	}
	return all
}

// write puts the files into the folder.
func (r *toolRun) write(dir string) error {
	for i, s := range r.files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(segmentName, i)), s.Data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// readName is the file that a tool reads the nth stretch of memory into.
const readName = "read%d.bin"

// readBack reads what a tool has read into a folder.
func readBack(dir string, ranges []Range) ([]Segment, error) {
	var all []Segment
	for i, r := range ranges {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf(readName, i)))
		if err == nil && uint64(len(data)) != r.Size {
			err = fmt.Errorf("the programmer read %d bytes instead of %d", len(data), r.Size)
		}
		if err != nil {
			return nil, failure.New(failure.Flash, "", "reading back: %w", err)
		}
		all = append(all, Segment{r.Addr, data})
	}
	return all, nil
}

const (
	folderName = "boardsmith-flash"
	keptMark   = "failed" // a file in a folder that was kept: the tool has ended
	keptFor    = time.Hour
)

// inFolder calls do with a folder that is gone afterwards. Where the tool fails by itself, the folder stays for a while:
// the command that the error names works in it.
func inFolder(ctx context.Context, do func(dir string) error) error {
	removeKept()
	dir, err := os.MkdirTemp("", folderName)
	if err != nil {
		return err
	}
	err = do(dir)
	tool := new(command.Error)
	keep := errors.As(err, &tool) && ctx.Err() == nil
	if !keep || os.WriteFile(filepath.Join(dir, keptMark), nil, 0o600) != nil {
		_ = os.RemoveAll(dir) // as far as it can be
	}
	return err
}

// removeKept removes the folders of runs that failed long ago. One without the mark may be in use: a gdb server runs
// for hours.
func removeKept() {
	entries, _ := os.ReadDir(os.TempDir()) // what cannot be read is not removed
	for _, e := range entries {
		dir := filepath.Join(os.TempDir(), e.Name())
		if !e.IsDir() || !strings.HasPrefix(e.Name(), folderName) {
			continue
		}
		if mark, err := os.Lstat(filepath.Join(dir, keptMark)); err == nil && time.Since(mark.ModTime()) > keptFor {
			_ = os.RemoveAll(dir) // another user's stays
		}
	}
}

// verified compares what was read into the folder with what was to be verified, run by run of neighbours.
func verified(dir string, want []Segment, step func(string)) error {
	got, err := readBack(dir, rangesOf(want))
	if err != nil {
		return err
	}
	for i, s := range merged(want) {
		if err := compare(s, got[i].Data); err != nil {
			return err
		}
		step(fmt.Sprintf("verified 0x%x", s.Addr))
	}
	return nil
}

// compare returns the first difference as a *VerifyError.
func compare(want Segment, got []byte) error {
	if bytes.Equal(want.Data, got) {
		return nil
	}
	e := &VerifyError{}
	for i, b := range want.Data {
		if b == got[i] {
			continue
		}
		if e.Bytes == 0 {
			e.Addr, e.Want, e.Got = want.Addr+uint64(i), b, got[i]
		}
		e.Bytes++
	}
	return e
}
