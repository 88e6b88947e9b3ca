// Package corpus keeps the inputs that fuzzing found: for each fuzz target one archive,
// testdata/corpus/FuzzX.tar.gz, of files as Go writes them to testdata/fuzz/FuzzX. It does not fuzz.
package corpus

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/sys/atomicwriter"
)

// A Target is a fuzz target: a *testing.F.
type Target interface {
	testing.TB
	Add(args ...any)
}

// Add adds each input of the target's archive to its seeds, in the order of their names. The test fails if the archive
// is missing, damaged or empty.
func Add(f Target) {
	f.Helper()
	path := filepath.Join("testdata", "corpus", f.Name()+".tar.gz")
	inputs, err := Read(path)
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		args, err := arguments(inputs[name])
		if err != nil {
			f.Fatalf("%s: %s: %v", path, name, err)
		}
		f.Add(args...)
	}
}

// Read returns the files of an archive by name. An archive without files is an error.
func Read(path string) (map[string][]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	plain, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	text, err := io.ReadAll(plain) // to the checksum at the end
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	files := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(text))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) && len(files) > 0 {
			return files, nil
		}
		if err == nil {
			files[h.Name], err = io.ReadAll(r)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: after %d files: %w", path, len(files), err)
		}
	}
}

// Pack adds files to an archive under the last elements of their paths, and creates the archive if there is none. A
// file with the name but not the contents of one in the archive is an error. Equal files give equal archives.
func Pack(path string, names ...string) error {
	files, err := Read(path)
	if errors.Is(err, os.ErrNotExist) {
		files, err = map[string][]byte{}, nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		old, exists := files[filepath.Base(name)]
		if exists && !bytes.Equal(old, data) {
			return fmt.Errorf("%s: %s contains another file of this name", name, path)
		}
		files[filepath.Base(name)] = data
	}
	archive, err := encode(files)
	if err != nil {
		return err
	}
	return atomicwriter.WriteFile(path, archive, 0o644)
}

// encode returns the archive of files, sorted by name, without times and owners.
func encode(files map[string][]byte) ([]byte, error) {
	var archive bytes.Buffer
	z, err := gzip.NewWriterLevel(&archive, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Format: tar.FormatUSTAR})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

// arguments decodes a file of testdata/fuzz: a line with the version of the format, then one per argument, such as
// []byte("\x00").
func arguments(file []byte) ([]any, error) {
	version, lines, _ := strings.Cut(string(file), "\n")
	if version != "go test fuzz v1" || lines == "" {
		return nil, fmt.Errorf("not an input of a Go fuzz test: %q", version)
	}
	var args []any
	for line := range strings.Lines(lines) {
		arg, err := argument(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		args = append(args, arg)
	}
	return args, nil
}

func argument(line string) (any, error) {
	kind, value, _ := strings.Cut(strings.TrimSuffix(line, ")"), "(")
	switch kind {
	case "[]byte":
		text, err := strconv.Unquote(value)
		return []byte(text), err
	case "string":
		return strconv.Unquote(value)
	case "bool":
		return strconv.ParseBool(value)
	case "byte":
		c, _, _, err := strconv.UnquoteChar(strings.TrimPrefix(value, "'"), '\'')
		return byte(c), err
	}
	return nil, errors.New("package corpus does not decode this type")
}
