package cmacro_test

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/cmacro"
)

// TestNumber computes sizes as C does, and refuses what may be another number in C.
func TestNumber(t *testing.T) {
	for text, want := range map[string]int64{
		"4096": 4096, " 0x1000 ": 4096, "4096u": 4096, "(4 * 1024UL)": 4096, "(1 << 15)": 32768, "0x8000u": 32768,
		"((4 + 4) * 0x1000 - 8)": 32760, "010": 8, "7 - 2 - 1": 4, "2 + 3 * 4 % 5": 4, "1 << 2 + 1": 8, "5 / 2": 2,
		"(4 + 4) << (1 + 2)": 64, "64 >> 1 << 2": 128, "0xFFul": 255,
	} {
		if n, ok := cmacro.Number(text); !ok || n != want {
			t.Errorf("%s is %d, %v; want %d", text, n, ok, want)
		}
	}
	for _, text := range []string{
		"", "(", "(1", "1 +", "1 2", "name", "f(1)", "{1, 2}", "'A'", "1 / 0", "1 % 0", "0x", "12ab", "1.5", "09", "1 < 2",
		"6 & 3",
		"~3", "1 ? 2 : 3", "(size_t)4", "sizeof(int)", "-1", "4 - 8", "1 << 99999999", "1 << 63", "99999999999999999999",
		strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000), strings.Repeat("1<<", 5000) + "1",
	} {
		if n, ok := cmacro.Number(text); ok {
			t.Errorf("%.40q is %d", text, n)
		}
	}
}
