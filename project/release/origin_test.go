package release

import (
	"runtime/debug"
	"testing"
)

// TestVersionIn reads versions as Go records them.
func TestVersionIn(t *testing.T) {
	const pseudo = "v0.0.0-20260102030405-0123456789ab"
	of := func(m debug.Module) debug.BuildInfo { return debug.BuildInfo{Deps: []*debug.Module{{Path: "x"}, &m}} }
	fork := &debug.Module{Path: "../fork"}
	for name, c := range map[string]struct {
		info debug.BuildInfo
		want version
	}{
		"dependency":  {of(debug.Module{Path: modulePath, Version: "v1.2.3"}), version{Module: "v1.2.3"}},
		"pseudo":      {of(debug.Module{Path: modulePath, Version: pseudo}), version{Module: pseudo, Commit: "0123456789ab"}},
		"replacement": {of(debug.Module{Path: modulePath, Version: "v1.2.3", Replace: fork}), version{}},
		"devel":       {debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: "(devel)"}}, version{}},
		"other":       {debug.BuildInfo{Main: debug.Module{Path: "x", Version: "v9.0.0"}}, version{}},
		"dirty": {
			debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: pseudo + "+dirty"}},
			version{Module: pseudo + "+dirty", Commit: "0123456789ab"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := versionIn(&c.info); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// TestPURL: each kind of part has the package URL that the specification of its type asks for.
func TestPURL(t *testing.T) {
	v := version{Commit: "c0"}
	const module = "pkg:golang/github.com/boardsmith/boardsmith@c0#"
	for want, p := range map[string]part{
		module + "crt":                 {Kind: partRuntime, Shipped: true},
		module + "templates/baremetal": {Kind: partTemplate, Name: "baremetal", Shipped: true},
		"pkg:github/acme/kiln@c1#firmware": {
			Kind: partTemplate, URL: "https://github.com/acme/kiln.git//firmware@main", Version: "c1",
		},
		"pkg:generic/nn@c2?vcs_url=git%2Bhttps:%2F%2Fexample.org%2Fkernels.git%40c2#a": {
			Kind: partLibrary, Name: "nn", URL: "https://example.org/kernels.git//a@v1", Version: "c2",
		},
		"pkg:generic/libc.a?checksum=sha256:00": {Kind: partToolchain, Name: "libc.a", SHA256: "00"},
		"pkg:generic/a%20tool@1%2F2":            {Kind: partTool, Name: "a tool", Version: "1/2"},
	} {
		if got := v.purlOf(p); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
