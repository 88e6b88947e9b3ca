// Package ownfirmware has the files of this example, from which template:new makes a template.
package ownfirmware

import "embed"

// FS holds the template firmware, the files in cmake that replace some of it for CMake, and the board.
//
//go:embed firmware cmake boards/own_mps2_an386.json
var FS embed.FS
