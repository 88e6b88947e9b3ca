// This file names the files with licences.

package library

import (
	"path"
	"slices"
)

// LicenceFolder is the folder with the texts of a project's, library's or template's licences, ID.txt each, as in the
// REUSE specification 3.3.
const LicenceFolder = "LICENSES"

// LicenceFiles are patterns of the files with licences at the top of a project or library.
var LicenceFiles = []string{"LICEN[CS]E*", "COPYING*", "NOTICE*", LicenceFolder + "/*.txt"}

// IsLicence reports whether a file of a library or project, named by its path there, has a licence or a notice.
func IsLicence(name string) bool {
	return slices.ContainsFunc(LicenceFiles, func(pattern string) bool {
		match, _ := path.Match(pattern, name)
		return match
	})
}
