package ndarray

import (
	"bytes"
	"testing"
)

// FuzzNPY reads arbitrary files: an accepted array survives writing and reading.
func FuzzNPY(f *testing.F) {
	f.Add(npyFile("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 1, 3), }\n", make([]byte, 12)...))
	f.Add(npyFile("{'descr': '>f8', 'fortran_order': False, 'shape': (), }\n", make([]byte, 8)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := readNPY(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		must(t, writeNPY(&b, a))
		again, err := readNPY(&b)
		if err != nil || !a.Equal(again) {
			t.Fatalf("%+v came back as %+v, %v", a, again, err)
		}
	})
}
