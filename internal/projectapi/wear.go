// This file logs how much flashes have worn a device.

package projectapi

import (
	"math"

	"github.com/boardsmith/boardsmith/device"
)

// wearEvery is the number of flashes after which a device's wear is logged: a tuner flashes each of its trials.
const wearEvery = 10

// logWear logs the wear of the device that was flashed, at each wearEvery-th flash that has written something.
func (f *folder) logWear(report device.FlashReport) error {
	if f.Log == nil || report.Erased == 0 {
		return nil
	}
	list, err := f.Desk.Wear()
	if err != nil {
		return err
	}
	for _, w := range list {
		if w.Device != report.Device || w.Flashes == 0 || w.Flashes%wearEvery != 0 {
			continue
		}

		erases, left := wearOf(w)
		args := []any{"device", w.Device, "flashes", w.Flashes, "erases_per_flash", math.Round(10*erases) / 10}
		if left >= 0 {
			args = append(args, "flashes_left", left)
		}
		f.Log.Warn("wear", args...)
	}
	return nil
}

// wearOf returns how many sectors a flash has erased on average, and how many more flashes like these the device's
// most worn sector is rated for; -1 if no sector is rated.
func wearOf(w device.DeviceWear) (erases float64, left int) {
	left = -1
	total := 0
	for _, s := range w.Sectors {
		total += s.Erases
		if s.Rated == 0 || s.Erases == 0 {
			continue
		}
		if n := max(0, s.Rated-s.Erases) * w.Flashes / s.Erases; left < 0 || n < left {
			left = n
		}
	}
	return float64(total) / float64(w.Flashes), left
}
