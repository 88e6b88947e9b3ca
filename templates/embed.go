// Package templates holds what firmware projects are made of, in the binary.
//
// Each folder is one template and says in its template.json how it is built; package project reads that, copies the
// folder and fills in what varies. No code here, and none elsewhere, knows a template by name.
package templates

import "embed"

// FS holds one folder per template, and the script that every project gets.
//
//go:embed all:baremetal launch_microtvm_api_server.sh
var FS embed.FS

// LaunchScript is the name of that script, here and in a project.
const LaunchScript = "launch_microtvm_api_server.sh"
