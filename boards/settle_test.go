package boards

import "testing"

// TestSettleUpload: standalone firmware has no window for uploaded code, whatever the board has.
func TestSettleUpload(t *testing.T) {
	t.Parallel()
	found, err := Find("mps2_an385", nil)
	if err != nil {
		t.Fatal(err)
	}
	b := *found
	b.UploadKiB = 64
	for app, want := range map[string]int{RPC: 64, Standalone: 0} {
		o, err := b.Settle(Options{App: app})
		if err != nil || o.UploadKiB != want {
			t.Errorf("%s: %d KiB, %v", app, o.UploadKiB, err)
		}
	}
}
