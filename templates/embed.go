// Package templates holds what firmware projects are made of, in the binary.
//
// Each folder with a template.json is one template, described by that file. Package project reads it, copies the folder
// and generates what varies. No Go code contains a template's name. The folders firmware and standalone
// have the C that templates share, parents has templates that only others inherit from.
package templates

import "embed"

// FS holds one folder per template, the firmware's common C, and the script that every project gets.
//
//go:embed all:baremetal all:zephyr all:parents firmware standalone launch_microtvm_api_server.sh
var FS embed.FS

// LaunchScript is the script in FS, which has the same name in a project.
const LaunchScript = "launch_microtvm_api_server.sh"
