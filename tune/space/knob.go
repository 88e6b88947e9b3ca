package space

import (
	"slices"
	"strconv"
)

// A knob is a choice of the value of a macro, or of a list of compiler flags.
type knob struct {
	name string

	flags   [][]string  // lists of flags; nil for a macro
	texts   []string    // values of a macro; nil for a range
	numbers []int64     // texts as numbers; nil if one of texts is not a number
	values  progression // if flags and texts are nil
}

// A progression is an arithmetic one of first and step, or a geometric one of first and 2.
type progression struct {
	first, step int64 // step 0: geometric
	length      int
}

func (p progression) at(i int) int64 {
	if p.step == 0 {
		return p.first << i
	}
	return p.first + int64(i)*p.step
}

// count returns the number of values, at least 1.
func (k *knob) count() int {
	switch {
	case k.flags != nil:
		return len(k.flags)
	case k.texts != nil:
		return len(k.texts)
	}
	return k.values.length
}

// value returns value i: an int64, a string (a macro's value that is not a number), or a []string of flags. It panics
// unless 0 ≤ i < count.
func (k *knob) value(i int) any {
	switch {
	case k.flags != nil:
		return slices.Clone(k.flags[i])
	case k.texts != nil:
		if v, ok := parseNumber(k.texts[i]); ok {
			return v
		}
		return k.texts[i]
	}
	return k.number(i)
}

// numeric reports whether all values are numbers, so that neighbours are similar.
func (k *knob) numeric() bool { return k.flags == nil && (k.texts == nil || k.numbers != nil) }

// number returns value i of a numeric knob.
func (k *knob) number(i int) int64 {
	if k.numbers != nil {
		return k.numbers[i]
	}
	return k.values.at(i)
}

// compilerFlags returns the flags of value i.
func (k *knob) compilerFlags(i int) []string {
	switch {
	case k.flags != nil:
		return k.flags[i]
	case k.texts != nil:
		return []string{"-D" + k.name + "=" + k.texts[i]}
	}
	return []string{"-D" + k.name + "=" + strconv.FormatInt(k.number(i), 10)}
}

// parseNumber parses a number in the format of strconv.FormatInt.
func parseNumber(text string) (v int64, ok bool) {
	v, err := strconv.ParseInt(text, 10, 64)
	return v, err == nil && strconv.FormatInt(v, 10) == text
}
