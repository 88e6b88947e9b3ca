//go:build !race

package virtualprobe

// keeperFlags build a keeper without the race detector, like this program.
var keeperFlags []string
