//go:build race

package virtualprobe

// keeperFlags build a keeper that has the race detector, as this program has.
var keeperFlags = []string{"-race"}
