// This file manages a tool's working folder: the data to write, and the data that it read.

package flasher

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
)

// A toolRun is a command line, its files, and the marks that the tool prints.
type toolRun struct {
	args  []string
	files []Segment // as segment0.bin, ...
	marks []string  // one for each step, in their order
	// erases lists the sectors erased after each mark; begins, unless nil, is called with them when the mark is printed
	erases map[string]uint64
	begins func(addr uint64)
}

const segmentName = "segment%d.bin"

// file adds a segment and returns its file name.
func (r *toolRun) file(s Segment) string {
	r.files = append(r.files, s)
	return fmt.Sprintf(segmentName, len(r.files)-1)
}

// describeFiles describes the files, for display.
func (r *toolRun) describeFiles() (all []string) {
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

// readName returns the name of the file for the nth range that a tool reads.
const readName = "read%d.bin"

// readBack returns the memory that a tool read into a folder.
func readBack(dir string, ranges []Range) ([]Segment, error) {
	var all []Segment
	for i, r := range ranges {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf(readName, i)))
		if err == nil && uint64(len(data)) != r.Size {
			err = fmt.Errorf("the programmer read %d bytes instead of %d", len(data), r.Size)
		}
		if err != nil {
			return nil, failure.Errorf(failure.Flash, "reading back: %w", err)
		}
		all = append(all, Segment{r.Addr, data})
	}
	return all, nil
}

// inFolder calls do with a temporary folder.
func inFolder(do func(dir string) error) error {
	folder, err := scratch.Make("boardsmith-flash-")
	if err != nil {
		return err
	}
	err = do(folder.Dir)
	_ = folder.Remove() // else a later process does it
	return err
}

// verifyFolder compares the memory that was read into the folder with the job's segments.
func verifyFolder(dir string, want []Segment, step func(string)) error {
	got, err := readBack(dir, rangesOf(want))
	if err != nil {
		return err
	}

	// merged joins the segments as rangesOf did, so that the indices agree.
	for i, s := range merged(want) {
		if err := compare(s, got[i].Data); err != nil {
			return err
		}
		step(fmt.Sprintf("verified 0x%x", s.Addr))
	}
	return nil
}

// compare returns the first difference as an error.
func compare(want Segment, got []byte) error {
	if bytes.Equal(want.Data, got) {
		return nil
	}

	// Both have the same length: readBack has checked it.
	first, n := 0, 0
	for i, b := range want.Data {
		if b == got[i] {
			continue
		}
		if n++; n == 1 {
			first = i
		}
	}

	return differsAt(want.Addr+uint64(first), got[first], want.Data[first], n)
}
