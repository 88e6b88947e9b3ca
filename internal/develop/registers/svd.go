package main

import (
	"archive/zip"
	"io"
	"os"
	"strings"

	"github.com/boardsmith/boardsmith/internal/boardlab/svd"
)

// readZipped reads an SVD file in an archive.
func readZipped(archive, name string) (*chip, error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return readFile(z.Open(name))
}

// readSVD reads an SVD file.
func readSVD(name string) (*chip, error) { return readFile(os.Open(name)) }

func readFile(f io.ReadCloser, err error) (*chip, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, err := svd.Read(f)
	if err != nil {
		return nil, err
	}
	return chipOf(d), nil
}

// chipOf returns a description in the table's words: capitals, and indices of arrays without brackets.
func chipOf(d *svd.Device) *chip {
	word := func(name string) string { return strings.ToUpper(strings.NewReplacer("[", "", "]", "").Replace(name)) }
	c := newChip()
	for _, p := range d.Peripherals {
		c.bases[word(p.Name)] = p.Base
		for _, r := range p.Registers {
			path := word(p.Name + "." + r.Name)
			c.registers[path] = r.Address
			for _, f := range r.Fields {
				c.fields[path+"."+word(f.Name)] = field{f.LSB, f.Width}
			}
		}
	}
	for _, i := range d.Interrupts {
		c.irqs[word(i.Name)] = i.Number
	}
	return c
}
