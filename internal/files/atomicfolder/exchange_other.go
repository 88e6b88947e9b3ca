//go:build !linux

package atomicfolder

import "errors"

// exchange cannot give two folders each other's name in one step.
func exchange(_, _ string) error { return errors.ErrUnsupported }
