package project

import "os"

// tryHold says yes: a program that is killed here takes its children's files with it.
func tryHold(*os.File) (bool, error) { return true, nil }
