// This file builds a project, or determines that it is up to date.

package project

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/toolwords"
	"github.com/boardsmith/boardsmith/mlf"
)

const (
	recordFile   = "build.json" // in the build folder: the last build
	recordFormat = 1
)

// A buildRecord is build.json, format 1: the inputs and results of the last build.
type buildRecord struct {
	Format  int               `json:"format"`
	BuildID string            `json:"build_id"`
	Recipe  string            `json:"recipe"` // key of all inputs, tools and settings, without found
	Found   []toolState       `json:"found"`  // compiler and libraries, if only the build found them
	Digest  string            `json:"digest"` // SHA-256 of the ELF file
	Others  map[string]string `json:"others"` // the other results, name to digest
	Size    image.Size        `json:"size"`
	Tools   []toolState       `json:"tools"`
	Edited  []string          `json:"edited,omitempty"`
	Inputs  map[string]string `json:"inputs"` // name to digest
}

// Build makes the firmware from the files as they are, with the user's changes. If nothing has changed since the last
// build, it only checks that. It runs the template's build command in a folder of the cache, which has what earlier
// builds compiled, and copies the results into the project. A cancelled or failed build leaves no result. Errors:
// *FitError, *ToolError, *MissingToolError, *ObjectError, those of mlf and of the file system; class config if a file
// changed during the build.
func (p *Project) Build(ctx context.Context) (*image.Image, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	t, err := openTree(p.dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	p.builder.Progress.Report(device.ProgressEvent{Step: "build", Detail: "looking what has changed"})
	r, err := p.recipe(ctx, t)
	if err != nil {
		return nil, err
	}
	last := p.lastBuild(t)
	if !p.builder.Fresh && p.isUpToDate(ctx, last, r) {
		if p.found, err = p.completed(t); err != nil {
			return nil, err
		}
		return p.image(last, true), p.noteBuild(last)
	}
	now, err := p.make(ctx, t, r)
	if err != nil {
		p.found = nil
		return nil, p.checkBoard(ctx, err)
	}
	i := p.image(now, false)
	p.builder.images().Keep(i)
	return i, p.noteBuild(now)
}

// isUpToDate reports whether a build of the recipe would give the results of the last one.
func (p *Project) isUpToDate(ctx context.Context, last *buildRecord, r *recipe) bool {
	return last != nil && last.Recipe == hex.EncodeToString(r.key[:]) && p.hasForms(last) &&
		(p.state.Board.Toolchain.CC != "" || p.findsAgain(ctx, last.Found, p.state.Built))
}

func (p *Project) image(r *buildRecord, upToDate bool) *image.Image {
	i := &image.Image{
		Path:   filepath.Join(p.dir, filepath.FromSlash(p.state.Template.ELF)),
		Map:    filepath.Join(p.dir, filepath.FromSlash(p.state.Template.Map)),
		Digest: r.Digest, Board: p.state.Board.Name, Size: r.Size, UpToDate: upToDate, Edited: slices.Clone(r.Edited),
		BuildDir:  filepath.Join(p.dir, filepath.FromSlash(p.state.Template.FolderForProgrammer())),
		Landmarks: p.state.Template.Landmarks,
	}
	forms := p.state.Template.Forms
	i.Bin, i.Hex, i.Apart = p.formOf(r, forms.Bin), p.formOf(r, forms.Hex), p.formOf(r, forms.OfApart(p.apartRegion()))
	_, _ = hex.Decode(i.BuildID[:], []byte(r.BuildID)) // lastBuild and make have checked it
	return i
}

// formOf returns the path of another form of the image, or "" if the build made none.
func (p *Project) formOf(r *buildRecord, name string) string {
	if r.Others[name] == "" {
		return ""
	}
	return filepath.Join(p.dir, filepath.FromSlash(name))
}

// apartRegion returns the name of the flash besides that of the code whose contents the image has, "" of none.
func (p *Project) apartRegion() string {
	r, _ := p.state.Board.ApartRegion()
	return r.Name
}

// otherForms returns the image's other forms, for a board with a memory map or one that may turn out to have one.
func (p *Project) otherForms() []string {
	if len(p.state.Board.Memory) == 0 && p.state.Template.Board == "" {
		return nil
	}
	return p.state.Template.Forms.Names(p.apartRegion())
}

// wantedForms returns the forms that the build command is asked for.
func (p *Project) wantedForms() []string {
	if !p.builder.Forms || !p.state.Template.MakesForms() {
		return nil
	}
	return p.otherForms()
}

// hasForms reports whether a build made all requested forms.
func (p *Project) hasForms(r *buildRecord) bool {
	return !slices.ContainsFunc(p.wantedForms(), func(name string) bool { return r.Others[name] == "" })
}

func (p *Project) inBuild(name string) string { return path.Join(p.state.Template.BuildFolder(), name) }

// lastBuild returns the record of the last build, or nil if no build was finished or its results have changed.
func (p *Project) lastBuild(t *tree) *buildRecord {
	r := t.recordIn(p.state.Template.BuildFolder())
	if r == nil {
		return nil
	}
	elf := p.state.Template.ELF
	sums, err := t.digests(append(slices.Collect(maps.Keys(r.Others)), elf))
	if err != nil || sums[elf] != r.Digest {
		return nil
	}
	if delete(sums, elf); !maps.Equal(sums, r.Others) {
		return nil
	}
	return r
}

// recordIn returns the record of the last build in a build folder, nil without a valid one.
func (t *tree) recordIn(folder string) *buildRecord {
	data, err := t.readSome(path.Join(folder, recordFile), maxStateSize)
	if err != nil {
		return nil
	}
	r, err := parseBuildRecord(data)
	if err != nil {
		return nil
	}
	return r
}

func parseBuildRecord(data []byte) (*buildRecord, error) {
	var r buildRecord
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return nil, err
	}
	if id, err := hex.DecodeString(r.BuildID); r.Format != recordFormat || err != nil || len(id) != 16 {
		return nil, errors.New("not a build record of this format")
	}
	return &r, nil
}

// make checks the model and the tools, and builds with exclusive use of the folder.
func (p *Project) make(ctx context.Context, t *tree, r *recipe) (*buildRecord, error) {
	a, m, err := p.Model()
	if err != nil {
		return nil, err
	}
	if !p.state.Board.Partial {
		if err := p.checkRuns(a, m); err != nil {
			return nil, err
		}
	}
	program, err := p.findBuilder()
	if err != nil {
		return nil, err
	}
	if err := p.lock.change(ctx); err != nil {
		return nil, err
	}
	b := &buildRun{Project: p, t: t, r: r, program: program, archive: a, of: m}
	now, err := b.all(ctx)
	if err := errors.Join(err, p.lock.share()); err != nil {
		return nil, err
	}
	return now, nil
}

// A buildRun is a build under way.
type buildRun struct {
	*Project
	t       *tree // of the project
	r       *recipe
	program string // that builds
	archive *mlf.Archive
	of      *mlf.Model
}

// all replaces the results of the last build, and records them.
func (b *buildRun) all(ctx context.Context) (*buildRecord, error) {
	if err := b.t.removeResults(b.state.Template.BuildFolder(), b.state.Template.ELF); err != nil {
		return nil, err
	}
	results, err := b.inFolder(ctx)
	if err != nil {
		return nil, err
	}
	if b.found != nil {
		if err := b.checkCompleted(); err != nil {
			return nil, err
		}
	}
	id, size, err := b.inspect(filepath.Join(b.t.dir, filepath.FromSlash(b.state.Template.ELF)))
	if err != nil {
		return nil, err
	}
	if err := b.checkStack(); err != nil {
		return nil, err
	}
	return b.finish(results, id, size)
}

// runAndComplete runs the build command in a folder, and notes the board that it completed and the compiler that it
// found. changed are the inputs that differ from those of the folder's last build.
func (b *buildRun) runAndComplete(ctx context.Context, in *tree, held *os.File, changed []string) error {
	err := b.run(ctx, in, held, changed)
	board, failed := b.completed(in)
	if err != nil {
		if failed == nil {
			b.found = board // for advice about what does not fit
		}
		return err
	}
	if b.found = board; failed != nil || b.state.Board.Toolchain.CC != "" {
		return failed
	}
	b.r.found, err = b.identifyFound(ctx, &board.Board)
	return err
}

// run runs the template's command, and shows progress by the sources that it prints.
func (b *buildRun) run(ctx context.Context, in *tree, held *os.File, changed []string) error {
	sources := map[string]bool{} // those that no line has named yet
	for _, name := range changed {
		if isSource(name) {
			sources[name] = true
		}
	}
	total := len(sources)
	wanted := total
	if len(b.state.Template.Compile) == 0 {
		wanted = b.builder.jobs() // it has more sources than those in the project
	}
	more, give := b.builder.takeMore(wanted - 1)
	defer give()
	command := b.command(b.Board(), 1+more, b.wantedForms())
	tool := toolRun{
		dir: in.dir, shown: b.t.dir, path: b.program, args: command[1:], held: held, log: b.builder.log(),
		// The folder is no work tree, whatever is around it.
		env: append(slices.Clone(b.r.env), "GIT_CEILING_DIRECTORIES="+filepath.Dir(in.dir)),
	}
	tool.line = func(line string) {
		words := strings.Fields(line)
		if m := toolwords.NinjaStep.FindStringSubmatch(line); m != nil && len(words) > 0 {
			step, _ := strconv.Atoi(m[1]) // digits
			of, _ := strconv.Atoi(m[2])
			b.builder.Progress.Report(device.ProgressEvent{Step: "build", Detail: words[len(words)-1], Done: step, Total: of})
			return
		}
		for _, word := range words {
			if name := strings.TrimPrefix(word, in.dir+"/"); sources[name] {
				delete(sources, name)
				done := total - len(sources)
				b.builder.Progress.Report(device.ProgressEvent{Step: "build", Detail: name, Done: done, Total: total})
			}
		}
	}
	err := tool.run(ctx)
	if failed := (*ToolError)(nil); errors.As(err, &failed) && !b.r.hasLibrary(&b.state.Board.Board) &&
		toolwords.LibraryMissing.Match(failed.Tail) {
		chain := b.state.Board.Toolchain
		return &MissingToolError{Tool: "the C library of " + chain.CC, Install: chain.Install}
	}
	return err
}

// hasLibrary reports whether a C library was found for a board that is not a process.
func (r *recipe) hasLibrary(b *boards.Board) bool {
	return len(b.Memory) == 0 || slices.ContainsFunc(r.allTools(), func(t toolState) bool { return t.Name == libraryFile })
}

// finish writes the build record.
func (b *buildRun) finish(results []string, id [16]byte, size image.Size) (*buildRecord, error) {
	others, err := b.t.digests(results)
	if err != nil {
		return nil, err
	}
	now := &buildRecord{
		Format: recordFormat, BuildID: hex.EncodeToString(id[:]), Recipe: hex.EncodeToString(b.r.key[:]), Found: b.r.found,
		Digest: others[b.state.Template.ELF], Others: others, Size: size, Tools: b.r.allTools(), Edited: b.r.edited,
		Inputs: b.r.inputs,
	}
	delete(others, b.state.Template.ELF)
	data, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", recordFile, err)
	}
	name := b.inBuild(recordFile)
	at := filepath.Join(b.t.dir, filepath.FromSlash(name))
	return now, b.t.error("write", name, atomicwriter.WriteFile(at, append(data, '\n'), 0o644))
}

// removeResults removes the results of the last build, first its record. Other files stay, also results that changed.
func (t *tree) removeResults(folder, elf string) error {
	r := t.recordIn(folder)
	if r == nil {
		return nil
	}
	if err := t.remove(path.Join(folder, recordFile)); err != nil {
		return err
	}
	results := maps.Clone(r.Others)
	if results == nil {
		results = map[string]string{}
	}
	results[elf] = r.Digest
	for name, digest := range results {
		if !strings.HasPrefix(name, folder+"/") || !filepath.IsLocal(filepath.FromSlash(name)) {
			continue // no build made it
		}
		have, err := t.digest(name)
		if err == nil && have == digest {
			err = t.remove(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file and its folder, not atomically: without a record it is no result.
func (t *tree) writeFile(name string, data []byte) error {
	err := t.root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o755)
	if err == nil {
		err = t.root.WriteFile(filepath.FromSlash(name), data, 0o644)
	}
	return t.error("write", name, err)
}

// inspect checks that the result can run on the board, and reads its build id and sizes.
func (p *Project) inspect(path string) (id [16]byte, size image.Size, err error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return id, size, failure.New(failure.Link, p.correctBuild(), "the build command succeeded but made no %s",
			p.state.Template.ELF)
	}
	if err != nil {
		return id, size, failure.New(failure.Link, p.correctBuild(), "%w", err)
	}
	if err := p.checkTarget(data); err != nil {
		return id, size, err
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return id, size, failure.New(failure.Link, p.correctBuild(), "%s: %w", path, err)
	}
	defer f.Close()
	if err := p.checkImage(f); err != nil {
		return id, size, err
	}
	id, _, err = firmware.BuildID(f, p.state.Template.ELF)
	return id, image.SizeOf(f), err
}

// checkImage returns an error for an image that cannot run on the board.
func (p *Project) checkImage(f *elf.File) error {
	b := p.Board()
	if len(b.Memory) == 0 {
		return nil // the operating system loads it
	}
	if err := checkReserved(f, p.state.Template.ELF, b); err != nil {
		return err
	}
	return cmp.Or(p.checkContract(f), p.checkParts(f))
}

// checkTarget returns an error for an image that was compiled for another processor or calling convention than the
// board's.
func (p *Project) checkTarget(linked []byte) error {
	name, b := p.state.Template.ELF, p.Board()
	info, err := mlf.File{Name: name, Data: linked}.Target()
	if err != nil {
		return failure.New(failure.Link, p.correctBuild(), "%s: %w", name, err)
	}
	if target := fit.ELFOf(info); !b.ELF.Accepts(target) {
		return failure.New(failure.Config, "compare cflags and the compiler "+b.Toolchain.CC+" with elf in the board's file",
			"%w", &ObjectError{Object: name, Is: target.String(), Board: b.Name, Wants: b.ELF.String()})
	}
	return nil
}

// checkParts returns an error for an image without the parts of its checksum, or with data outside of them.
func (p *Project) checkParts(f *elf.File) error {
	b := p.Board()
	parts, err := p.state.Template.Landmarks.FindParts(f, p.state.Template.ELF)
	if err != nil {
		return err
	}
	code, _ := b.Region(b.Place.Code)
	if len(parts) == 0 && len(p.state.Template.Landmarks.Parts) > 0 && code.Nonvolatile {
		return failure.Errorf(failure.Link, "%s has no part of the firmware in %s", p.state.Template.ELF, code.Name)
	}
	if err := firmware.CheckCovered(f, parts); err != nil {
		return failure.Errorf(failure.Link, "%s: %w", p.state.Template.ELF, err)
	}
	if _, err := firmware.ReadParts(f, p.state.Template.Landmarks, p.state.Template.ELF, firmware.Erased); err != nil {
		return failure.New(failure.Link, "the ranges of the firmware's checksum are longer than what is loaded", "%w", err)
	}
	return nil
}
