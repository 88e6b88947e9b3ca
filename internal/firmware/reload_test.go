package firmware

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/corpus"
)

// loading makes an ELF file that loads segments.
func loading(t *testing.T, class elf.Class, order binary.ByteOrder, loads ...Segment) []byte {
	t.Helper()
	var w bytes.Buffer
	put := func(v any) { must(t, binary.Write(&w, order, v)) }
	ident := [elf.EI_NIDENT]byte{0x7F, 'E', 'L', 'F', byte(class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	if order == binary.BigEndian {
		ident[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
	}
	n := uint16(len(loads))
	head, entry := 52, 32
	if class == elf.ELFCLASS64 {
		head, entry = 64, 56
		put(elf.Header64{Ident: ident, Type: 2, Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: n, Shentsize: 64})
	} else {
		put(elf.Header32{Ident: ident, Type: 2, Version: 1, Phoff: 52, Ehsize: 52, Phentsize: 32, Phnum: n, Shentsize: 40})
	}
	at := uint64(head + entry*len(loads))
	for _, s := range loads {
		size := uint64(len(s.Data))
		if class == elf.ELFCLASS64 {
			put(elf.Prog64{Type: 1, Off: at, Vaddr: s.Addr, Paddr: s.Addr, Filesz: size, Memsz: size})
		} else {
			put(elf.Prog32{
				Type: 1, Off: uint32(at), Vaddr: uint32(s.Addr), Paddr: uint32(s.Addr), Filesz: uint32(size), Memsz: uint32(size),
			})
		}
		at += size
	}
	for _, s := range loads {
		w.Write(s.Data)
	}
	return w.Bytes()
}

// TestReload: the new file loads exactly the new bytes, in each class and byte order.
func TestReload(t *testing.T) {
	t.Parallel()
	for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			file := loading(t, class, order, Segment{0x100, []byte("....abc")}, Segment{0x200, []byte("data")})
			got, err := Reload(file, []Segment{{0x0F0, []byte("0123456789abcdefHEADabctrailer")}, {0x1FE, []byte("<<DATA>>")}})
			must(t, err)
			f, err := elf.NewFile(bytes.NewReader(got))
			must(t, err)
			loads, err := Loads(f, "x")
			must(t, err)
			want := []Segment{
				{0x0F0, []byte("0123456789abcdef")},
				{0x100, []byte("HEADabc")},
				{0x107, []byte("trailer")},
				{0x1FE, []byte("<<")},
				{0x200, []byte("DATA")},
				{0x204, []byte(">>")},
			}
			if !reflect.DeepEqual(loads, want) {
				t.Errorf("%v %v: %+v", class, order, loads)
			}
			if same, err := Reload(file, []Segment{{0x100, []byte("....abc")}, {0x200, []byte("data")}}); err != nil ||
				!bytes.Equal(same, file) {
				t.Errorf("the same bytes, another file: %v", err)
			}
			_, err = Reload(file, []Segment{{0x100, []byte("....ab")}, {0x200, []byte("data")}})
			testkit.WantError(t, err, "", "0x00000106")
		}
	}
}

// TestReloadManySegments: more segments than the header can count are an error.
func TestReloadManySegments(t *testing.T) {
	t.Parallel()
	file := loading(t, elf.ELFCLASS32, binary.LittleEndian, Segment{0, []byte("a")})
	for n, ok := range map[uint64]bool{maxSegments - 2: true, maxSegments - 1: false, maxSegments + 1: false} {
		loads := []Segment{{0, []byte("a")}}
		for i := range n {
			loads = append(loads, Segment{4 + 2*i, []byte("b")})
		}
		if _, err := Reload(file, loads); (err == nil) != ok {
			t.Errorf("%d more segments: %v", n, err)
		}
	}
}

// FuzzReload: no file makes it panic, and what it returns is a file that loads the bytes.
func FuzzReload(f *testing.F) {
	corpus.Add(f)
	t := new(testing.T)
	for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
		f.Add(loading(t, class, binary.LittleEndian, Segment{4, []byte("abcd")}), []byte("0123456789"))
	}
	f.Fuzz(func(t *testing.T, file, data []byte) {
		out, err := Reload(file, []Segment{{0, data}})
		if err != nil {
			return
		}
		if _, err := elf.NewFile(bytes.NewReader(out)); err != nil {
			t.Error(err)
		}
	})
}

// TestHEX: what is written is read again; addresses above 64 KiB have records of their own.
func TestHEX(t *testing.T) {
	t.Parallel()
	all := []Segment{{0xFFF8, []byte("across 64 KiB, in one row")}, {0x08000000, bytes.Repeat([]byte{1, 2, 3}, 100)}}
	text := HEX(all)
	if !bytes.HasPrefix(text, []byte(":08FFF800")) || !bytes.Contains(text, []byte("\n:020000040001F9\n")) {
		t.Errorf("%s", text)
	}
	if got, err := ParseHEX(text); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range [][2]string{
		{"", "no end record"},
		{":0400000300000011E8\r\n:00000001FF", ""},
		{":020000021000EC\n:0100000041BE\n:00000001FF", ""},
		{":0100000041BF\n:00000001FF", "line 1: wrong checksum"},
		{":01000000\n", "line 1: not a record"},
		{"0100000041BE\n", "line 1: not a record"},
		{":0200000041BD\n", "line 1: not a record"},
		{":00000006FA\n", "line 1: a record of type 6"},
		{":0100000041BE\n:0100000041BE\n:00000001FF", "two records for 0x00000000"},
		{":02000004FFFFFC\n:02FFFF0041427D\n:00000001FF", ""}, // up to 4 GiB, and one byte more
	} {
		text, want := c[0], c[1]
		_, err := ParseHEX([]byte(text))
		testkit.WantErrorIf(t, want != "", err, "", want)
	}
}

func FuzzParseHEX(f *testing.F) {
	f.Add(HEX([]Segment{{0xFFF8, []byte("across 64 KiB")}}))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := ParseHEX(text)
		if err != nil || len(all) > 0 && all[len(all)-1].End() > 1<<32 {
			return
		}
		if again, err := ParseHEX(HEX(all)); err != nil || !reflect.DeepEqual(again, all) {
			t.Errorf("%+v, %v", again, err)
		}
	})
}
