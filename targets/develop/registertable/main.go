// Command registers writes the addresses and bits of the registers in templates/baremetal/port/ from vendors' register
// descriptions.
//
//	go run ./targets/develop/registertable FOLDER
//
// The table (templates/testdata/registers.tsv) has a row for each name in the port's C: the register or field that it
// stands for, in the words of a source, and the fact that the source states. This command replaces the facts of chips
// whose SVD file is in the folder, under the chip's name in the table, as in nrf52840.svd; a test in package templates
// compares them with the C. Only facts are kept: addresses, bits and interrupt numbers.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/targets/internal/svd"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("registers: ")
	table := flag.String("table", "templates/testdata/registers.tsv", "the table")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: registers [-table FILE] FOLDER")
	}
	if err := fill(*table, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

// fill updates the facts. Columns: file, name, how the C states it, chip, path, fact, note.
func fill(table, folder string) error {
	data, err := os.ReadFile(table)
	if err != nil {
		return err
	}

	var b strings.Builder
	var missing []error
	chips := map[string]map[string]string{}
	for line := range strings.Lines(string(data)) {
		columns := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(columns) < 6 || columns[3] == "" {
			b.WriteString(line)
			continue
		}

		name := columns[3]
		if _, known := chips[name]; !known {
			if chips[name], err = read(filepath.Join(folder, name+".svd")); err != nil {
				return err
			}
		}
		if facts := chips[name]; facts != nil {
			columns[5], err = fact(facts, columns[4])
			missing = append(missing, err)
		}
		b.WriteString(strings.Join(columns, "\t") + "\n")
	}

	if err := errors.Join(missing...); err != nil {
		return fmt.Errorf("not found:\n%w", err)
	}
	return atomicwriter.WriteFile(table, []byte(b.String()), 0o644)
}

// read returns the facts of an SVD file by paths in capitals, such as "RCC.CR.HSEON" or "irq USART1"; nil without a
// file. Indices of arrays have no brackets.
func read(name string) (map[string]string, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	device, err := svd.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	facts := map[string]string{}
	add := func(path, format string, values ...any) {
		path = strings.ToUpper(strings.NewReplacer("[", "", "]", "").Replace(path))
		facts[path] = fmt.Sprintf(format, values...)
	}
	for _, p := range device.Peripherals {
		add(p.Name, "0x%08x", p.Base)
		for _, r := range p.Registers {
			register := p.Name + "." + r.Name
			add(register, "0x%08x @0x%x", r.Address, r.Address-p.Base)
			for _, field := range r.Fields {
				add(register+"."+field.Name, "bits %d:%d", field.LSB+field.Width-1, field.LSB)
			}
		}
	}
	for _, i := range device.Interrupts {
		add("irq "+i.Name, "%d", i.Number)
	}
	return facts, nil
}

// fact returns the facts of a path, or of several that a plus sign joins.
func fact(facts map[string]string, path string) (string, error) {
	var all []string
	for part := range strings.SplitSeq(path, "+") {
		value, ok := facts[strings.ToUpper(part)]
		if !ok {
			return "", fmt.Errorf("%s", path)
		}
		all = append(all, value)
	}
	return strings.Join(all, "+"), nil
}
