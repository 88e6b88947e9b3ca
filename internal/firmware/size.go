package firmware

import "debug/elf"

// A Size is the size of an image's parts in bytes: an image.Size.
type Size struct{ Text, Data, BSS int64 }

// SizeOf reads the sizes from an ELF file, as the tool size counts them, but TVM's constants in flash as text.
func SizeOf(f *elf.File) (s Size) {
	for _, sec := range f.Sections {
		switch n := int64(sec.Size); {
		case sec.Flags&elf.SHF_ALLOC == 0:
		case sec.Type == elf.SHT_NOBITS:
			s.BSS += n
		case IsConstant(f, sec):
			s.Text += n
		default:
			s.Data += n
		}
	}
	return s
}
