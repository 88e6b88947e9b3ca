package space

import (
	"encoding/json"
	"math/bits"
	"slices"
	"strconv"
)

// A Knob is a choice of the value of a macro, or of a list of compiler flags.
type Knob struct {
	Name string

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

// index returns the position of v, or -1.
func (p progression) index(v int64) int {
	if v < p.first || v > p.at(p.length-1) {
		return -1
	}
	var i int
	if p.step == 0 {
		i = bits.Len64(uint64(v)) - bits.Len64(uint64(p.first))
	} else {
		i = int(uint64(v-p.first) / uint64(p.step))
	}
	if p.at(i) != v {
		return -1
	}
	return i
}

// count returns the number of values, at least 1.
func (k *Knob) count() int {
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
func (k *Knob) value(i int) any {
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
func (k *Knob) numeric() bool { return k.flags == nil && (k.texts == nil || k.numbers != nil) }

// number returns value i of a numeric knob.
func (k *Knob) number(i int) int64 {
	if k.numbers != nil {
		return k.numbers[i]
	}
	return k.values.at(i)
}

// span returns the range of the values from index lo to hi - 1, for the evaluation of constraints. It is zero for a
// knob that is not numeric, which no constraint may name.
func (k *Knob) span(lo, hi int) span {
	switch {
	case !k.numeric():
		return span{}
	case k.numbers != nil:
		return span{slices.Min(k.numbers[lo:hi]), slices.Max(k.numbers[lo:hi])}
	}
	return span{k.values.at(lo), k.values.at(hi - 1)}
}

// compilerFlags returns the flags of value i.
func (k *Knob) compilerFlags(i int) []string {
	switch {
	case k.flags != nil:
		return k.flags[i]
	case k.texts != nil:
		return []string{"-D" + k.Name + "=" + k.texts[i]}
	}
	return []string{"-D" + k.Name + "=" + strconv.FormatInt(k.number(i), 10)}
}

// index returns the position of a value in JSON, or -1.
func (k *Knob) index(value json.RawMessage) int {
	if k.flags != nil {
		var flags []string
		if json.Unmarshal(value, &flags) != nil || flags == nil {
			return -1
		}
		return slices.IndexFunc(k.flags, func(f []string) bool { return slices.Equal(f, flags) })
	}
	var text string
	v, isNumber := parseNumber(string(value))
	switch {
	case isNumber && k.texts == nil:
		return k.values.index(v)
	case isNumber:
		text = string(value)
	case json.Unmarshal(value, &text) != nil || k.texts == nil:
		return -1
	}
	return slices.Index(k.texts, text)
}

// parseNumber parses a number in the format of strconv.FormatInt.
func parseNumber(text string) (v int64, ok bool) {
	v, err := strconv.ParseInt(text, 10, 64)
	return v, err == nil && strconv.FormatInt(v, 10) == text
}
