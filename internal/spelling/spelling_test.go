package spelling

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for pair, want := range map[string]int{
		"build build": 0, "biuld build": 1, "buld build": 1, "buildd build": 1, "bxild build": 1,
		"368 386": 1, "368 385": 2, "kitten sitting": 3, "µs s": 1, "ca abc": 3,
	} {
		a, b, _ := strings.Cut(pair, " ")
		if got, back := Distance(a, b), Distance(b, a); got != want || back != want {
			t.Errorf("%s: %d and %d, want %d", pair, got, back, want)
		}
	}
	if Distance("", "abc") != 3 || Distance("abc", "") != 3 || Distance("", "") != 0 {
		t.Error("an empty name")
	}
}

// The nearest name is that with the fewest edits, then the longest common beginning, then the first.
func TestSimilar(t *testing.T) {
	boards := strings.Fields("host mps2_an385 mps2_an386 mps2_an500 nrf52840dk nrf5340dk qemu_riscv32 qemu_riscv64")
	for name, want := range map[string]string{
		"mps2_an368": "mps2_an386", "mps2_an358": "mps2_an385", "mps2_an38": "mps2_an385", "hosst": "host",
		"nrf52": "nrf52840dk", "QEMU_RISCV64": "qemu_riscv64", "qemu_riscv": "qemu_riscv32",
		"kiln": "", "": "", "x": "",
	} {
		if got := Similar(name, boards); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if Nearest("hosst", boards) != `did you mean "host"?` || Nearest("kiln", boards) != "" || Nearest("a", nil) != "" {
		t.Error("the advice")
	}
}
