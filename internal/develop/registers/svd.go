package main

import (
	"archive/zip"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// svdNode is a peripheral, cluster, register or field of an SVD file (CMSIS-SVD 1.3), with what addresses need.
type svdNode struct {
	Name        string    `xml:"name"`
	From        string    `xml:"derivedFrom,attr"`
	Base        string    `xml:"baseAddress"`
	Offset      string    `xml:"addressOffset"`
	Dim         string    `xml:"dim"`
	Increment   string    `xml:"dimIncrement"`
	BitOffset   string    `xml:"bitOffset"`
	BitWidth    string    `xml:"bitWidth"`
	Lsb         string    `xml:"lsb"`
	Msb         string    `xml:"msb"`
	BitRange    string    `xml:"bitRange"`
	Peripherals []svdNode `xml:"peripherals>peripheral"`
	Registers   []svdNode `xml:"registers>register"`
	Clusters    []svdNode `xml:"registers>cluster"`
	Inner       []svdNode `xml:"register"`
	InnerMore   []svdNode `xml:"cluster"`
	Fields      []svdNode `xml:"fields>field"`
	Interrupts  []struct {
		Name  string `xml:"name"`
		Value string `xml:"value"`
	} `xml:"interrupt"`
}

func readSVD(archive, name string) (*chip, error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	f, err := z.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var device svdNode
	if err := xml.NewDecoder(f).Decode(&device); err != nil {
		return nil, err
	}
	c := newChip()
	byName := map[string]svdNode{}
	for _, p := range device.Peripherals {
		byName[p.Name] = p
	}
	for _, p := range device.Peripherals {
		base, err := number(p.Base)
		if err != nil {
			return nil, err
		}
		name := strings.ToUpper(p.Name)
		c.bases[name] = base
		for _, i := range p.Interrupts {
			if c.irqs[strings.ToUpper(i.Name)], err = number(i.Value); err != nil {
				return nil, err
			}
		}
		from := p
		if len(p.Registers)+len(p.Clusters) == 0 && p.From != "" {
			from = byName[p.From]
		}
		if err := c.addAll(name, base, from.Registers, from.Clusters); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *chip) addAll(prefix string, base uint64, registers, clusters []svdNode) error {
	for _, n := range append(append([]svdNode{}, registers...), clusters...) {
		if err := c.add(prefix, base, n); err != nil {
			return err
		}
	}
	return nil
}

// add adds a register or cluster, repeated by its dim.
func (c *chip) add(prefix string, base uint64, n svdNode) error {
	offset, err := number(n.Offset)
	if err != nil {
		return err
	}
	count, step := uint64(1), uint64(0)
	if n.Dim != "" {
		if count, err = number(n.Dim); err != nil {
			return err
		}
		if step, err = number(n.Increment); err != nil {
			return err
		}
	}
	for i := range count {
		index := fmt.Sprint(i)
		name := prefix + "." + strings.ToUpper(strings.NewReplacer("[%s]", index, "%s", index).Replace(n.Name))
		at := base + offset + i*step
		c.registers[name] = at
		if err := c.addAll(name, at, n.Inner, n.InnerMore); err != nil {
			return err
		}
		for _, f := range n.Fields {
			place, err := f.bits()
			if err != nil {
				return fmt.Errorf("%s.%s: %w", name, f.Name, err)
			}
			c.fields[name+"."+strings.ToUpper(f.Name)] = place
		}
	}
	return nil
}

// bits reads the position of a field, which SVD can state in three ways.
func (n svdNode) bits() (field, error) {
	if n.BitOffset != "" {
		lsb, err := number(n.BitOffset)
		if err != nil {
			return field{}, err
		}
		width, err := number(n.BitWidth)
		return field{lsb, width}, err
	}
	low, high := n.Lsb, n.Msb
	if n.BitRange != "" {
		high, low, _ = strings.Cut(strings.Trim(n.BitRange, "[]"), ":")
	}
	lsb, err := number(low)
	if err != nil {
		return field{}, err
	}
	msb, err := number(high)
	return field{lsb, msb - lsb + 1}, err
}

func number(text string) (uint64, error) {
	return strconv.ParseUint(strings.ToLower(strings.TrimSpace(text)), 0, 64)
}
