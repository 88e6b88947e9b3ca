package boards

import (
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		board, object string
		want          bool
	}{
		{"v7-m", "v7-m", true},
		{"v7-m", "v6-m", true},
		{"v6-m", "v7-m", false},
		{"v7-m", "v7e-m", false},
		{"v7e-m", "v7-m", true},
		{"v7e-m", "v8-m.main", false},
		{"v8-m.main", "v7e-m", true},
		{"v8.1-m", "v8-m.base", true},
		{"v8-m.main", "v8.1-m", false},
		{"v7-m", "", true},
		{"", "v8-m.main", true},
		{"v7-m", "xscale", true}, // the linker knows more
		{"rv32imac", "rv32i2p0_m2p0_a2p0_c2p0", true},
		{"rv32imac", "rv32i2p1_m2p0_a2p1_c2p0_zicsr2p0_zmmul1p0", true},
		{"rv32imac", "rv32i2p0_m2p0_a2p0_f2p0_c2p0", false},
		{"rv32imafc", "rv32imac", true},
		{"rv64gc", "rv64i2p0_m2p0_a2p0_f2p0_d2p0_c2p0_v1p0", false},
		{"rv64gc", "rv64imafdc_zicsr_zifencei", true},
	} {
		testkit.Equal(t, c, (ELF{Arch: c.board}).Accepts(ELF{Arch: c.object}), c.want)
	}
	if (ELF{FloatABI: "soft"}).Accepts(ELF{FloatABI: "hard"}) || !(ELF{FloatABI: "soft"}).Accepts(ELF{}) {
		t.Error("code for another FPU is accepted, or code that says nothing of it is not")
	}
}
