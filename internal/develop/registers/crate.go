package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// The patterns match the output of svd2rust 0.19 to 0.36: documentation lines with the offset or bits, before each
// name.
var (
	peripheral = regexp.MustCompile(`\*const (\w+)::RegisterBlock = (0x[0-9a-fA-F_]+) as`)
	owner      = regexp.MustCompile(`(?:impl|pub type) (\w+) (?:\{|=)`)
	interrupt  = regexp.MustCompile(`(?m)^\s+(\w+) = (\d+),`)
	register   = regexp.MustCompile(`(?s)#\[doc = "(0x[0-9a-f]+)(?:\.\.0x[0-9a-f]+)?(?: -(?:[^"\\]|\\.)*)?"\]\s*(?:#\[inline\(always\)\]\s*)?pub (?:const fn )?(\w+)`)
	bits       = regexp.MustCompile(`(?s)#\[doc = "Bits? (\d+)(?::(\d+))?(?: -(?:[^"\\]|\\.)*)?"\]\s*(?:#\[inline\(always\)\]\s*)?(?:#\[must_use\]\s*)?pub (?:const )?fn (\w+)`)
)

// readCrate reads the chip whose modules are in folder.
func readCrate(folder string) (*chip, error) {
	top, err := os.ReadFile(filepath.Join(folder, "mod.rs"))
	if errors.Is(err, fs.ErrNotExist) {
		top, err = os.ReadFile(filepath.Join(folder, "lib.rs"))
	}
	if err != nil {
		return nil, err
	}
	more, err := os.ReadFile(filepath.Join(folder, "interrupt.rs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	top = append(top, more...)
	c := newChip()
	for _, m := range interrupt.FindAllSubmatch(top, -1) {
		c.irqs[strings.ToUpper(string(m[1]))], _ = strconv.ParseUint(string(m[2]), 10, 64) // digits, by the pattern
	}
	for _, at := range peripheral.FindAllSubmatchIndex(top, -1) {
		module := string(top[at[2]:at[3]])
		base, err := strconv.ParseUint(strings.ReplaceAll(string(top[at[4]:at[5]]), "_", ""), 0, 64)
		if err != nil {
			return nil, err
		}
		owners := owner.FindAllSubmatch(top[:at[0]], -1)
		name := strings.ToUpper(string(owners[len(owners)-1][1]))
		c.bases[name] = base
		if err := c.readBlock(filepath.Join(folder, module), name, base); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// readBlock reads a register block, or a cluster in one: its registers are in path.rs, their bits in files in path.
func (c *chip) readBlock(path, name string, base uint64) error {
	block, err := os.ReadFile(path + ".rs")
	if err != nil {
		return err
	}
	for _, m := range register.FindAllSubmatch(block, -1) {
		offset, err := strconv.ParseUint(string(m[1]), 0, 64)
		if err != nil {
			return err
		}
		reg := strings.TrimPrefix(string(m[2]), "r#")
		full := name + "." + strings.ToUpper(reg)
		if _, ok := c.registers[full]; ok {
			continue // the iterator of an array
		}
		c.registers[full] = base + offset
		inner, err := os.ReadFile(filepath.Join(path, reg+".rs"))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // uses another peripheral's module
		case err != nil:
			return err
		case register.Match(inner):
			err = c.readBlock(filepath.Join(path, reg), full, base+offset)
		default:
			err = c.readFields(inner, full)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *chip) readFields(src []byte, register string) error {
	for _, m := range bits.FindAllSubmatch(src, -1) {
		lsb, err := strconv.ParseUint(string(m[1]), 10, 64)
		if err != nil {
			return err
		}
		msb := lsb
		if len(m[2]) > 0 {
			if msb, err = strconv.ParseUint(string(m[2]), 10, 64); err != nil {
				return err
			}
		}
		c.fields[register+"."+strings.ToUpper(strings.TrimSuffix(string(m[3]), "_"))] = field{lsb, msb - lsb + 1}
	}
	return nil
}
