// This file makes the release of a library of models.

package release

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/release/internal/spdx"
)

// OfLibrary returns the release of a folder of models that Compiler.Bundle made by c, with the sizes of its Sizes.
// The folder's files are in library/.
func OfLibrary(files []mlf.File, codes []*cmodel.Code, c *cmodel.Compiler, of map[string]image.Size, o Options) (
	*Release, error,
) {
	r := &Release{}
	for _, f := range files {
		r.add("library/"+f.Name, f.Data)
	}

	s := sizes{Parts: []partSize{}, Regions: []regionSize{}}
	// The map of sizes has no order.
	for _, name := range slices.Sorted(maps.Keys(of)) {
		s.Parts = append(s.Parts, partSize{name, of[name].Text, of[name].Data, of[name].BSS})
	}
	if err := r.addSizeFiles(s); err != nil {
		return nil, err
	}

	a := about{App: "library", Board: c.Board.Name, Options: c.Options.Words(), Edited: []string{}}
	for _, code := range codes {
		name, digest := code.Archive()
		a.Models = append(a.Models, model{code.Name, name, digest})
	}
	a.Options = append(a.Options, params(codes)...)

	parts, err := libraryParts(files, codes, c)
	if err != nil {
		return nil, err
	}

	return r, r.complete(o, a, parts, nil, "library/"+cmodel.CompiledLibrary, cyclonedx.ComponentTypeLibrary)
}

// params returns the option of the models whose parameters are in RAM, none without such models.
func params(codes []*cmodel.Code) []string {
	var inRAM []string
	for _, code := range codes {
		if code.RAMParameters() {
			inRAM = append(inRAM, code.Name+"=ram")
		}
	}

	switch len(inRAM) {
	case 0:
		return nil
	case len(codes):
		return []string{"params=ram"}
	}
	return []string{"params=" + strings.Join(inRAM, ",")}
}

// libraryParts returns what the library is made of, by origin, and the tools that made it.
func libraryParts(files []mlf.File, codes []*cmodel.Code, c *cmodel.Compiler) (parts []part, err error) {
	own, err := c.Runtime()
	if err != nil {
		return nil, err
	}

	// Files that no part below takes are generated ones.
	generated := slices.DeleteFunc(slices.Clone(files), func(f mlf.File) bool { return f.Name == cmodel.CompiledLibrary })
	add := func(kind, name string, of []mlf.File) {
		isOf := func(f mlf.File) bool {
			return slices.ContainsFunc(of, func(g mlf.File) bool { return f.Name == g.Name })
		}
		generated = slices.DeleteFunc(generated, isOf)
		more, failed := partsOf(kind, name, of)
		parts, err = append(parts, more...), errors.Join(err, failed)
	}

	for _, code := range codes {
		name, digest := code.Archive()
		parts = append(parts, part{Kind: partModel, Name: name, SHA256: digest, Licence: noLicence})
	}

	seen := map[string]bool{} // models of one archive may have code together
	for _, code := range codes {
		add(partModelCode, code.Name, slices.DeleteFunc(code.Archived(), func(f mlf.File) bool {
			before := seen[f.Name]
			seen[f.Name] = true
			return before
		}))
	}

	add(partRuntime, runtimeName, own)
	add(partGenerated, c.Board.Name, slices.Clone(generated))

	tools := c.Board.Toolchain
	return append(parts, part{Kind: partTool, Name: tools.CC, Version: c.Target.Compiler},
		part{Kind: partTool, Name: tools.AR, Version: c.Archiver}), err
}

// partsOf returns the parts that files are, one for each licence, with digests as projectParts has them.
func partsOf(kind, name string, files []mlf.File) (parts []part, err error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b mlf.File) int { return strings.Compare(a.Name, b.Name) })

	sums := map[string]hash.Hash{} // by licence
	for _, f := range files {
		licence, err := spdx.Of(bytes.NewReader(f.Data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}

		licence = cmp.Or(licence, map[string]string{partGenerated: generatedLicence}[kind], noLicence)
		if sums[licence] == nil {
			sums[licence] = sha256.New()
		}
		fmt.Fprintf(sums[licence], "%q %x\n", f.Name, sha256.Sum256(f.Data))
	}

	for _, licence := range slices.Sorted(maps.Keys(sums)) {
		parts = append(parts, part{
			Kind: kind, Name: name, SHA256: hex.EncodeToString(sums[licence].Sum(nil)), Licence: licence,
			Shipped: kind == partRuntime,
		})
	}
	return parts, nil
}
