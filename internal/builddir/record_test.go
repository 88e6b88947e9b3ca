package builddir

import "testing"

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"format":1,"build_id":"00112233445566778899aabbccddeeff","runtime":"","digest":"","size":{},"tools":[],"inputs":{}}`))
	f.Add([]byte(`{"format":1,"build_id":"00"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := parseRecord(data); err == nil && len(r.BuildID) != 32 {
			t.Errorf("took the build id %q", r.BuildID)
		}
	})
}
