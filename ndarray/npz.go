// This file reads and writes .npz, NumPy's zip of arrays.

package ndarray

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
)

// maxMembers limits the arrays of one file.
const maxMembers = 1 << 16

// limits are those of the bytes in one file.
type limits struct{ data, headers int }

// usual allows headers eight times as long as NumPy's.
var usual = limits{data: MaxBytes, headers: maxMembers * 1024}

// zipTime is the modification time of every member: the earliest in the zip format, as np.savez writes it.
var zipTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// ReadNPZ reads all arrays of an .npz in the file's order, or the array of an .npy under the name "". A file holds at
// most 65,536 arrays with MaxBytes of data. Every error has class config and names the file and the array.
func ReadNPZ(path string) ([]Named, error) {
	arrays, err := readNPZ(path)
	if err != nil {
		next := "write it anew, with numpy.savez or numpy.save, as plain numbers"
		switch {
		case errors.Is(err, fs.ErrNotExist):
			next = "name a file that exists, or write this one, with numpy.savez for instance"
		case errors.Is(err, regularfile.ErrFolder):
			next = "name a file in it"
		case errors.Is(err, fs.ErrPermission):
			next = "let this user read it"
		}
		return nil, failure.New(failure.Config, next, "%s: %w", path, err)
	}
	return arrays, nil
}

func readNPZ(path string) ([]Named, error) {
	f, err := regularfile.Open(path)
	if err != nil {
		return nil, pathless(err)
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return nil, pathless(err)
	}

	// By its content, whatever the file's name.
	magic := make([]byte, len(npyMagic))
	if _, err := f.ReadAt(magic, 0); err == nil && string(magic) == npyMagic {
		a, err := readNPY(f)
		if err != nil {
			return nil, err
		}
		return []Named{{"", a}}, nil
	}

	return readArchive(f, info.Size(), usual)
}

// DecodeNPZ is ReadNPZ for an .npz in memory. Errors have class config.
func DecodeNPZ(data []byte) ([]Named, error) {
	arrays, err := readArchive(bytes.NewReader(data), int64(len(data)), usual)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "%w", err)
	}
	return arrays, nil
}

// readArchive reads a zip of arrays.
func readArchive(r io.ReaderAt, size int64, most limits) ([]Named, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("not an .npz archive: %w", err)
	}
	if len(z.File) > maxMembers {
		return nil, fmt.Errorf("%d arrays, more than %d", len(z.File), maxMembers)
	}

	arrays := []Named{} // also of an empty archive: nil is none
	seen := map[string]bool{}
	left := most
	for _, f := range z.File {
		if seen[f.Name] {
			return nil, fmt.Errorf("two members are called %q", f.Name)
		}
		seen[f.Name] = true

		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			return nil, fmt.Errorf("member %q is not an array", f.Name)
		}

		a, err := readMember(f)
		if err != nil {
			return nil, fmt.Errorf("array %q: %w", name, err)
		}

		if left.data -= len(a.Data); left.data < 0 {
			return nil, fmt.Errorf("array %q: all arrays together are larger than %d bytes", name, most.data)
		}
		left.headers -= int(f.UncompressedSize64) - len(a.Data) // the size is checked with the CRC
		if left.headers < 0 {
			return nil, fmt.Errorf("array %q: all headers together are larger than %d bytes", name, most.headers)
		}

		arrays = append(arrays, Named{name, a})
	}
	return arrays, nil
}

func readMember(f *zip.File) (*Array, error) {
	m, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer m.Close()

	a, err := readNPY(m)
	if err != nil {
		return nil, err
	}

	// Reading to the end checks the member's CRC.
	if n, err := m.Read(make([]byte, 1)); n != 0 {
		return nil, fmt.Errorf("data after the end of the array")
	} else if err != io.EOF {
		return nil, err
	}
	return a, nil
}

// pathless removes the path from an *os.PathError, for a caller that adds it.
func pathless(err error) error {
	if e, ok := err.(*os.PathError); ok {
		return e.Err
	}
	return err
}

// WriteNPZ writes the arrays in their order, uncompressed and without times: equal arrays give equal bytes. It
// writes atomically.
func WriteNPZ(path string, arrays []Named) error {
	data, err := EncodeNPZ(arrays)
	if err != nil {
		return failure.Errorf(failure.Config, "%s: %w", path, err)
	}
	if err := regularfile.Write(path, data, 0o644); err != nil {
		return failure.New(failure.Config, "choose an existing, writable folder on a disk with free space", "write %s: %w",
			path, err)
	}
	return nil
}

// EncodeNPZ returns the bytes that WriteNPZ writes. Equal arrays give equal bytes.
func EncodeNPZ(arrays []Named) ([]byte, error) {
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	seen := map[string]bool{}
	for _, a := range arrays {
		if a.Name == "" || seen[a.Name] {
			return nil, fmt.Errorf("array name %q is empty or used twice", a.Name)
		}

		seen[a.Name] = true
		m, err := z.CreateHeader(&zip.FileHeader{Name: a.Name + ".npy", Method: zip.Store, Modified: zipTime})
		if err != nil {
			return nil, err
		}
		if err := writeNPY(m, a.Array); err != nil {
			return nil, fmt.Errorf("array %q: %w", a.Name, err)
		}
	}

	if err := z.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
