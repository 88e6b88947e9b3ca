package svd

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestTooLarge reads a file that exceeds the limit: it is not taken for a shorter one.
func TestTooLarge(t *testing.T) {
	file := "<device><name>D</name><peripherals><peripheral><name>P</name><baseAddress>0</baseAddress></peripheral>" +
		"</peripherals></device>"
	if _, err := read(strings.NewReader(file), int64(len(file)), 1); err != nil {
		t.Error(err)
	}
	_, err := read(strings.NewReader(file), int64(len(file)-1), 1)
	testkit.WantError(t, err, "", "MiB")
}

// TestTooManyElements reads a file with more elements than are kept, before it keeps all of them.
func TestTooManyElements(t *testing.T) {
	for _, empty := range []string{
		"peripheral/", "cluster/", "register/", "field/", "addressBlock/", "interrupt/",
	} {
		file := "<device>" + strings.Repeat("<"+empty+">", 11) + "</device>"
		_, err := read(strings.NewReader(file), 1<<20, 10)
		testkit.WantError(t, err, "", "more than 10")
	}
}
