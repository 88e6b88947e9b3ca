package space

import (
	"fmt"
	"strconv"
)

// A knob is a choice of the value of a macro, or of a list of compiler flags.
type knob struct {
	name    string
	values  []any // each an int64 or a string, of a macro, or a []string, of flags; nil for a range
	numbers progression
	numeric bool // all values are numbers, so that neighbours are similar
}

// A progression is an arithmetic one of first and step, or a geometric one of first and 2.
type progression struct {
	first, step int64 // step 0: geometric
	length      int
}

// count returns the number of values, at least 1.
func (k *knob) count() int {
	if k.values != nil {
		return len(k.values)
	}
	return k.numbers.length
}

// value returns value i. It panics unless 0 ≤ i < count.
func (k *knob) value(i int) any {
	if k.values != nil {
		return k.values[i]
	}
	return k.number(i)
}

// number returns value i of a numeric knob.
func (k *knob) number(i int) int64 {
	switch p := k.numbers; {
	case k.values != nil:
		return k.values[i].(int64)
	case p.step == 0:
		return p.first << i
	default:
		return p.first + int64(i)*p.step
	}
}

// compilerFlags returns the flags of value i.
func (k *knob) compilerFlags(i int) []string {
	if flags, ok := k.value(i).([]string); ok {
		return flags
	}
	return []string{fmt.Sprintf("-D%s=%v", k.name, k.value(i))}
}

// parseNumber parses a number in the format of strconv.FormatInt.
func parseNumber(text string) (v int64, ok bool) {
	v, err := strconv.ParseInt(text, 10, 64)
	return v, err == nil && strconv.FormatInt(v, 10) == text
}
