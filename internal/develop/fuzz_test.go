package develop

import "testing"

// TestFoundNothing checks that only the end of the fuzzing time is ignored.
func TestFoundNothing(t *testing.T) {
	const over = "fuzz: elapsed: 15s, execs: 474900 (0/sec), new interesting: 83 (total: 87)\n" +
		"--- FAIL: FuzzRecord (15.04s)\n    context deadline exceeded\nFAIL\nexit status 1\n"
	for _, c := range []struct {
		output string
		want   bool
	}{
		{over, true},
		{over + "    Failing input written to testdata/fuzz/FuzzRecord/1\n", false},
		{"--- FAIL: FuzzRecord (3.04s)\n    record_test.go:9: context deadline exceeded\nFAIL\n", false},
		{"panic: x\nFAIL\n", false},
		{"", false},
	} {
		if got := foundNothing(c.output); got != c.want {
			t.Errorf("%v, want %v, of %q", got, c.want, c.output)
		}
	}
}
