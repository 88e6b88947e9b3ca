package drawn

import (
	"slices"
	"testing"
)

func hundred() []int {
	var all []int
	for i := range 100 {
		all = append(all, i)
	}
	return all
}

func TestOf(t *testing.T) {
	t.Setenv("SEED", "1")
	for _, c := range []struct {
		level string
		n     int
		want  int
	}{{"", 3, 3}, {"", 200, 100}, {Full, 3, 18}, {Full, 17, 100}, {Soak, 3, 100}} {
		t.Setenv(Variable, c.level)
		got := Of(t, "a test", hundred(), c.n)
		if len(got) != c.want || !slices.IsSorted(got) || len(slices.Compact(got)) != c.want {
			t.Errorf("%q, %d of 100: %v", c.level, c.n, got)
		}
		if InFull() != (c.level != "") || InSoak() != (c.level == Soak) {
			t.Errorf("%q: full %v, soak %v", c.level, InFull(), InSoak())
		}
	}
}

// The same seed draws the same for a purpose, and other cases for another purpose or by another seed.
func TestSeed(t *testing.T) {
	t.Setenv(Variable, "")
	t.Setenv("SEED", "1")
	first, again, other := Of(t, "one", hundred(), 5), Of(t, "one", hundred(), 5), Of(t, "another", hundred(), 5)
	t.Setenv("SEED", "2")
	second := Of(t, "one", hundred(), 5)
	if !slices.Equal(again, first) || slices.Equal(other, first) || slices.Equal(second, first) {
		t.Errorf("%v, then %v; for another purpose %v, by another seed %v", first, again, other, second)
	}
}
