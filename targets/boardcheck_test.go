package targets

import (
	"testing"

	"github.com/boardsmith/boardsmith/boards"
)

// TestBlamedDefine: an assertion of the port is about a field, or about that define of those that it names which is set
// nearest to the board: the first one may be derived, or right in a chip's file.
func TestBlamedDefine(t *testing.T) {
	t.Parallel()
	b := &boards.Board{
		Files:   []string{"chip.json", "own.json"},
		Defines: map[string]string{"CHIP_IRQS": "9", "UART_IRQ": "10"},
	}
	const text = ": not in the vector table, whose length is CHIP_IRQS"
	for _, c := range []struct{ irqs, uart, name, want string }{
		{"own.json", "", "STM32_UART_IRQ", "own.json:3: defines.CHIP_IRQS: STM32_UART_IRQ" + text},
		{"own.json", "chip.json", "UART_IRQ", "own.json:3: defines.CHIP_IRQS: UART_IRQ" + text},
		{"chip.json", "own.json", "UART_IRQ", "own.json:4: defines.UART_IRQ" + text},
		{"own.json", "own.json", "UART_IRQ", "own.json:4: defines.UART_IRQ" + text},
		{"own.json", "", "link.baud", "own.json:1: link.baud" + text},
	} {
		b.Origin = map[string]boards.Origin{"defines.CHIP_IRQS": {File: c.irqs, Line: 3}}
		if c.uart != "" {
			b.Origin["defines.UART_IRQ"] = boards.Origin{File: c.uart, Line: 4}
		}
		if err := (boardCheck{board: b}).assertion(c.name + text); err == nil || err.Error() != c.want {
			t.Errorf("%s of %s: %v, want %s", c.name, c.uart, err, c.want)
		}
	}
}
