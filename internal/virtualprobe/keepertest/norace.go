//go:build !race

package keepertest

const raceDetector = false
