// This file makes the release of a library of models.

package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/modellib"
	"github.com/boardsmith/boardsmith/project"
)

// OfLibrary returns the release of a folder of models that modellib.Bundle made by c, with the sizes of modellib.Sizes.
// The folder's files are in library/.
func OfLibrary(files []mlf.File, codes []*cmodel.Code, c *modellib.Compiler, of map[string]image.Size) (*Release,
	error,
) {
	r := &Release{}
	parts := []project.Part{}
	var models, archives, digests []string
	for _, code := range codes {
		name, digest := code.Archive()
		parts = append(parts, project.Part{Kind: project.PartModel, Name: name, Version: code.Name, SHA256: digest})
		models, archives, digests = append(models, code.Name), append(archives, name), append(digests, digest)
	}
	licences := map[string]bool{}
	h := sha256.New()
	for _, f := range files {
		r.add("library/"+f.Name, f.Data)
		if f.Name == modellib.Library {
			continue
		}
		fmt.Fprintf(h, "%q %x\n", f.Name, sha256.Sum256(f.Data))
		head := f.Data[:min(len(f.Data), 512)]
		if _, after, ok := bytes.Cut(head, []byte("SPDX-License-Identifier:")); ok {
			line, _, _ := bytes.Cut(after, []byte("\n"))
			licences[strings.TrimSpace(string(line))] = true
		}
	}
	parts = append(parts, project.Part{
		Kind: project.PartModelCode, Name: "library", SHA256: hex.EncodeToString(h.Sum(nil)),
		Licence: strings.Join(slices.Sorted(maps.Keys(licences)), " AND "),
	}, project.Part{Kind: project.PartTool, Name: c.Board.Toolchain.CC, Version: c.Target.Compiler})
	s := sizes{Parts: []partSize{}, Regions: []regionSize{}}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		s.Parts = append(s.Parts, partSize{name, of[name].Text, of[name].Data, of[name].BSS})
	}
	if err := r.addSizeFiles(s); err != nil {
		return nil, err
	}
	a := about{
		App: "library", Board: c.Board.Name, Model: strings.Join(models, ", "), Archive: strings.Join(archives, ", "),
		Digest: strings.Join(digests, ", "), Options: c.Target.Flags, Edited: []string{},
	}
	return r, r.complete(a, parts, "library/"+modellib.Library)
}
