// Package tarfile writes files in memory as a tar without times and owners: equal files give equal bytes.
package tarfile

import (
	"archive/tar"
	"bytes"
	"fmt"
)

// A File is a member of a tar.
type File struct {
	Name string // a slash path
	Data []byte
}

// Of returns the tar of files, in their order.
func Of[F ~struct {
	Name string
	Data []byte
}](files []F) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		f := File(f)
		err := w.WriteHeader(&tar.Header{Name: f.Name, Mode: 0o644, Size: int64(len(f.Data)), Format: tar.FormatGNU})
		if err == nil {
			_, err = w.Write(f.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}

	err := w.Close()
	return b.Bytes(), err
}
