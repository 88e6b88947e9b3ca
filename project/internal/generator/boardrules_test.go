package generator_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/project/internal/generator"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	putFiles  = testkit.WriteFiles
	readFile  = testkit.ReadFile
)

// This file tries the assertions in the port's C about values of board files.

// templates is the folder of the shipped templates.
const templates = "../../../templates/"

// compilePort compiles the C files of a board's port, without an output, with the settings of its files. It returns the
// compiler's messages.
func compilePort(t *testing.T, name string, path ...string) string {
	t.Helper()
	b, err := boards.Find(name, path)
	must(t, err)
	compiler, _, err := device.MissingTools(t.Context(), b)
	must(t, err)
	for _, e := range compiler {
		t.Skip(e)
	}
	testkit.NoteFiles(t, templates+"baremetal/port/*", templates+"firmware/*.h")
	options, err := b.Settle(boards.Options{})
	must(t, err)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "crt_config.h"), string(generator.ConfigHeader(b, options)))
	args := slices.Concat([]string{
		"-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wundef", "-Werror",
		"-I" + dir, "-Ibaremetal/port", "-Ifirmware", "-I../crt/include",
	}, b.CFlags)
	for _, s := range b.Sources {
		if filepath.Ext(s.Name) == ".c" {
			args = append(args, filepath.Join("baremetal", s.Name))
		}
	}
	compile := exec.Command(b.Toolchain.CC, args...)
	compile.Dir = templates
	out, err := compile.CombinedOutput()
	if (err != nil) != (len(out) > 0) {
		t.Fatalf("%s: %v\n%s", b.Toolchain.CC, err, out)
	}
	return string(out)
}

// changedBoard writes a shipped board's file with changes, "OLD => NEW" divided by " ;; ", as the board "changed".
func changedBoard(t *testing.T, of, changes string) (folder string) {
	t.Helper()
	text := string(readFile(t, filepath.Join(templates, "..", "boards", of+".json")))
	for change := range strings.SplitSeq(changes, " ;; ") {
		old, replacement, _ := strings.Cut(change, " => ")
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %q", of, old)
		}
		text = strings.Replace(text, old, replacement, 1)
	}
	return boardstest.Shelf(t, map[string]string{"changed.json": text})
}

// TestShippedBoardsCompile: no assertion and no warning in a port concerns a shipped board.
func TestShippedBoardsCompile(t *testing.T) {
	t.Parallel()
	for _, name := range boards.List(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if text := compilePort(t, name); text != "" {
				t.Error(text)
			}
		})
	}
}

// TestBoardRules: values of a board file that its chip, core or UART cannot have do not compile, and the error names
// the field or define.
func TestBoardRules(t *testing.T) {
	t.Parallel()
	const (
		range2, range1 = "link.baud: the divisor of the UART is out of its range", "cannot be divided to this rate within 2 %"
		noPin, irq     = ": no pin of the chip", "IRQ: not in the vector table"
		noBase, noUART = ": no address of registers", "STM32_UART: this chip, or its port, has no USART"
		crystal        = "STM32_HSE_HZ: the chip has no oscillator"
	)
	baud := func(rate string) string { return `"baud": 115200 => "baud": ` + rate }
	qemuBaud := func(rate string) string { return `"kind": "qemu", => "kind": "qemu", "baud": ` + rate + "," }
	with := func(define string) string { return `"arena_kib" => "defines": {` + define + `}, "arena_kib"` }
	hse := func(old, hz string) string { return `"STM32_HSE_HZ": "` + old + ` => "STM32_HSE_HZ": "` + hz }
	for _, c := range drawn.Of(t, "rules of boards", []struct {
		name, board, changes string
		want                 string // "": it compiles
	}{
		{"pin of no port", "nucleo_f401re", `STM32_PIN('A', 2) => STM32_PIN('Z', 2)`, "STM32_UART_TX" + noPin},
		{"pin 16", "nucleo_f401re", `STM32_PIN('A', 3) => STM32_PIN('A', 16)`, "STM32_UART_RX" + noPin},
		{"port that only other chips have", "nucleo_f401re", `STM32_PIN('A', 3) => STM32_PIN('F', 3)`, "STM32_UART_RX" + noPin},
		{
			"function 16", "nucleo_f401re",
			`"STM32_UART_TX_AF": "7" => "STM32_UART_TX_AF": "16"`,
			"STM32_UART_TX_AF: no function",
		},
		{"one pin", "nucleo_h743zi", `STM32_PIN('D', 9) => STM32_PIN('D', 8)`, ": the same pin as "},
		{
			"SWDIO", "nucleo_f746zg",
			`STM32_PIN('D', 8) => STM32_PIN('A', 13)`,
			"STM32_UART_TX: a pin of the debug probe",
		},
		{
			"SWCLK", "nucleo_l4r5zi",
			`STM32_PIN('G', 8) => STM32_PIN('A', 14)`,
			"STM32_UART_RX: a pin of the debug probe",
		},
		{
			"nRF pin of no port", "nrf52840dk",
			`"NRF_UART_TX_PIN": "6" => "NRF_UART_TX_PIN": "48"`,
			"NRF_UART_TX_PIN" + noPin,
		},
		{
			"pin of a larger nRF", "microbit_v2",
			`"NRF_UART_RX_PIN": "40" => "NRF_UART_RX_PIN": "42"`,
			"NRF_UART_RX_PIN" + noPin,
		},
		{"one nRF pin", "nrf5340dk", `"NRF_UART_RX_PIN": "22" => "NRF_UART_RX_PIN": "20"`, ": the same pin as "},
		{"short vector table of an STM32", "nucleo_f401re", `"defines": { => "defines": {"CHIP_IRQS": "38", `, irq},
		{"interrupt beyond the table", "mps2_an385", with(`"UART_IRQ": "32"`), irq},
		{"last interrupt", "mps2_an385", with(`"UART_IRQ": "31"`), ""},
		{"no interrupt of a PLIC", "qemu_riscv32", with(`"UART_IRQ": "0"`), "UART_IRQ: no number of the interrupt"},
		{
			"more interrupts than a Cortex-M0 has", "microbit",
			`"defines": { => "defines": {"CHIP_IRQS": "33", `,
			"no such core has so many interrupts",
		},
		{"240 interrupts", "mps2_an385", with(`"CHIP_IRQS": "240"`), ""},
		{"241 interrupts", "mps2_an385", with(`"CHIP_IRQS": "241"`), "no such core has so many interrupts"},
		{"9600 of LPUART at 170 MHz", "nucleo_g474re", baud("9600"), range2},
		{"its slowest rate", "nucleo_g474re", baud("41505"), ""},
		{"4 Mbaud at 42 MHz", "nucleo_f401re", baud("4000000"), range2},
		{"42 MHz by 16", "nucleo_f401re", baud("2625000"), ""},
		{"42 MHz by 16.4", "nucleo_f401re", baud("2560000"), range1},
		{"slowest of an F401", "nucleo_f401re", baud("641"), ""},
		{"slower", "nucleo_f401re", baud("640"), range2},
		{"slow USART of an H7", "nucleo_h743zi", baud("1200"), range2},
		{"PL011", "lm3s6965evb", qemuBaud("3200000"), range2},
		{"PL011 at 50 MHz", "lm3s6965evb", qemuBaud("3125000"), ""},
		{"slow PL011", "rpi_pico", baud("119"), range2},
		{"CMSDK", "mps2_an385", qemuBaud("1700000"), range2},
		{"CMSDK, between two divisors", "mps2_an385", qemuBaud("1515000"), range1},
		{"16550", "qemu_riscv64", qemuBaud("1000000"), range2},
		{"16550, between two divisors", "qemu_riscv64", qemuBaud("150000"), range1},
		{"SiFive", "sifive_e", qemuBaud("3906"), range2},
		{"LPUART of NXP", "mimxrt1060_evk", baud("7000000"), range1},
		{"LPUART of NXP by 4", "mimxrt1060_evk", baud("6000000"), ""},
		{"UARTE", "nrf52840dk", baud("14400"), "link.baud: the UARTE has no setting"},
		{"clock of the UART", "mps2_an385", with(`"UART_HZ": "0"`), range2},
		{"base", "mps2_an385", with(`"CMSDK_UART_BASE": "0x40004001"`), "CMSDK_UART_BASE: not aligned"},
		{"no clock", "mps2_an385", `"arena_kib" => "core_hz": 0, "arena_kib"`, "core_hz: 0"},
		{"no stack", "mps2_an385", `65536 => 0`, "stack_bytes: 0"},
		{
			"watchdog faster than its feed", "mps2_an385",
			`"arena_kib" => "watchdog_ms": 19, "arena_kib"`,
			"watchdog_ms: shorter",
		},
		{
			"clock that SysTick cannot divide", "mps2_an385",
			`"arena_kib" => "core_hz": 1700000000, "timer": {"hz": 1700000000}, "arena_kib"`,
			"SysTick counts a hundredth",
		},
		{"slow mtime", "qemu_riscv32", with(`"MTIME_HZ": "50"`), "MTIME_HZ: too low"},
		{"clock of an LM3S", "lm3s6965evb", `"arena_kib" => "core_hz": 48000000, "timer": {"hz": 48000000},
			"arena_kib"`, "core_hz: not 200 MHz divided"},
		{
			"bypass of no clock", "b_l475e_iot01a",
			`"STM32_HSE_BYPASS": "0" => "STM32_HSE_BYPASS": "1"`,
			"STM32_HSE_BYPASS: 1 if",
		},
		{"no crystal", "stm32vldiscovery", `"8000000" => "0"`, "STM32_HSE_HZ: 0"},
		{"behind a boot loader, without VTOR", "microbit", `"arena_kib" => "model_at": 0,
			"memory": [{"name": "boot", "origin": 0, "size": "0x4000", "exec": true, "nonvolatile": true, "reserved": true},
			{"name": "flash", "origin": "0x4000", "size": "0x3c000", "exec": true, "nonvolatile": true,
				"sectors": [{"count": 240, "size": 1024}]},
			{"name": "ram", "origin": "0x20000000", "size": "0x4000", "exec": true}], "arena_kib"`, "this core has no VTOR"},
		{"behind one that passes interrupts on", "microbit", `"arena_kib" => "model_at": 0,
			"memory": [{"name": "flash", "origin": "0x4000", "size": "0x3c000", "exec": true, "nonvolatile": true,
				"sectors": [{"count": 240, "size": 1024}]},
			{"name": "ram", "origin": "0x20000000", "size": "0x4000", "exec": true}], "arena_kib" ;; "defines": { => "defines": {"CPU_NO_VTOR": "0", `, ""},
		{"behind a boot loader, with VTOR", "lm3s6965evb", `"arena_kib" => "model_at": 0,
			"memory": [{"name": "flash", "origin": "0x4000", "size": "0x3c000", "exec": true, "nonvolatile": true},
			{"name": "ram", "origin": "0x20000000", "size": "0x10000", "exec": true}], "arena_kib"`, ""},
		{
			"vectors that VTOR cannot have", "lm3s6965evb",
			`"arena_kib" => "model_at": 0,
			"memory": [{"name": "flash", "origin": "0x4100", "size": "0x3bf00", "exec": true, "nonvolatile": true},
			{"name": "ram", "origin": "0x20000000", "size": "0x10000", "exec": true}], "arena_kib"`,
			"is not aligned as a vector table",
		},
		{
			"header that moves the vectors", "lm3s6965evb", with(`"BARE_HEADER_BYTES": "0x20"`),
			"is not aligned as a vector table",
		},
		{
			"flash of a smaller size", "mimxrt1060_evk",
			`"IMXRT_FLASH_BYTES": "0x00800000" => "IMXRT_FLASH_BYTES": "0x00400000"`,
			"the flash is larger than IMXRT_FLASH_BYTES",
		},
		{
			"flash of no whole blocks", "mimxrt1060_evk",
			`BYTES": "0x00800000" => BYTES": "0x00808000"`,
			"IMXRT_FLASH_BYTES: not a multiple",
		},
		{"base in RAM", "nrf52840dk", `"defines": { => "defines": {"UARTE_BASE": "0x20000000", `, "UARTE_BASE" + noBase},
		{"base 0", "mimxrt1060_evk", `"defines": { => "defines": {"LPUART_BASE": "0", `, "LPUART_BASE" + noBase},
		{"base of 33 bits", "lm3s6965evb", with(`"PL011_BASE": "0x14000C000"`), "PL011_BASE" + noBase},
		{"base of 33 bits, of 64", "qemu_riscv64", with(`"UART_BASE": "0x110000000"`), ""},
		{"base in RAM of a RISC-V", "qemu_riscv64", with(`"UART_BASE": "0x82000000"`), "UART_BASE" + noBase},
		{"USART3 of an F401", "nucleo_f401re", `"STM32_UART": "2" => "STM32_UART": "3"`, noUART},
		{"USART3 of an F405", "netduinoplus2", `"STM32_UART": "1" => "STM32_UART": "3"`, ""},
		{"LPUART of an F7", "nucleo_f746zg", `"STM32_UART": "3" => "STM32_UART": "0"`, noUART},
		{"USART-1", "nucleo_l4r5zi", `"STM32_UART": "0" => "STM32_UART": "-1"`, noUART},
		{"UART4 of an F100", "stm32vldiscovery", `"STM32_UART": "1" => "STM32_UART": "4"`, noUART},
		{"crystal of 26 MHz", "stm32f746g_disco", hse("25000000", "26000000"), ""},
		{"crystal of 50 MHz", "stm32f746g_disco", hse("25000000", "50000000"), crystal},
		{"clock of 50 MHz", "nucleo_f746zg", hse("8000000", "50000000"), ""},
		{"clock of 60 MHz", "nucleo_f746zg", hse("8000000", "60000000"), "STM32_HSE_HZ: the chip cannot be fed"},
		{"crystal of a G4", "nucleo_g474re", hse("24000000", "52000000"), crystal},
		{"clock of an H7", "nucleo_h743zi", hse("8000000", "52000000"), "STM32_HSE_HZ: the chip cannot be fed"},
		{
			"measured crystal", "stm32f746g_disco",
			`"link" => "measure_pin": "PH1", "link"`,
			"measure_pin: a pin of the oscillator",
		},
		{"measured beside a clock", "nucleo_f746zg", `"link" => "measure_pin": "PH1", "link"`, ""},
		{
			"measured clock", "nucleo_f746zg",
			`"link" => "measure_pin": "PH0", "link"`,
			"measure_pin: a pin of the oscillator",
		},
		{
			"UART at the crystal", "nucleo_g474re",
			`STM32_PIN('A', 2) => STM32_PIN('F', 0)`,
			"STM32_UART_TX: a pin of the oscillator",
		},
		{
			"UART at LSE", "nucleo_l4r5zi",
			`STM32_PIN('G', 8) => STM32_PIN('C', 15)`,
			"STM32_UART_RX: a pin of the oscillator",
		},
		{"receive buffer of 100", "mps2_an385", with(`"BARE_RX_BYTES": "100"`), "BARE_RX_BYTES: not a power"},
		{"few regions of ARMv7-M", "mps2_an386", with(`"CPU_MPU_REGIONS": "4"`), "memory: the map needs more regions"},
		{"few regions of ARMv8-M", "mps2_an521", with(`"CPU_MPU_REGIONS": "2"`), "memory: the map needs more regions"},
		{"no regions", "mps2_an386", with(`"CPU_MPU_REGIONS": "0"`), "CPU_MPU_REGIONS: not the number"},
		{"256 regions", "mps2_an386", with(`"CPU_MPU_REGIONS": "256U"`), "CPU_MPU_REGIONS: not the number"},
		{"255 regions", "mps2_an386", with(`"CPU_MPU_REGIONS": "255U"`), ""},
		{"guard of 33", "mps2_an385", with(`"BARE_GUARD_BYTES": "33"`), "BARE_GUARD_BYTES: not 0"},
		{"guard of 48 of a RISC-V", "qemu_riscv32", with(`"BARE_GUARD_BYTES": "48"`), "BARE_GUARD_BYTES: not 0"},
	}, 16) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := compilePort(t, "changed", changedBoard(t, c.board, c.changes))
			if c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}

// TestMissingDefines: without a define that a board file must have, its port does not compile, and the error is that
// it is missing.
func TestMissingDefines(t *testing.T) {
	t.Parallel()
	type missing struct{ board, name, text string }
	var all []missing
	seen := map[string]bool{}
	for _, board := range boards.List(nil) {
		file := readFile(t, filepath.Join(templates, "..", "boards", board+".json"))
		chip := inherits.FindStringSubmatch(string(file))
		if chip == nil || seen[chip[1]] {
			continue
		}
		seen[chip[1]] = true
		ofChip := readFile(t, filepath.Join(templates, "..", "boards", filepath.FromSlash(chip[1])+".json"))
		for _, d := range oneDefine.FindAllStringSubmatch(string(file), -1) {
			hasDefault := strings.HasPrefix(d[1], "BARE_") || strings.HasPrefix(d[1], "BOARDSMITH_")
			if !hasDefault && !strings.Contains(string(ofChip), d[1]) {
				all = append(all, missing{board, d[1], d[0]})
			}
		}
	}
	for _, m := range drawn.Of(t, "missing defines", all, 4) {
		t.Run(m.board+" "+m.name, func(t *testing.T) {
			t.Parallel()
			text := compilePort(t, "changed", changedBoard(t, m.board, m.text+` => "OTHER": "1"`))
			want := regexp.MustCompile(`error: #error "` + m.name + `: not defined|error: .` + m.name + `. undeclared`)
			if !want.MatchString(text) {
				t.Errorf("no error is that %s is missing:\n%s", m.name, text)
			}
		})
	}
}

var (
	inherits  = regexp.MustCompile(`"inherits": "(chip/[^"]*)"`)
	oneDefine = regexp.MustCompile(`"([A-Z][A-Z0-9_]*)": "[^"]*"`)
)
