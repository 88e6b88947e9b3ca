package builddir

import (
	"strings"
	"testing"
)

// TestRecord: only a record of this format, with the id of a build, is one.
func TestRecord(t *testing.T) {
	const id = "00112233445566778899aabbccddeeff"
	for text, want := range map[string]bool{
		`{"format": 1, "build_id": "` + id + `"}`:               true,
		`{"format": 2, "build_id": "` + id + `"}`:               false,
		`{"format": 1, "build_id": "` + id[2:] + `"}`:           false,
		`{"format": 1, "build_id": "` + id[2:] + `xy"}`:         false,
		`{"format": 1, "build_id": "` + id + `", "another": 1}`: false,
		"": false,
	} {
		if r, err := parseRecord([]byte(text)); (err == nil) != want || want && !strings.EqualFold(r.BuildID, id) {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"format":1,"build_id":"00112233445566778899aabbccddeeff","runtime":"","digest":"","size":{},"tools":[],"inputs":{}}`))
	f.Add([]byte(`{"format":1,"build_id":"00"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := parseRecord(data); err == nil && len(r.BuildID) != 32 {
			t.Errorf("took the build id %q", r.BuildID)
		}
	})
}
