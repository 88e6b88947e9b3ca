package measure

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// TestClockRate: the rate of a device's clock does not depend on the time that requests take.
func TestClockRate(t *testing.T) {
	for _, rate := range []float64{1, 0.9, 16} {
		synctest.Test(t, func(t *testing.T) {
			got, err := clockRate(7, func(number int) (float64, error) {
				run := time.Duration(number) * 10 * time.Millisecond
				time.Sleep(run + 300*time.Millisecond) // of the bubble
				return run.Seconds() * rate, nil
			})
			if err != nil || math.Abs(got-rate) > 1e-9 {
				t.Errorf("%v, %v, want %v", got, err, rate)
			}
		})
	}
}
