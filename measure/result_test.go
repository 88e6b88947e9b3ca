package measure

import (
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestMargin: the interval of the median is the smallest of 95 %, by the tables of the sign test.
func TestMargin(t *testing.T) {
	for n, want := range map[int]int{
		0: -1, 1: -1, 5: -1, 6: 0, 8: 0, 9: 1, 10: 1, 12: 2, 20: 5, 100: 39, 1000: 468, 1001: 469,
	} {
		testkit.Equal(t, n, margin(n), want)
	}
}

// TestCostOf: the interval is of the median; too few samples have none, and instructions are their own.
func TestCostOf(t *testing.T) {
	samples := []float64{9, 1, 2, 3, 4, 5, 6, 7, 8, 100}
	c := costOf(inSeconds, 1, samples, 1000)
	if c.Median != 5.5 || c.Low != 2 || c.High != 9 || c.Max != 100 || c.Resolution != 0.001 {
		t.Errorf("%+v", c)
	}
	if c := costOf(inSeconds, 1, samples[:3], 0); c.Low != 0 || c.High != 0 || c.hasInterval() {
		t.Errorf("%+v", c)
	}
	if c := costOf(inInstructions, 10, samples[1:3], 0); c.Low != 10 || c.High != 20 || !c.hasInterval() {
		t.Errorf("%+v", c)
	}
}
