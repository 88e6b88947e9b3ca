//go:build mage

// The main job of boardsmith from the command line: an archive goes in, answers come out.
package main

import (
	//mage:import
	_ "github.com/boardsmith/boardsmith/targets/develop"
	//mage:import
	_ "github.com/boardsmith/boardsmith/targets"
)
