// This file makes a Device of an SVD file's elements: it follows derivedFrom, and unfolds arrays.

package svd

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A node is a device, peripheral, cluster, register or field, with what addresses need.
type node struct {
	XMLName     xml.Name
	Name        string `xml:"name"`
	From        string `xml:"derivedFrom,attr"`
	Base        string `xml:"baseAddress"`
	Offset      string `xml:"addressOffset"`
	Size        string `xml:"size"` // bits
	Dim         string `xml:"dim"`
	Increment   string `xml:"dimIncrement"`
	Index       string `xml:"dimIndex"`
	BitOffset   string `xml:"bitOffset"`
	BitWidth    string `xml:"bitWidth"`
	Lsb         string `xml:"lsb"`
	Msb         string `xml:"msb"`
	BitRange    string `xml:"bitRange"`
	Peripherals []node `xml:"peripherals>peripheral"`
	Registers   []node `xml:"registers>register"`
	Clusters    []node `xml:"registers>cluster"`
	Inner       []node `xml:"register"` // of a cluster
	InnerMore   []node `xml:"cluster"`
	Fields      []node `xml:"fields>field"`
	Blocks      []struct {
		Offset string `xml:"offset"`
		Size   string `xml:"size"`
	} `xml:"addressBlock"`
	Interrupts []struct {
		Name  string `xml:"name"`
		Value string `xml:"value"`
	} `xml:"interrupt"`
}

// children returns the peripherals, registers and clusters directly in n.
func (n *node) children() []*node {
	var all []*node
	for _, list := range [][]node{n.Peripherals, n.Registers, n.Clusters, n.Inner, n.InnerMore} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

// A scope is a peripheral or cluster while its contents are read, for the names in derivedFrom.
type scope struct {
	node *node
	name string // with its clusters, without the peripheral: "CH[0]."
	base uint64
	size uint64 // bits of a register that sets none
	up   *scope
}

type builder struct {
	device           *Device
	root             *node
	elements, fields int                        // so far
	names            map[*node]map[string]*node // the elements directly in one, by name
}

// count counts an element: each peripheral, cluster and register, and each one of an array.
func (b *builder) count() error {
	if b.elements++; b.elements > maxElements {
		return fmt.Errorf("more than %d registers", maxElements)
	}
	return nil
}

func (b *builder) all() error {
	size, err := optional(b.root.Size, 32)
	if err != nil {
		return fmt.Errorf("size: %w", err)
	}

	for i := range b.root.Peripherals {
		n := &b.root.Peripherals[i]
		err := b.repeat(n, func(name string, offset uint64) error { return b.peripheral(n, name, offset, size) })
		if err != nil {
			return fmt.Errorf("peripheral %s: %w", strings.TrimSpace(n.Name), err)
		}
	}

	b.device.finish()
	return nil
}

// derived returns n with what it lacks from the element that it is derived from.
func (b *builder) derived(n *node, in *scope, depth int) (*node, error) {
	if n.From == "" {
		return n, nil
	}

	if depth > maxNesting {
		return nil, fmt.Errorf("derivedFrom %s: a cycle, or more than %d steps", n.From, maxNesting)
	}

	from, place := b.find(n.From, n, in)
	if from == nil {
		return nil, fmt.Errorf("derivedFrom %s: there is no such element", n.From)
	}

	parent, err := b.derived(from, place, depth+1)
	if err != nil {
		return nil, err
	}

	return parent.under(n), nil
}

// under returns n's child with what the child lacks from n.
func (n *node) under(child *node) *node {
	all := *child
	for _, f := range []struct {
		to   *string
		from string
	}{
		{&all.Base, n.Base},
		{&all.Offset, n.Offset},
		{&all.Size, n.Size},
		{&all.BitOffset, n.BitOffset},
		{&all.BitWidth, n.BitWidth},
		{&all.Lsb, n.Lsb},
		{&all.Msb, n.Msb},
		{&all.BitRange, n.BitRange},
		{&all.Dim, n.Dim},
		{&all.Increment, n.Increment},
		{&all.Index, n.Index},
	} {
		if *f.to == "" {
			*f.to = f.from
		}
	}

	// A list of the child's own replaces the parent's.
	if len(child.children()) == 0 {
		all.Registers, all.Clusters, all.Inner, all.InnerMore = n.Registers, n.Clusters, n.Inner, n.InnerMore
	}

	if len(all.Fields) == 0 {
		all.Fields = n.Fields
	}

	if len(all.Blocks) == 0 {
		all.Blocks = n.Blocks
	}

	return &all
}

// find returns the element of a derivedFrom: in the same place as n, or by its path from the device.
func (b *builder) find(path string, n *node, in *scope) (*node, *scope) {
	words := strings.Split(path, ".")
	// Without a scope it is a peripheral, which is derived from another one.
	if in == nil {
		return b.named(b.root, path, n), nil
	}

	// The nearest scope comes first: clusters may have equal names for their registers.
	for s := in; s != nil; s = s.up {
		if child := b.descend(s.node, words, n); child != nil {
			return child, s
		}
	}

	// Else the path begins with a peripheral.
	if p := b.named(b.root, words[0], nil); p != nil && len(words) > 1 {
		// what a peripheral is itself derived from counts with it
		expanded, err := b.derived(p, nil, 1)
		if err != nil {
			return nil, nil
		}
		return b.descend(expanded, words[1:], n), &scope{node: expanded}
	}

	return nil, nil
}

func (b *builder) descend(n *node, words []string, but *node) *node {
	for _, w := range words {
		if n = b.named(n, w, but); n == nil {
			return nil
		}
	}
	return n
}

// named returns the element of that name directly in n, other than but.
func (b *builder) named(n *node, name string, but *node) *node {
	index, ok := b.names[n]
	// An index: a search of the list for each derivedFrom would take the square of its length.
	if !ok {
		index = map[string]*node{}
		for _, child := range n.children() {
			if text := strings.TrimSpace(child.Name); index[text] == nil {
				index[text] = child
			}
		}
		if b.names == nil {
			b.names = map[*node]map[string]*node{}
		}
		b.names[n] = index
	}

	// An element is not its own origin.
	if index[name] == but {
		return nil
	}
	return index[name]
}

func (b *builder) peripheral(n *node, name string, offset, size uint64) error {
	if err := b.count(); err != nil {
		return err
	}

	expanded, err := b.derived(n, nil, 0)
	if err != nil {
		return err
	}

	base, err := number(expanded.Base)
	if err != nil {
		return fmt.Errorf("baseAddress: %w", err)
	}

	p := Peripheral{Name: name, Base: base + offset}
	for _, block := range expanded.Blocks {
		start, err := number(block.Offset)
		if err != nil {
			return fmt.Errorf("addressBlock: %w", err)
		}
		bytes, err := number(block.Size)
		if err != nil {
			return fmt.Errorf("addressBlock: %w", err)
		}
		p.Blocks = append(p.Blocks, Block{p.Base + start, bytes})
	}
	// Interrupts are not inherited: each peripheral has its own.
	for _, i := range n.Interrupts {
		number, err := number(i.Value)
		if err != nil {
			return fmt.Errorf("interrupt %s: %w", i.Name, err)
		}
		b.device.Interrupts = append(b.device.Interrupts, Interrupt{strings.TrimSpace(i.Name), number, name})
	}

	if size, err = optional(expanded.Size, size); err != nil {
		return fmt.Errorf("size: %w", err)
	}

	if err := b.contents(&p, &scope{node: expanded, base: p.Base, size: size}, 0); err != nil {
		return err
	}

	b.device.Peripherals = append(b.device.Peripherals, p)
	return nil
}

// contents adds the registers and clusters of a peripheral or cluster.
func (b *builder) contents(p *Peripheral, in *scope, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("clusters in clusters, more than %d deep", maxNesting)
	}

	for _, n := range in.node.children() {
		expanded, err := b.derived(n, in, 0)
		if err == nil {
			err = b.repeat(expanded, func(name string, offset uint64) error {
				return b.element(p, in, n, expanded, name, offset, depth)
			})
		}

		if err != nil {
			return fmt.Errorf("%s%s: %w", in.name, strings.TrimSpace(n.Name), err)
		}
	}
	return nil
}

// element adds one register, or what one cluster contains.
func (b *builder) element(p *Peripheral, in *scope, n, whole *node, name string, repeated uint64, depth int) error {
	if err := b.count(); err != nil {
		return err
	}

	offset, err := number(whole.Offset)
	if err != nil {
		return fmt.Errorf("addressOffset: %w", err)
	}
	at := in.base + offset + repeated
	size, err := optional(whole.Size, in.size)
	if err != nil {
		return fmt.Errorf("size: %w", err)
	}

	if size == 0 || size > 8*maxRegisterBytes {
		return fmt.Errorf("size: %d bits", size)
	}

	if n.XMLName.Local == "cluster" {
		return b.contents(p, &scope{whole, in.name + name + ".", at, size, in}, depth+1)
	}

	r := Register{Name: in.name + name, Address: at, Bytes: (size + 7) / 8}
	if r.Fields, err = b.fieldsOf(whole); err != nil {
		return err
	}

	p.Registers = append(p.Registers, r)
	return nil
}

func (b *builder) fieldsOf(n *node) (list []Field, err error) {
	var names map[string]*node
	for i := range n.Fields {
		f := &n.Fields[i]
		if f.From != "" {
			if names == nil {
				names = fieldNames(n.Fields)
			}
			if from := names[f.From]; from != nil && from != f {
				f = from.under(f)
			}
		}

		err := b.repeat(f, func(name string, offset uint64) error {
			field, err := f.bits(offset)
			field.Name = name
			// Counted here, because an array in the file stands for many fields.
			if b.fields++; err == nil && b.fields > maxFields {
				err = fmt.Errorf("more than %d fields", maxFields)
			}
			list = append(list, field)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", strings.TrimSpace(f.Name), err)
		}
	}
	return list, nil
}

func fieldNames(list []node) map[string]*node {
	names := map[string]*node{}
	for i := range list {
		names[strings.TrimSpace(list[i].Name)] = &list[i]
	}
	return names
}

// repeat calls do for each element of an array, with its name and its distance from the first one; without dim, once.
func (b *builder) repeat(n *node, do func(name string, offset uint64) error) error {
	name := strings.TrimSpace(n.Name)
	if strings.TrimSpace(n.Dim) == "" {
		return do(name, 0)
	}

	count, err := number(n.Dim)
	if err != nil {
		return fmt.Errorf("dim: %w", err)
	}

	step, err := number(n.Increment)
	if err != nil {
		return fmt.Errorf("dimIncrement: %w", err)
	}

	// Before anything of that size is allocated.
	if count > maxElements {
		return fmt.Errorf("dim: %d elements", count)
	}

	indices := indices(n.Index, int(count))

	for i := range count {
		// Without indices that fit, elements are numbered from 0.
		index := strconv.FormatUint(i, 10)
		if indices != nil {
			index = indices[i]
		}

		full := strings.NewReplacer("[%s]", "["+index+"]", "%s", index).Replace(name)
		if err := do(full, i*step); err != nil {
			return err
		}
	}

	return nil
}

// indices reads a dimIndex: "A,B,C", "3-6" or "A-D". It returns nil if it has not count indices.
func indices(text string, count int) []string {
	text = strings.TrimSpace(text)
	if from, to, ok := strings.Cut(text, "-"); ok && !strings.Contains(text, ",") {
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 == nil && err2 == nil && last-first+1 == count {
			all := make([]string, count)

			for i := range all {
				all[i] = strconv.Itoa(first + i)
			}
			return all
		}

		if len(from) == 1 && len(to) == 1 && int(to[0])-int(from[0])+1 == count {
			all := make([]string, count)
			for i := range all {
				all[i] = string(rune(int(from[0]) + i))
			}
			return all
		}

		return nil
	}

	all := strings.Split(text, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}

	if len(all) != count || slices.Contains(all, "") {
		return nil
	}
	return all
}

// bits reads the position of a field, which SVD states in one of three ways.
func (n *node) bits(offset uint64) (Field, error) {
	low, high := n.Lsb, n.Msb
	// A bitRange is written [high:low].
	if n.BitRange != "" {
		high, low, _ = strings.Cut(strings.Trim(strings.TrimSpace(n.BitRange), "[]"), ":")
	}

	first := n.BitOffset
	if first == "" {
		first = low
	}

	lsb, err := number(first)
	if err != nil {
		return Field{}, err
	}

	width := uint64(1)
	if n.BitOffset != "" {
		width, err = optional(n.BitWidth, 1)
	} else if msb, numeric := number(high); numeric != nil || msb < lsb {
		err = fmt.Errorf("bits %s to %s", low, high)
	} else {
		width = msb - lsb + 1
	}

	lsb += offset
	if err == nil && (width == 0 || width > 64 || lsb > 1024) {
		err = fmt.Errorf("%d bits from bit %d on", width, lsb)
	}

	return Field{LSB: lsb, Width: width}, err
}

// number reads a number of SVD's: decimal, 0x, # or 0b for binary.
func number(text string) (uint64, error) {
	t := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(text), "+"))

	if rest, ok := strings.CutPrefix(t, "#"); ok {
		t = "0b" + rest
	}
	// Not base 0: a leading zero does not make a number octal here.
	if !strings.HasPrefix(t, "0x") && !strings.HasPrefix(t, "0b") {
		n, err := strconv.ParseUint(t, 10, 64)
		return n, bare(t, err)
	}

	n, err := strconv.ParseUint(t, 0, 64)
	return n, bare(t, err)
}

// bare makes a short error of strconv's.
func bare(text string, err error) error {
	switch {
	case err == nil:
		return nil
	case text == "":
		return fmt.Errorf("no number")
	}
	return fmt.Errorf("%.40q is not a number", text)
}

func optional(text string, otherwise uint64) (uint64, error) {
	if strings.TrimSpace(text) == "" {
		return otherwise, nil
	}
	return number(text)
}
