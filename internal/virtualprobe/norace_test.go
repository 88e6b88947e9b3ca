//go:build !race

package virtualprobe

// keeperFlags build a keeper without the race detector, as this program is.
var keeperFlags []string
