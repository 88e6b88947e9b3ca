package space

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
)

// A knob is a choice of the value of a macro, or of a list of compiler flags.
type knob struct {
	name    string
	numeric bool // all values are numbers, so that neighbours are similar
	count   int  // of values, at least 1
	// value returns value i, 0 ≤ i < count: an int64 or a string, of a macro, or a []string, of flags.
	value func(i int) any
}

// flags returns the compiler flags of a value.
func (k knob) flags(value any) []string {
	if flags, ok := value.([]string); ok {
		return flags
	}
	return []string{fmt.Sprintf("-D%s=%v", k.name, value)}
}

func newKnob(f knobFile) (k knob, err error) {
	k = knob{name: f.Name, numeric: true}
	values := f.Define
	for _, flags := range f.Flags {
		values = append(values, flags)
	}

	switch {
	case f.Range != nil:
		k.count, k.value, err = f.Range.numbers()
		return k, err
	case len(values) == 0:
		return k, errors.New("it has no value")
	}

	seen := map[string]bool{}
	for i, v := range values {
		switch v := v.(type) {
		case json.Number:
			if values[i], err = v.Int64(); err != nil {
				return k, fmt.Errorf("%s is not an integer of 64 bits; put other numbers in quotes", v)
			}
		case string, []string:
			k.numeric = false
		default:
			return k, fmt.Errorf("%v is neither a number nor a text", v)
		}

		// Two values with the same flags would be measured twice.
		key := fmt.Sprintf("%q", k.flags(values[i]))
		if seen[key] {
			return k, fmt.Errorf("it has the value %v twice", v)
		}
		seen[key] = true
	}

	k.count, k.value = len(values), func(i int) any { return values[i] }
	return k, nil
}

// numbers returns the numbers of a range.
func (f *rangeFile) numbers() (count int, value func(i int) any, err error) {
	first, last, step := *f.From, *f.To, int64(1)
	if f.Step != nil {
		step = *f.Step
	}

	if f.PowersOfTwo { // then these are exponents
		first, last = int64(bits.Len64(uint64(first-1))), int64(bits.Len64(uint64(last)))-1
	}

	steps := uint64(last-first) / uint64(step) // correct also if the difference wraps
	switch {
	case f.PowersOfTwo && (f.Step != nil || *f.From < 1):
		return 0, nil, errors.New("powers of two start at 1, and have no step")
	case *f.From > *f.To || first > last:
		return 0, nil, fmt.Errorf("the range from %d to %d is empty", *f.From, *f.To)
	case steps >= maxValues:
		return 0, nil, fmt.Errorf("the range has more than %d values", maxValues)
	}

	return int(steps) + 1, func(i int) any {
		n := first + int64(i)*step
		if f.PowersOfTwo {
			return int64(1) << n
		}
		return n
	}, nil
}
