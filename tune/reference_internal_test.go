package tune

import (
	"errors"
	"testing"
)

// TestSteadyTimeIgnoresOutliers injects times of a reference.
func TestSteadyTimeIgnoresOutliers(t *testing.T) {
	broken := errors.New("the link broke")
	for name, c := range map[string]struct {
		expected float64
		times    []float64
		want     float64
		uses     int
		err      error
	}{
		"at first":            {0, []float64{9, 1, 1.02, 1.01, 30}, 1.02, 5, nil},
		"as expected":         {1, []float64{1.04}, 1.04, 1, nil},
		"one outlier":         {1, []float64{2, 1, 1.01, 1.02, 0.99}, 1.01, 5, nil},
		"two outliers":        {1, []float64{2, 1, 3, 1.02, 0.99}, 1.02, 5, nil},
		"slower":              {1, []float64{2, 2.1, 1, 2.2, 2.3}, 2.1, 5, nil},
		"faster":              {1, []float64{0.5, 0.5, 0.5, 1, 0.5}, 0.5, 5, nil},
		"cannot be measured":  {1, nil, 0, 1, broken},
		"fails among outlier": {1, []float64{2, 1}, 0, 3, broken},
	} {
		uses := 0
		got, err := steadyTime(c.expected, 0.05, func() (float64, error) {
			if uses++; uses > len(c.times) {
				return 0, broken
			}
			return c.times[uses-1], nil
		})
		if got != c.want || uses != c.uses || !errors.Is(err, c.err) {
			t.Errorf("%s: %v after %d measurements, %v; want %v after %d, %v", name, got, uses, err, c.want, c.uses, c.err)
		}
	}
}
