package release_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/release"
)

// libraryOf returns the release of a library of two models, of which one has parameters in RAM and a licence.
func libraryOf(t *testing.T) *release.Release {
	t.Helper()
	b, err := boards.Find("mps2_an385", nil)
	must(t, err)
	testkit.Need(t, b.Toolchain.CC)
	c, err := cmodel.NewCompiler(t.Context(), b, boards.Options{OperatorOpt: "Os"})
	must(t, err)
	var codes []*cmodel.Code
	for name, o := range map[string]cmodel.Options{
		"sine.graph": {Target: c.Target, RAMParameters: true}, "twoin.aot_c": {Target: c.Target},
	} {
		a, err := mlf.Open(mlftest.Path(t, name))
		must(t, err)
		if o.RAMParameters {
			for i, f := range a.Models[0].Sources {
				licence := []byte("/* SPDX-License-Identifier: MIT OR 0BSD */\n")
				a.Models[0].Sources[i].Data = slices.Concat(licence, f.Data)
			}
		}
		code, err := cmodel.Generate(a, a.Models[0], o)
		must(t, err)
		codes = append(codes, code)
	}
	slices.SortFunc(codes, func(a, b *cmodel.Code) int { return strings.Compare(a.Name, b.Name) })
	files, err := c.Bundle(t.Context(), codes)
	must(t, err)
	sizes, err := c.Sizes(t.Context(), files)
	must(t, err)
	r, err := release.OfLibrary(files, codes, c, sizes, release.Options{})
	must(t, err)
	return r
}

// TestLibrary reads release.json and the bill of materials of a library.
func TestLibrary(t *testing.T) {
	r := libraryOf(t)
	var about struct {
		Options []string
		Models  []struct{ Name, Archive, Archive_SHA256 string }
		Parts   []struct{ Kind, Name, Version, Licence string }
	}
	readAbout(t, r, &about)
	if !slices.Equal(about.Options, []string{"operator_opt=Os", "params=sine=ram"}) || len(about.Models) != 2 ||
		about.Models[0].Name != "sine" || len(about.Models[1].Archive_SHA256) != 64 {
		t.Errorf("%+v", about)
	}
	var parts []string
	for _, p := range about.Parts {
		parts = append(parts, p.Kind+" "+p.Name+" "+p.Licence)
		if p.Kind == "tool" && p.Version == "" {
			t.Errorf("%s has no version", p.Name)
		}
	}
	want := []string{
		"model sine.graph.tar.gz NOASSERTION", "model twoin.aot_c.tar.gz NOASSERTION", "code sine MIT OR 0BSD",
		"code twoin NOASSERTION",
		"runtime boardsmith runtime Apache-2.0", "generated mps2_an385 0BSD",
		"tool arm-none-eabi-gcc ", "tool arm-none-eabi-ar ",
	}
	if !slices.Equal(parts, want) {
		t.Errorf("parts:\n%s\nwant:\n%s", strings.Join(parts, "\n"), strings.Join(want, "\n"))
	}
	bom := billOf(t, r)
	if bom.Metadata.Component.Type != cyclonedx.ComponentTypeLibrary || len(*bom.Components) != 6 {
		t.Errorf("%+v", bom.Metadata)
	}
}
