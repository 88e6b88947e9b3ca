package cmodel

// NewTarget gives the tests outside of the package access to targets of any macros.
var NewTarget = newTarget

// TargetOf returns a target that is not checked.
func TargetOf(board string) *target { return &target{Board: board} }
