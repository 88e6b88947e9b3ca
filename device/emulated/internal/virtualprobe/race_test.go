//go:build race

package virtualprobe

// keeperFlags build a keeper with the race detector, like this program.
var keeperFlags = []string{"-race"}
