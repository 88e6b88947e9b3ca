//go:build mage

// A user's own repository: one import brings boardsmith's targets, more can stand beside them.
package main

import (
	//mage:import
	_ "github.com/boardsmith/boardsmith/targets"
)
