package svd

import (
	"strings"
	"testing"
)

// TestTooLarge reads a file that exceeds the limit: it is not taken for a shorter one.
func TestTooLarge(t *testing.T) {
	file := "<device><name>D</name><peripherals><peripheral><name>P</name><baseAddress>0</baseAddress></peripheral>" +
		"</peripherals></device>"
	if _, err := read(strings.NewReader(file), int64(len(file))); err != nil {
		t.Error(err)
	}
	if _, err := read(strings.NewReader(file), int64(len(file)-1)); err == nil || !strings.Contains(err.Error(), "MiB") {
		t.Errorf("%v", err)
	}
}
