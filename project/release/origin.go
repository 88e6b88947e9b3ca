// This file identifies boardsmith and the parts of a release, as package URLs
// (https://github.com/package-url/purl-spec).

package release

import (
	"net/url"
	"path"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/package-url/packageurl-go"

	"github.com/boardsmith/boardsmith/internal/gitfolder"
)

const modulePath = "github.com/boardsmith/boardsmith"

// A version identifies the boardsmith that made a firmware.
type version struct {
	Module  string `json:"version,omitempty"` // as in go.mod; "" of a working tree
	Commit  string `json:"commit,omitempty"`  // 40 digits, or the 12 of a pseudo-version; "": not known
	Changed string `json:"changed,omitempty"` // digest of the working tree's files that differ from the commit; "": none
}

// runningVersion returns the version of this module in the running program, as Go recorded it.
func runningVersion() version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version{}
	}
	return versionIn(info)
}

// pseudoVersion matches the commit at the end of a version without a tag (https://go.dev/ref/mod#pseudo-versions).
var pseudoVersion = regexp.MustCompile(`[.-]\d{14}-([0-9a-f]{12})(?:\+.*)?$`)

func versionIn(info *debug.BuildInfo) (v version) {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != modulePath {
			continue
		}

		// A replaced module was built from another place.
		if m.Replace != nil {
			m = m.Replace
		}

		// Go writes this for a working tree.
		if m.Version != "(devel)" {
			v.Module = m.Version
		}
	}

	if m := pseudoVersion.FindStringSubmatch(v.Module); m != nil {
		v.Commit = m[1]
	}
	return v
}

// text returns the version for people; "" if it is not known.
func (v version) text() string {
	switch {
	case v.Module != "":
		return v.Module
	case v.Changed != "":
		return v.Commit + ", changed"
	}
	return v.Commit
}

// purl returns the package URL of boardsmith, or of a folder in it.
func (v version) purl(folder string) string {
	version := v.Module
	if version == "" {
		version = v.Commit
	}

	namespace, name := path.Split(modulePath)
	return packageurl.NewPackageURL(packageurl.TypeGolang, strings.TrimSuffix(namespace, "/"), name, version, nil,
		folder).ToString()
}

// purlOf returns a part's package URL: of boardsmith's module, of a git repository, else a generic one with the digest.
func (v version) purlOf(p part) string {
	switch {
	case p.Shipped && p.Kind == partRuntime:
		return v.purl("crt")
	case p.Shipped:
		return v.purl(path.Join("templates", p.Name))
	case p.URL != "":
		return gitPURL(p)
	}

	var digest packageurl.Qualifiers
	if p.SHA256 != "" {
		digest = packageurl.QualifiersFromMap(map[string]string{"checksum": "sha256:" + p.SHA256})
	}
	return packageurl.NewPackageURL(packageurl.TypeGeneric, "", p.Name, p.Version, digest, "").ToString()
}

// gitPURL returns the package URL of a part from a git repository: its commit, with the repository's URL unless the
// type implies it.
func gitPURL(p part) string {
	place, err := gitfolder.Parse(p.URL)
	if err != nil {
		return ""
	}

	u, err := url.Parse(place.URL)
	if err == nil && u.Host == "github.com" {
		namespace, name := path.Split(strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git"))
		return packageurl.NewPackageURL(packageurl.TypeGithub, strings.TrimSuffix(namespace, "/"), name, p.Version, nil,
			place.Dir).ToString()
	}

	repository := packageurl.QualifiersFromMap(map[string]string{"vcs_url": "git+" + place.URL + "@" + p.Version})
	return packageurl.NewPackageURL(packageurl.TypeGeneric, "", p.Name, p.Version, repository, place.Dir).ToString()
}
