package projectapi

import (
	"testing"

	"github.com/boardsmith/boardsmith/device"
)

// TestWear: the sector that wears fastest says how many flashes are left.
func TestWear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		sectors []device.SectorWear
		erases  float64
		left    int
	}{
		{"one sector each time", []device.SectorWear{{Erases: 1, Rated: 100}, {Erases: 10, Rated: 100}}, 1.1, 90},
		{"another rating", []device.SectorWear{{Erases: 5, Rated: 10}, {Erases: 10, Rated: 1000}}, 1.5, 10},
		{"worn", []device.SectorWear{{Erases: 30, Rated: 20}}, 3, 0},
		{"not rated", []device.SectorWear{{Erases: 10}}, 1, -1},
	} {
		if erases, left := wearOf(device.DeviceWear{Flashes: 10, Sectors: c.sectors}); erases != c.erases || left != c.left {
			t.Errorf("%s: %g erases, %d left, want %g, %d", c.name, erases, left, c.erases, c.left)
		}
	}
}
