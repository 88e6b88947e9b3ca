package templates_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
)

// TestMeasurePin has ports on chips in software configure the pin of a board's measure_pin, raise it and lower it, and
// compares what they write. TestMeasured in package project reads the pin on emulated chips.
func TestMeasurePin(t *testing.T) {
	t.Parallel()
	for board, c := range map[string]struct {
		pin, registers     string
		started, high, low string // of these registers, in order
		model, flags       string // of an STM32
	}{
		// OUTSET, OUTCLR, PIN_CNF
		"nrf52840dk":  {"P1.10", "50000808 5000080c 50000a28", "0 400 3", "400 0 0", "0 400 0", "", ""},
		"microbit_v2": {"P0.21", "50000508 5000050c 50000754", "40 200000 3", "200000 0 0", "0 200000 0", "", ""},
		"nrf5340dk":   {"P0.28", "50842508 5084250c 50842770", "100000 10000000 3", "10000000 0 0", "0 10000000 0", "", ""},
		// GPIO_OUT_SET, GPIO_OUT_CLR, GPIO_OE_SET, CTRL of the pin, and its pad
		"rpi_pico": {
			"GPIO25", "d0000014 d0000018 d0000024 400140cc", "0 2000000 2000000 5", "2000000 0 0 0",
			"0 2000000 0 0", "", "",
		},
		"rpi_pico2": {
			"GPIO25", "d0000018 d0000020 d0000038 400280cc 40038068",
			"0 2000000 2000000 5 12", "2000000 0 0 0 0", "0 2000000 0 0 0", "", "",
		},
		// BSRR, MODER, OTYPER, OSPEEDR, PUPDR of the port, and the register of its clock
		"nucleo_f746zg": {
			"PB7", "40020418 40020400 40020404 40020408 4002040c 40023830",
			"800000 4000 0 4000 0 10000a", "80 4000 0 4000 0 10000a", "800000 4000 0 4000 0 10000a",
			"sim_f.c", stm32F7 + "3",
		},
		"nucleo_h743zi": {
			"PE1", "58021018 58021000 58021004 58021008 5802100c", "20000 4 0 4 0", "2 4 0 4 0", "20000 4 0 4 0",
			"sim_h7.c", "",
		},
		"nucleo_g474re": {"PA5", "48000018 48000004", "200000 0", "20 0", "200000 0", "sim_l4_g4.c", stm32G4},
	} {
		t.Run(board, func(t *testing.T) {
			t.Parallel()
			flag, registers := pinFlag(t, board, c.pin), strings.Fields(c.registers)
			var said map[string]string
			if c.model != "" {
				said = buildSTM32(t, board, c.model, 0, c.flags+" "+flag).start(t, "", registers...)
			} else {
				f := fakeBoardOf(t, board)
				f.flags = append(slices.Clone(f.flags), flag)
				conditions := []string{"after=power"}
				for i, address := range registers {
					conditions = append(conditions, "peek"+strconv.Itoa(i+1)+"="+address)
				}
				said = runFake(t, f.build(t, 115200), conditions...)
			}
			expect(t, said, map[string]string{"pin_started": c.started, "pin_high": c.high, "pin_low": c.low})
		})
	}
}

func fakeBoardOf(t *testing.T, board string) fakeBoard {
	t.Helper()
	for _, f := range fakeBoards {
		if f.board == board {
			return f
		}
	}
	t.Fatalf("%s is on no model", board)
	return fakeBoard{}
}

// pinFlag defines the macro that crt_config.h has for a board with this measure_pin.
func pinFlag(t *testing.T, board, pin string) string {
	t.Helper()
	b, err := boards.Find(board, nil)
	must(t, err)
	b.MeasurePin = pin
	number, ok := b.MeasurePinNumber()
	if !ok {
		t.Fatalf("%s is no pin of %s", pin, board)
	}
	return "-DBOARDSMITH_MEASURE_PIN=" + strconv.Itoa(number)
}
