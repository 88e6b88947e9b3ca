// Package templates holds what firmware projects are made of, in the binary.
//
// Each folder is one template, described by its template.json. Package project reads that file, copies the folder and
// generates what varies. No Go code contains a template's name.
package templates

import "embed"

// FS holds one folder per template, and the script that every project gets.
//
//go:embed all:baremetal launch_microtvm_api_server.sh
var FS embed.FS

// LaunchScript is the name of that script, here and in a project.
const LaunchScript = "launch_microtvm_api_server.sh"
