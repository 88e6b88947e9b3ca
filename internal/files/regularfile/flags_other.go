//go:build !unix

package regularfile

const noWait = 0
