package svd_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/svd"
)

// A chip with every way to repeat, derive and place something.
const chip = `<?xml version="1.0" encoding="ISO-8859-1"?>
<!-- a vendor's ` + "\xa9" + ` -->
<device schemaVersion="1.3" xmlns:xs="http://www.w3.org/2001/XMLSchema-instance">
  <name>Chip</name><size>32</size>
  <peripherals>
    <peripheral>
      <name>A</name><baseAddress>0x40000000</baseAddress><size>16</size>
      <addressBlock><offset>0x0</offset><size>0x400</size></addressBlock>
      <addressBlock><offset>0x800</offset><size>16</size></addressBlock>
      <interrupt><name>A0</name><value>3</value></interrupt>
      <interrupt><name>A1</name><value>0x4</value></interrupt>
      <interrupt><name>A0</name><value>3</value></interrupt>
      <registers>
        <register><name>SECOND</name><addressOffset>2</addressOffset></register>
        <register><name>FIRST</name><addressOffset>0</addressOffset><fields>
          <field><name>LOW</name><bitRange>[3:1]</bitRange></field>
          <field><name>BIT</name><bitOffset>4</bitOffset></field>
          <field><name>WIDE</name><bitOffset>5</bitOffset><bitWidth>#11</bitWidth></field>
          <field><name>P%s</name><lsb>8</lsb><msb>9</msb>
            <dim>2</dim><dimIncrement>2</dimIncrement><dimIndex>X,Y</dimIndex></field>
          <field derivedFrom="LOW"><name>ALSO</name><bitRange>[13:12]</bitRange></field>
        </fields></register>
        <register><name>DATA%s</name><addressOffset>0x10</addressOffset><size>32</size>
          <dim>3</dim><dimIncrement>4</dimIncrement><dimIndex>5-7</dimIndex></register>
        <register><name>ODD[%s]</name><addressOffset>0x20</addressOffset>
          <dim>2</dim><dimIncrement>0x8</dimIncrement><dimIndex>A-C</dimIndex></register>
        <register derivedFrom="FIRST"><name>COPY</name><addressOffset>0x30</addressOffset></register>
        <cluster><name>CH%s</name><addressOffset>0x100</addressOffset><dim>2</dim><dimIncrement>0x20</dimIncrement>
          <dimIndex>A-B</dimIndex>
          <register><name>CTRL</name><addressOffset>4</addressOffset><fields>
            <field><name>EN</name><bitRange>[0:0]</bitRange></field></fields></register>
          <cluster><name>IN</name><addressOffset>0x10</addressOffset>
            <register derivedFrom="CTRL"><name>X</name><addressOffset>0</addressOffset></register>
          </cluster>
        </cluster>
        <cluster derivedFrom="CH%s"><name>MORE</name><addressOffset>0x200</addressOffset><dim>1</dim></cluster>
      </registers>
    </peripheral>
    <peripheral derivedFrom="A"><name>B</name><baseAddress>0x40001000</baseAddress>
      <interrupt><name>B</name><value>5</value></interrupt></peripheral>
    <peripheral><name>C</name><baseAddress>1073750016</baseAddress><registers>
      <register derivedFrom="A.CH%s.CTRL"><name>OTHER</name><addressOffset>0x8</addressOffset></register>
      <register derivedFrom="B.FIRST"><name>MORE</name><addressOffset>0xC</addressOffset></register>
    </registers></peripheral>
  </peripherals>
</device>`

// text returns a device, a line for each thing in it.
func text(d *svd.Device) string {
	var w strings.Builder
	fmt.Fprintf(&w, "device %s\n", d.Name)
	for _, p := range d.Peripherals {
		fmt.Fprintf(&w, "%s %x", p.Name, p.Base)
		for _, b := range p.Blocks {
			fmt.Fprintf(&w, " %x+%x", b.Start, b.Bytes)
		}
		fmt.Fprintln(&w)
		for _, r := range p.Registers {
			fmt.Fprintf(&w, "  %s %x/%d", r.Name, r.Address, r.Bytes)
			for _, f := range r.Fields {
				fmt.Fprintf(&w, " %s=%x", f.Name, f.Mask())
			}
			fmt.Fprintln(&w)
		}
	}
	for _, i := range d.Interrupts {
		fmt.Fprintf(&w, "irq %d %s %s\n", i.Number, i.Name, i.Peripheral)
	}
	return w.String()
}

func TestRead(t *testing.T) {
	d, err := svd.Read(strings.NewReader(chip))
	testkit.Must(t, err)
	block := func(name string, base int, blocks string) string {
		const first = " LOW=e BIT=10 WIDE=e0 PX=300 PY=c00 ALSO=3000\n"
		s := fmt.Sprintf("%s %x %s\n", name, base, blocks)
		s += fmt.Sprintf("  FIRST %x/2%s", base, first)
		s += fmt.Sprintf("  SECOND %x/2\n", base+2)
		for i, name := range []string{"DATA5", "DATA6", "DATA7"} {
			s += fmt.Sprintf("  %s %x/4\n", name, base+0x10+4*i)
		}
		s += fmt.Sprintf("  ODD[0] %x/2\n  ODD[1] %x/2\n", base+0x20, base+0x28) // an index of other length is left
		s += fmt.Sprintf("  COPY %x/2%s", base+0x30, first)
		for i, name := range []string{"CHA", "CHB"} {
			s += fmt.Sprintf("  %s.CTRL %x/2 EN=1\n  %s.IN.X %x/2 EN=1\n", name, base+0x104+0x20*i, name, base+0x110+0x20*i)
		}
		return s + fmt.Sprintf("  MORE.CTRL %x/2 EN=1\n  MORE.IN.X %x/2 EN=1\n", base+0x204, base+0x210)
	}
	want := "device Chip\n" + block("A", 0x40000000, "40000000+400 40000800+10") +
		block("B", 0x40001000, "40001000+400 40001800+10") +
		"C 40002000 40002000+10\n  OTHER 40002008/4 EN=1\n" +
		"  MORE 4000200c/4 LOW=e BIT=10 WIDE=e0 PX=300 PY=c00 ALSO=3000\n" +
		"irq 3 A0 A\nirq 4 A1 A\nirq 5 B B\n"
	testkit.Equal(t, "read", text(d), want)
	a := &d.Peripherals[0]
	if r := a.At(0x40000003); len(r) != 1 || r[0].Name != "SECOND" {
		t.Errorf("At: %v", r)
	}
	if r := a.At(0x40000004); r != nil {
		t.Errorf("At, where nothing is: %v", r)
	}
}

func device(inside string) string {
	return "<device><name>D</name><peripherals>" + inside + "</peripherals></device>"
}

// wrap makes a file of what is in a peripheral.
func wrap(inside string) string {
	return device("<peripheral><name>P</name><baseAddress>0</baseAddress>" + inside + "</peripheral>")
}

func registers(inside string) string { return wrap("<registers>" + inside + "</registers>") }

func register(inside string) string {
	return registers("<register><name>R</name>" + inside + "</register>")
}

func repeated(inside string) string {
	return registers("<register><name>R%s</name>" + inside + "</register>")
}

// field makes a file of what is in the field of a register.
func field(inside string) string {
	return register("<addressOffset>0</addressOffset><fields><field><name>F</name>" + inside + "</field></fields>")
}

func cyclic(name, from string) string {
	return fmt.Sprintf(`<peripheral derivedFrom="%s"><name>%s</name></peripheral>`, from, name)
}

func derived(name, from string) string {
	return fmt.Sprintf(`<register derivedFrom="%s"><name>%s</name></register>`, from, name)
}

// TestHostile reads files that are wrong, or made to take all memory or time: each is an error that names the place.
func TestHostile(t *testing.T) {
	deep := strings.Repeat("<cluster><name>C</name><addressOffset>0</addressOffset>", 100)
	many := "<cluster><name>C</name><addressOffset>0</addressOffset><dim>100000</dim><dimIncrement>0</dimIncrement>"
	for _, c := range map[string]struct{ file, want string }{
		"empty":           {"", "it is empty"},
		"text":            {"hello", "it is empty"},
		"cut":             {chip[:500], "not an SVD file"},
		"another root":    {"<html></html>", "its root is <html>"},
		"no peripherals":  {"<device></device>", "no peripherals"},
		"encoding":        {`<?xml version="1.0" encoding="UTF-16"?><device/>`, "UTF-16"},
		"entity":          {`<!DOCTYPE d [<!ENTITY a "b">]><device>&a;</device>`, "entity"},
		"elements":        {strings.Repeat("<a>", 20000), "not an SVD file"},
		"base":            {device("<peripheral><name>P</name></peripheral>"), "peripheral P: baseAddress"},
		"offset":          {register("<addressOffset>x</addressOffset>"), `R: addressOffset: "x" is not a number`},
		"no offset":       {register(""), "R: addressOffset: no number"},
		"size":            {register("<addressOffset>0</addressOffset><size>4096</size>"), "4096 bits"},
		"negative":        {wrap("<interrupt><name>I</name><value>-1</value></interrupt>"), "interrupt I"},
		"bits":            {field("<bitRange>[0:3]</bitRange>"), "R: field F: bits 3 to 0"},
		"no bits":         {field(""), "field F: no number"},
		"width":           {field("<bitOffset>0</bitOffset><bitWidth>65</bitWidth>"), "65 bits"},
		"dim":             {repeated("<dim>99999999</dim><dimIncrement>4</dimIncrement>"), "dim: 99999999 elements"},
		"dims":            {registers(many + many + many + "</cluster></cluster></cluster>"), "more than 200000 registers"},
		"no increment":    {repeated("<addressOffset>0</addressOffset><dim>2</dim>"), "dimIncrement"},
		"depth":           {registers(deep + strings.Repeat("</cluster>", 100)), "16 deep"},
		"cycle":           {device(cyclic("A", "B") + cyclic("B", "A")), "cycle"},
		"cycle of two":    {registers(derived("A", "B") + derived("B", "A")), "cycle"},
		"derived of self": {registers(derived("A", "A")), "no such element"},
		"derived of none": {registers(derived("A", "X.Y.Z")), "derivedFrom X.Y.Z"},
		"cluster in itself": {registers(`<cluster><name>C</name><addressOffset>0</addressOffset>
			<cluster derivedFrom="P.C"><name>D</name><addressOffset>0</addressOffset></cluster></cluster>`), "16 deep"},
	} {
		_, err := svd.Read(strings.NewReader(c.file))
		testkit.WantError(t, err, "", c.want)
	}
}

// FuzzRead reads any file. What is read keeps its own rules.
func FuzzRead(f *testing.F) {
	f.Add([]byte(chip))
	f.Add([]byte(register("<addressOffset>0</addressOffset>")))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := svd.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, p := range d.Peripherals {
			if len(p.Blocks) == 0 || !slices.IsSortedFunc(p.Registers, func(a, b svd.Register) int {
				if a.Address < b.Address {
					return -1
				}
				return int(min(a.Address-b.Address, 1))
			}) {
				t.Errorf("peripheral %s: %v", p.Name, p)
			}
			for _, r := range p.Registers[:min(100, len(p.Registers))] {
				if r.Bytes == 0 || len(p.At(r.Address)) == 0 {
					t.Errorf("register %+v is not at its address", r)
				}
			}
		}
	})
}
