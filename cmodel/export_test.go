package cmodel

// NewTarget gives the tests outside of the package access to targets of any macros.
var NewTarget = newTarget
