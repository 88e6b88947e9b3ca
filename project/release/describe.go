// This file describes a release: its sizes, licences, bill of materials and README.

package release

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/release/internal/spdx"
)

// sizes is size.json: the memory of the image in bytes.
type sizes struct {
	Parts   []partSize   `json:"parts"`
	Regions []regionSize `json:"regions"`
	Arena   *need        `json:"arena,omitempty"`
	Stack   *need        `json:"stack,omitempty"`
}

type partSize struct {
	Part string `json:"part"`
	Text int64  `json:"text"`
	Data int64  `json:"data"`
	BSS  int64  `json:"bss"`
}

type regionSize struct {
	Region string `json:"region"`
	Origin uint64 `json:"origin"`
	Size   int64  `json:"size"`
	Used   int64  `json:"used"`
}

// A need is the memory that arena or stack take, at worst, and have.
type need struct {
	Need   int64    `json:"need"`
	Have   int64    `json:"have"`
	Unsure []string `json:"unsure"`
}

func (r *Release) addSizes(u *project.Usage) error {
	s := sizes{Parts: []partSize{}, Regions: []regionSize{}}
	for _, p := range append(slices.Clone(u.Parts), fit.PartUse{Name: "all", Size: u.Total()}) {
		s.Parts = append(s.Parts, partSize{p.Name, p.Text, p.Data, p.BSS})
	}

	for _, g := range u.Regions {
		s.Regions = append(s.Regions, regionSize{g.Name, g.Origin, g.Size, g.Used})
	}

	// A list without elements is [] in JSON, not null.
	if u.Arena.Need > 0 {
		s.Arena = &need{u.Arena.Need, u.Arena.Have, append([]string{}, u.Arena.Unsure...)}
	}
	if u.Stack != nil {
		s.Stack = &need{u.Stack.Need, u.Stack.Have, append([]string{}, u.Stack.Unsure...)}
	}
	return r.addSizeFiles(s)
}

// addSizeFiles adds size.json and size.txt.
func (r *Release) addSizeFiles(s sizes) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("size.json: %w", err)
	}
	r.add("size.json", append(data, '\n'))

	var b bytes.Buffer
	fmt.Fprintf(&b, "%-18s %10s %10s %10s   bytes\n", "part", "text", "data", "bss")
	for _, p := range s.Parts {
		if p.Text+p.Data+p.BSS > 0 {
			fmt.Fprintf(&b, "%-18s %10d %10d %10d\n", p.Part, p.Text, p.Data, p.BSS)
		}
	}

	for i, g := range s.Regions {
		if i == 0 {
			fmt.Fprintf(&b, "\n%-18s %10s %10s %10s   bytes\n", "region", "used", "free", "of")
		}
		fmt.Fprintf(&b, "%-18s %10d %10d %10d\n", g.Region, g.Used, g.Size-g.Used, g.Size)
	}

	if s.Arena != nil {
		fmt.Fprintf(&b, "\narena: the running model takes %d of %d bytes\n", s.Arena.Need, s.Arena.Have)
		for _, why := range s.Arena.Unsure {
			fmt.Fprintf(&b, "arena: it may be more: %s\n", why)
		}
	}

	if s.Stack != nil {
		fmt.Fprintf(&b, "\nstack: %d of %d bytes at worst\n", s.Stack.Need, s.Stack.Have)
		for _, why := range s.Stack.Unsure {
			fmt.Fprintf(&b, "stack: it may be more: %s\n", why)
		}
	}

	r.add("size.txt", b.Bytes())
	return nil
}

func appOf(p *project.Project) string {
	if app := p.Options().App; app != "" {
		return app
	}
	return boards.RPC
}

// componentTypes are the bill's types of parts.
var componentTypes = map[string]cyclonedx.ComponentType{
	partModel:     cyclonedx.ComponentTypeMachineLearningModel,
	partTool:      cyclonedx.ComponentTypeApplication,
	partGenerated: cyclonedx.ComponentTypeData,
}

// billOf returns the bill of materials, CycloneDX 1.6 as JSON. Its serial number follows from its content, and it has
// no time.
func billOf(a about, main, digest string, kind cyclonedx.ComponentType) ([]byte, error) {
	ref := string(kind)
	bom := cyclonedx.NewBOM()
	product := part{Name: cmp.Or(a.Product, a.names()+" for "+a.Board), Version: cmp.Or(a.Version, a.BuildID)}
	bom.Metadata = &cyclonedx.Metadata{
		Component: &cyclonedx.Component{
			BOMRef: ref, Type: kind, Name: product.Name, Version: product.Version,
			Description: a.description(main), Hashes: hashes(digest), PackageURL: a.Boardsmith.purlOf(product),
		},
	}

	if a.Commit != "" {
		source := &cyclonedx.Pedigree{Commits: &[]cyclonedx.Commit{{UID: a.Commit}}}
		if a.Changed != "" {
			source.Notes = "files differ from the commit: " + a.Changed
		}
		bom.Metadata.Component.Pedigree = source
	}

	var parts []cyclonedx.Component
	tools := []cyclonedx.Component{{
		BOMRef: "boardsmith", Type: cyclonedx.ComponentTypeApplication, Name: "boardsmith",
		Version: a.Boardsmith.text(), PackageURL: a.Boardsmith.purl(""),
	}}
	var on []string

	for i, p := range a.Parts {
		c := componentOf(p, fmt.Sprintf("part-%d", i))

		// Tools are no part of the product.
		if p.Kind == partTool {
			tools = append(tools, c)
			continue
		}
		parts, on = append(parts, c), append(on, c.BOMRef)
	}

	bom.Components = &parts
	bom.Metadata.Tools = &cyclonedx.ToolsChoice{Components: &tools}
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: ref, Dependencies: &on}}

	// The serial number follows from the bill without one.
	text, err := encode(bom)
	if err != nil {
		return nil, err
	}
	bom.SerialNumber = serialOf(text)
	return encode(bom)
}

// description returns what the bill's component is, besides its product.
func (a about) description(main string) string {
	text := fmt.Sprintf("%s, app %s, models %s, board %s", main, a.App, a.names(), a.Board)
	if a.BuildID != "" {
		text += ", build id " + a.BuildID
	}
	return text
}

func componentOf(p part, ref string) cyclonedx.Component {
	c := cyclonedx.Component{
		BOMRef: ref, Type: componentTypes[p.Kind], Name: p.Name, Version: p.Version, Description: p.Kind,
		Hashes: hashes(p.SHA256), PackageURL: p.PURL,
	}

	// All other parts are code.
	if c.Type == "" {
		c.Type = cyclonedx.ComponentTypeLibrary
	}

	// Some files have another text in place of an SPDX expression.
	if spdx.IsExpression(p.Licence) {
		c.Licenses = &cyclonedx.Licenses{{Expression: p.Licence}}
	} else if p.Licence != "" {
		c.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{Name: p.Licence}}}
	}

	if len(p.Files) > 0 {
		var files []cyclonedx.Component
		for _, f := range p.Files {
			files = append(files, cyclonedx.Component{
				Type: cyclonedx.ComponentTypeFile, Name: f.Name, Hashes: hashes(f.SHA256),
			})
		}
		c.Components = &files
	}

	if p.URL != "" {
		c.ExternalReferences = &[]cyclonedx.ExternalReference{{Type: cyclonedx.ERTypeVCS, URL: p.URL}}
	}
	return c
}

func hashes(sum string) *[]cyclonedx.Hash {
	if sum == "" {
		return nil
	}
	return &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}}
}

func encode(bom *cyclonedx.BOM) ([]byte, error) {
	var b bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).
		EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sbomFile, err)
	}
	return b.Bytes(), nil
}

// serialOf makes a UUID of version 8 (RFC 9562) of a text.
func serialOf(text []byte) string {
	u := sha256.Sum256(text)

	// These bits are the version and the variant.
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// purposes explains the files of a release.
var purposes = map[string]string{
	"firmware.elf": "the image with symbols and debug information; what debuggers and most programmers take",
	"firmware.bin": "its bytes as they lie in flash, from the image's first address on",
	"firmware.hex": "all bytes as Intel HEX, with addresses",
	"size.txt":     "memory by part and region",
	"size.json":    "the same as in size.txt, for programs",
	sbomFile:       "bill of materials, CycloneDX 1.6: what the image is made of, with digests and licences",
	"licences":     "texts of the licences that files of the image name",
	"library":      "the models' C, headers and compiled library; library/main.c is an example",
}

// names returns the models' names.
func (a about) names() string {
	var names []string
	for _, m := range a.Models {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// readme returns README.md.
func readme(a about, files []File) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s %s\n\n", cell(cmp.Or(a.Product, a.names())), cell(cmp.Or(a.Version, "for "+a.Board)))
	fmt.Fprintf(&b, "For board %s. App `%s`.", cell(a.Board), a.App)

	for _, m := range a.Models {
		fmt.Fprintf(&b, " Model `%s` is from the archive `%s` with the SHA-256\n`%s`.", cell(m.Name), cell(m.Archive),
			m.Digest)
	}

	if a.BuildID != "" {
		fmt.Fprintf(&b, " The running firmware\nreports the build id `%s`.", a.BuildID)
	}

	fmt.Fprintf(&b, " Made by\nboardsmith, %s.", cmp.Or(a.Boardsmith.text(), "whose version is not known"))
	b.WriteString("\n\n| file | what it is |\n|---|---|\n")

	seen := map[string]bool{}
	for _, f := range files {
		name, _, _ := strings.Cut(f.Name, "/")
		purpose := purposes[name]
		if region, ok := strings.CutPrefix(name, "firmware-"); ok {
			purpose = "the bytes of the flash " + strings.TrimSuffix(region, ".bin") + ", from its image's first address on"
		}

		// One line stands for all files of a folder.
		if purpose != "" && !seen[name] {
			seen[name] = true
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, purpose)
		}
	}

	fmt.Fprintf(&b, "| `%s` | inputs, parts and digests for programs |\n", aboutFile)
	fmt.Fprintf(&b, "| `%s` | `sha256sum -c %s` checks all files |\n", sumsFile, sumsFile)
	b.WriteString("\nEqual inputs give equal bytes of all these files: there are no times and no paths in them.\n")

	b.WriteString("\n| part | name | version | licence |\n|---|---|---|---|\n")
	for _, p := range a.Parts {
		version := p.Version
		if version == "" && p.SHA256 != "" {
			version = "SHA-256 " + p.SHA256[:min(12, len(p.SHA256))] + "…"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", p.Kind, cell(p.Name), cell(version), cell(p.Licence))
	}

	fmt.Fprintf(&b, "\n%s: the files name no licence. ", noLicence)
	b.WriteString("The compiler's libraries have the licences of its packages: on Debian, `licences/PACKAGE.copyright`.\n")

	for _, id := range missingTexts(a.Licences) {
		fmt.Fprintf(&b, "\nThe text of the licence `%s` is not in this release.\n", cell(id))
	}

	for _, p := range a.Parts {
		for _, f := range p.Files {
			fmt.Fprintf(&b, "\n`%s` is a file of %s, %s.\n", cell(f.Name), cell(p.Name), cell(p.Licence))
		}
	}

	for _, name := range a.Edited {
		fmt.Fprintf(&b, "\n`%s` was changed by hand after it was generated.\n", cell(path.Clean(name)))
	}
	return b.Bytes()
}

// cell makes a text harmless in a table of Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "`", "'").Replace(text)
}
