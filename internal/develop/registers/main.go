// Command registers writes the addresses and bits of the registers in templates/baremetal/port/ from vendors' register
// descriptions.
//
//	go run ./internal/develop/registers -crates ~/.cargo/registry/src/INDEX -svd svd_data.zip
//
// The table (templates/testdata/registers.tsv) has a row for each name in the port's C: the register or field that it
// stands for, in the words of a source, and the fact that the source states. This command replaces the facts; a test in
// package templates compares them with the C. Sources are SVD files, and peripheral-access crates that svd2rust made
// from them: the vendors' own descriptions, read by others. Only facts are kept: addresses, bits and interrupt numbers.
//
// Crates come by `cargo fetch` (stm32f1, stm32f4, stm32f7, stm32h7, stm32l4 and stm32g4 0.15, rp2040-pac 0.6,
// nrf5340-app-pac 0.12, e310x 0.12), the SVD files with pyOCD 0.46 (pyocd/debug/svd/svd_data.zip), and RP2350's, as its
// manufacturer publishes it, in the crate rp235x-pac 0.1.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
)

// A chip is the description of one chip in one source. Names are in capitals.
type chip struct {
	bases     map[string]uint64 // peripherals
	registers map[string]uint64 // "RCC.CR": addresses
	fields    map[string]field  // "RCC.CR.HSEON"
	irqs      map[string]uint64
}

type field struct{ lsb, width uint64 }

func newChip() *chip {
	return &chip{map[string]uint64{}, map[string]uint64{}, map[string]field{}, map[string]uint64{}}
}

// crates lists the sources that are crates: chip, then crate and the module in it ("" for a crate of one chip).
var crates = map[string][2]string{
	"stm32f100": {"stm32f1-0.15.*", "stm32f100"}, "stm32f401": {"stm32f4-0.15.*", "stm32f401"},
	"stm32f405": {"stm32f4-0.15.*", "stm32f405"},
	"stm32f746": {"stm32f7-0.15.*", "stm32f7x6"}, "stm32h743": {"stm32h7-0.15.*", "stm32h743"},
	"stm32g474": {"stm32g4-0.15.*", "stm32g474"},
	"stm32l4r5": {"stm32l4-0.15.*", "stm32l4r5"}, "stm32l4x5": {"stm32l4-0.15.*", "stm32l4x5"},
	"rp2040": {"rp2040-pac-0.6.*", ""}, "nrf5340": {"nrf5340-app-pac-0.12.*", ""}, "fe310": {"e310x-0.12.*", ""},
}

// svds lists the sources that are SVD files.
var svds = map[string]string{
	"nrf51": "nrf51.svd", "nrf52833": "nrf52833.svd", "nrf52840": "nrf52840.svd",
	"imxrt1062": "MIMXRT1062.xml",
}

// crateSVDs lists the sources that are SVD files in crates: chip, then crate and the file in it.
var crateSVDs = map[string][2]string{"rp2350": {"rp235x-pac-0.1.*", "svd/RP2350.svd"}}

func main() {
	log.SetFlags(0)
	log.SetPrefix("registers: ")
	cargo := flag.String("crates", "", "folder with the unpacked crates")
	zip := flag.String("svd", "", "pyOCD's svd_data.zip")
	table := flag.String("table", "templates/testdata/registers.tsv", "the table")
	dump := flag.String("dump", "", "print all that is known of a chip instead")
	flag.Parse()
	s := sources{cargo: *cargo, zip: *zip, chips: map[string]*chip{}}
	err := s.fill(*table)
	if *dump != "" {
		err = s.dump(*dump)
	}
	if err != nil {
		log.Fatal(err)
	}
}

type sources struct {
	cargo, zip string
	chips      map[string]*chip
}

func (s *sources) chip(name string) (*chip, error) {
	if c := s.chips[name]; c != nil {
		return c, nil
	}
	var c *chip
	var err error
	switch {
	case svds[name] != "":
		c, err = readZipped(s.zip, svds[name])
	case crateSVDs[name][0] != "":
		var folder string
		if folder, err = s.crate(crateSVDs[name][0]); err == nil {
			c, err = readSVD(filepath.Join(folder, filepath.FromSlash(crateSVDs[name][1])))
		}
	case crates[name][0] != "":
		var folder string
		if folder, err = s.crate(crates[name][0]); err == nil {
			c, err = readCrate(filepath.Join(folder, "src", crates[name][1]))
		}
	default:
		err = fmt.Errorf("no source for %s", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.chips[name] = c
	return c, nil
}

// crate returns the folder of a crate.
func (s *sources) crate(pattern string) (string, error) {
	found, err := fs.Glob(os.DirFS(s.cargo), pattern)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d crates %s in %s", len(found), pattern, s.cargo)
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(s.cargo, found[0]), nil
}

// fact returns the source's number for a path such as "RCC.CR.HSEON" or "irq USART1".
func (s *sources) fact(name, path string) (string, error) {
	c, err := s.chip(name)
	if err != nil {
		return "", err
	}
	if strings.Contains(path, "+") {
		var all []string
		for part := range strings.SplitSeq(path, "+") {
			f, err := s.fact(name, part)
			if err != nil {
				return "", err
			}
			all = append(all, f)
		}
		return strings.Join(all, "+"), nil
	}
	if irq, ok := strings.CutPrefix(path, "irq "); ok {
		if n, ok := c.irqs[irq]; ok {
			return fmt.Sprint(n), nil
		}
	}
	if base, ok := c.bases[path]; ok {
		return fmt.Sprintf("0x%08x", base), nil
	}
	if at, ok := c.registers[path]; ok {
		base := c.bases[strings.SplitN(path, ".", 2)[0]]
		return fmt.Sprintf("0x%08x @0x%x", at, at-base), nil
	}
	if f, ok := c.fields[path]; ok {
		return fmt.Sprintf("bits %d:%d", f.lsb+f.width-1, f.lsb), nil
	}
	return "", fmt.Errorf("%s has no %s", name, path)
}

// fill updates the facts. Columns: file, name, how the C states it, chip, path, fact, note.
func (s *sources) fill(table string) error {
	data, err := os.ReadFile(table)
	if err != nil {
		return err
	}
	var b strings.Builder
	var missing []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		cols := append(strings.Split(line, "\t"), make([]string, 7)...)[:7]
		if strings.HasPrefix(line, "#") || line == "" || cols[3] == "" {
			b.WriteString(line + "\n")
			continue
		}
		if cols[5], err = s.fact(cols[3], cols[4]); err != nil {
			missing = append(missing, err.Error())
			cols[5] = ""
		}
		b.WriteString(strings.Join(cols, "\t") + "\n")
	}
	if len(missing) > 0 {
		return fmt.Errorf("not found:\n%s", strings.Join(missing, "\n"))
	}
	return os.WriteFile(table, []byte(b.String()), 0o644)
}

func (s *sources) dump(name string) error {
	c, err := s.chip(name)
	if err != nil {
		return err
	}
	for n, at := range c.bases {
		fmt.Printf("%s\t0x%x\n", n, at)
	}
	for n, at := range c.registers {
		fmt.Printf("%s\t0x%x\n", n, at)
	}
	for n, f := range c.fields {
		fmt.Printf("%s\t%d+%d\n", n, f.lsb, f.width)
	}
	for n, i := range c.irqs {
		fmt.Printf("irq %s\t%d\n", n, i)
	}
	return nil
}
