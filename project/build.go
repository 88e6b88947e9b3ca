// This file builds a project, or determines that it is up to date.

package project

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"
	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/toolwords"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/progress"
)

const (
	recordFile     = "build.json"        // in the build folder: the last build
	unfinishedFile = ".boardsmith.begun" // exists during a build: without a finished build the folder's content is invalid
	recordFormat   = 1
	orphanTimeout  = 30 * time.Second // limit for compilers of a killed build to end
)

// A buildRecord is build.json, format 1: the inputs and results of the last build.
type buildRecord struct {
	Format  int               `json:"format"`
	BuildID string            `json:"build_id"`
	Runtime string            `json:"runtime"` // key of the part that does not depend on the model
	Digest  string            `json:"digest"`  // SHA-256 of the ELF file
	Others  map[string]string `json:"others"`  // the other results, name to digest; "" if the build made none
	Size    image.Size        `json:"size"`
	Tools   []toolState       `json:"tools"`
	Edited  []string          `json:"edited,omitempty"`
	Inputs  map[string]string `json:"inputs"`  // name to digest
	Setting string            `json:"setting"` // key of inputs whose changes the build command does not detect
	Objects string            `json:"objects"` // digest of the build folder, see objects
}

// Build makes the firmware from the files as they are, with the user's changes. If nothing has changed since the
// last build, it only checks that. It runs the template's build command; the compiled runtime comes from the cache
// if it is there. A cancelled or failed build leaves no result. Errors: *FitError, *ToolError, *MissingToolError,
// *ObjectError, those of mlf and of the file system; class config if a file changed during the build.
func (p *Project) Build(ctx context.Context) (*image.Image, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	t, err := openTree(p.dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	p.builder.Progress.Tell(progress.Event{Step: "build", Detail: "looking what has changed"})
	r, err := p.recipe(ctx, t)
	if err != nil {
		return nil, err
	}
	last := p.lastBuild(t)
	if last != nil && last.BuildID == hex.EncodeToString(r.id[:]) && p.hasForms(last) {
		if p.found, err = p.completed(t); err != nil {
			return nil, err
		}
		return p.image(last, true), p.noteBuild(last)
	}
	now, err := p.make(ctx, t, r, last)
	if err != nil {
		p.found = nil
		return nil, p.checkBoard(ctx, err)
	}
	i := p.image(now, false)
	p.builder.images().Keep(i)
	return i, p.noteBuild(now)
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
	if _, err := t.root.Lstat(filepath.FromSlash(p.inBuild(unfinishedFile))); err == nil {
		return nil
	}
	f, err := t.root.Open(filepath.FromSlash(p.inBuild(recordFile)))
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxStateSize))
	if err != nil {
		return nil
	}
	r, err := parseBuildRecord(data)
	if err != nil {
		return nil
	}
	if elf, others, err := p.results(t); err != nil || elf != r.Digest || !maps.Equal(others, r.Others) {
		return nil
	}
	return r
}

// results returns the digests of a build's results: of the ELF file and, by name, of its other forms and the map.
func (p *Project) results(t *tree) (elf string, others map[string]string, err error) {
	sums, err := t.digests(slices.Concat(p.otherForms(), p.state.Template.BoardFile(),
		[]string{p.state.Template.Map, p.state.Template.ELF}))
	elf = sums[p.state.Template.ELF]
	delete(sums, p.state.Template.ELF)
	return elf, sums, err
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
func (p *Project) make(ctx context.Context, t *tree, r *recipe, last *buildRecord) (*buildRecord, error) {
	a, m, err := p.Model()
	if err != nil {
		return nil, err
	}
	if !p.state.Board.Partial {
		if err := p.checkRuns(a, m); err != nil {
			return nil, err
		}
	}
	build, err := p.findBuilder()
	if err != nil {
		return nil, err
	}
	if err := p.lock.change(ctx); err != nil {
		return nil, err
	}
	now, err := p.compile(ctx, t, r, last, build)
	err = p.brokenContract(p.missingSystem(p.builder.explained(p.linkFits(err, a, m), a, p.state.Libraries)))
	if err := errors.Join(err, p.lock.share()); err != nil {
		return nil, err
	}
	return now, nil
}

// compile runs the build command on a build folder that is empty or holds last, and records the result.
func (p *Project) compile(ctx context.Context, t *tree, r *recipe, last *buildRecord, build string) (*buildRecord,
	error,
) {
	if p.state.Template.Kept {
		last = nil // the project's folder has no objects
	}
	held, err := p.begin(ctx, t, r, last)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	reused, release := true, func() {}
	if folder := p.keptFolder(r, build); folder != nil {
		defer folder.Drop() // unless it was returned, what it has is damaged
		err = p.compileKept(ctx, t, r, build, folder)
	} else if reused, release, err = p.reuse(ctx, t, r, last); err == nil {
		defer release()
		err = p.compileHere(ctx, t, r, build, held, reused)
	}
	if err != nil {
		return nil, err
	}
	if p.found != nil {
		if err := p.checkCompleted(); err != nil {
			return nil, err
		}
	}
	if err := p.postLink(ctx, t, held); err != nil {
		return nil, err
	}
	size, err := p.inspect(filepath.Join(p.dir, filepath.FromSlash(p.state.Template.ELF)))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.checkStack(), p.checkLibraries()); err != nil {
		return nil, err
	}
	if !reused {
		if err := p.store(t, r); err != nil {
			return nil, err
		}
		release()
	}
	return p.finish(t, r, size)
}

// compileHere runs the build command in the project's folder.
func (p *Project) compileHere(ctx context.Context, t *tree, r *recipe, build string, held *os.File, reused bool) error {
	if err := p.runBuilds(ctx, t, build, held, r, reused); err != nil {
		return err
	}
	return p.unchanged(ctx, t, r)
}

// reuse copies the compiled runtime into the build folder and reports whether the cache has it. If not, only this
// build of the Builder compiles it until release: others wait and then take it from the cache.
func (p *Project) reuse(ctx context.Context, t *tree, r *recipe, last *buildRecord) (reused bool, release func(),
	err error,
) {
	nothing := func() {}
	if p.restore(t, r, last) {
		return true, nothing, nil
	}
	if cache.OrUsers(p.builder.Cache) == nil {
		return false, nothing, nil
	}
	release, err = p.builder.claim(ctx, r.runtime)
	if err != nil {
		return false, nil, err
	}
	if p.restore(t, r, last) {
		release()
		return true, nothing, nil
	}
	return false, release, nil
}

// restore copies the compiled runtime from the cache into the build folder unless it is there. It reports whether
// it is there afterwards.
func (p *Project) restore(t *tree, r *recipe, last *buildRecord) bool {
	key := hex.EncodeToString(r.runtime[:])
	if _, err := t.root.Stat(filepath.FromSlash(p.inBuild(recordFile))); err == nil && last != nil && last.Runtime == key {
		return true
	}
	c := cache.OrUsers(p.builder.Cache)
	if c == nil {
		return false
	}
	files, ok := c.Get(r.runtime)
	if !ok {
		return false
	}
	if err := p.unpack(t, files); err != nil {
		p.builder.log().Warn("the runtime could not be restored from the cache", "error", err)
		return false
	}
	p.builder.log().Debug("restored the runtime from the cache", "key", key)
	return true
}

// unpack writes files of an earlier build into the build folder.
func (p *Project) unpack(t *tree, files []cache.File) error {
	names := make([]string, len(files))
	for i, f := range files {
		if !strings.HasPrefix(f.Name, p.state.Template.BuildFolder()+"/") {
			return fmt.Errorf("%s is not in the build folder", f.Name)
		}
		names[i] = f.Name
	}
	if err := t.makeFolders(names); err != nil {
		return err
	}
	var writes errgroup.Group
	writes.SetLimit(runtime.NumCPU())
	for _, f := range files {
		writes.Go(func() error {
			return t.error("write", f.Name, t.root.WriteFile(filepath.FromSlash(f.Name), f.Data, 0o644))
		})
	}
	return writes.Wait()
}

// store puts the compiled runtime into the cache. It returns an error only if equal inputs gave different results;
// other failures of the cache are logged.
func (p *Project) store(t *tree, r *recipe) error {
	c := cache.OrUsers(p.builder.Cache)
	if c == nil {
		return nil
	}
	var files []cache.File
	for _, pattern := range p.state.Template.Reuse {
		names, _ := fs.Glob(t.root.FS(), pattern) // check has validated the pattern
		for _, name := range names {
			data, err := t.root.ReadFile(filepath.FromSlash(name))
			if err != nil {
				return t.error("read", name, err)
			}
			files = append(files, cache.File{Name: name, Data: data})
		}
	}
	err := c.Put(r.runtime, files)
	var differs *cache.MismatchError
	if errors.As(err, &differs) {
		return err
	}
	if err != nil {
		p.builder.log().Warn("the runtime could not be stored in the cache", "error", err)
	}
	return nil
}

// runBuilds writes the build id and runs the build command in a folder, and notes the board that the command
// completed. It does this again if the image has not the build id of the compiler that the command used.
func (p *Project) runBuilds(ctx context.Context, in *tree, build string, held *os.File, r *recipe, reused bool) error {
	for range 2 {
		if err := in.writeBuildID(p.state.Template.BuildID, r.id); err != nil {
			return err
		}
		if p.state.Board.Toolchain.CC != "" {
			return p.runAndComplete(ctx, in, build, held, r, reused)
		}
		expected := r.found
		done, err := p.runAndFind(ctx, in, build, held, r, reused)
		if done || err != nil {
			return err
		}
		if len(expected) > 0 {
			err = in.empty(p.state.Template.BuildFolder(), unfinishedFile) // it may have the expected compiler's objects
		} else {
			err = in.remove(p.state.Template.BuildID) // a build system must see that it is another one
		}
		if err != nil {
			return err
		}
	}
	return failure.New(failure.Config, "build again", "the build used another compiler each time, at last %s",
		r.found[0].Name)
}

// runAndComplete runs the build command, and notes the board that it completed.
func (p *Project) runAndComplete(ctx context.Context, in *tree, build string, held *os.File, r *recipe, reused bool,
) error {
	if err := p.runBuild(ctx, in, build, held, r, reused); err != nil {
		if board, failed := p.completed(in); failed == nil {
			p.found = board // for advice about what does not fit
		}
		return err
	}
	board, err := p.completed(in)
	p.found = board
	return err
}

// runBuild runs the template's command, and shows progress by the sources that it prints.
func (p *Project) runBuild(ctx context.Context, t *tree, path string, held *os.File, r *recipe, reused bool) error {
	total, compiled := 0, 0
	for name := range r.inputs {
		if !isSource(name) {
			continue
		}
		total++
		if !reused || p.folders().InModel(name) {
			compiled++
		}
	}
	if len(p.state.Template.Compile) == 0 {
		compiled = p.builder.jobs() // it has more sources than those in the project
	}
	jobs, give, err := p.builder.takeJobs(ctx, compiled)
	if err != nil {
		return err
	}
	defer give()
	done := 0
	command := p.command(p.Board(), jobs, p.wantedForms())
	tool := toolRun{dir: t.dir, path: path, args: command[1:], env: r.env, held: held, log: p.builder.log()}
	tool.line = func(line string) {
		words := strings.Fields(line)
		if m := toolwords.NinjaStep.FindStringSubmatch(line); m != nil && len(words) > 0 {
			step, _ := strconv.Atoi(m[1]) // digits
			of, _ := strconv.Atoi(m[2])
			p.builder.Progress.Tell(progress.Event{Step: "build", Detail: words[len(words)-1], Done: step, Total: of})
			return
		}
		if len(words) > 0 && isSource(words[len(words)-1]) {
			done++
			p.builder.Progress.Tell(progress.Event{Step: "build", Detail: words[len(words)-1], Done: done, Total: total})
		}
	}
	err = tool.run(ctx)
	if failed := (*ToolError)(nil); errors.As(err, &failed) && !r.hasLibrary(&p.state.Board.Board) &&
		toolwords.LibraryMissing.Match(failed.Tail) {
		chain := p.state.Board.Toolchain
		return &MissingToolError{Tool: "the C library of " + chain.CC, Install: chain.Install}
	}
	return err
}

// hasLibrary reports whether a C library was found for a board that is not a process.
func (r *recipe) hasLibrary(b *boards.Board) bool {
	return len(b.Memory) == 0 || slices.ContainsFunc(r.allTools(), func(t toolState) bool { return t.Name == libraryFile })
}

// finish writes the build record, then removes the mark.
func (p *Project) finish(t *tree, r *recipe, size image.Size) (*buildRecord, error) {
	elf, others, err := p.results(t)
	if err != nil {
		return nil, err
	}
	now := &buildRecord{
		Format: recordFormat, BuildID: hex.EncodeToString(r.id[:]), Runtime: hex.EncodeToString(r.runtime[:]),
		Digest: elf, Others: others, Size: size, Tools: r.allTools(), Edited: r.edited, Inputs: r.inputs,
		Setting: hex.EncodeToString(r.setting[:]),
	}
	now.Objects, _ = p.objects(t)
	data, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", recordFile, err)
	}
	name := p.inBuild(recordFile)
	at := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := atomicwriter.WriteFile(at, append(data, '\n'), 0o644); err != nil {
		return nil, t.error("write", name, err)
	}
	mark := p.inBuild(unfinishedFile)
	return now, t.error("remove", mark, t.root.Remove(filepath.FromSlash(mark)))
}

// writeFile writes a file in the build folder, not atomically: the mark shows an unfinished build.
func (t *tree) writeFile(name string, data []byte) error {
	err := t.root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o755)
	if err == nil {
		err = t.root.WriteFile(filepath.FromSlash(name), data, 0o644)
	}
	return t.error("write", name, err)
}

// writeBuildID writes the file unless it has that build id. Its time is later than that of results with another one,
// also where the file system's own clock is behind.
func (t *tree) writeBuildID(name string, id [16]byte) error {
	data := buildIDBytes(id)
	if was, err := t.readSome(name, int64(len(data))+1); err == nil && bytes.Equal(was, data) {
		return nil
	}
	if err := t.writeFile(name, data); err != nil {
		return err
	}
	now := time.Now()
	return t.error("touch", name, t.root.Chtimes(filepath.FromSlash(name), now, now))
}

// buildIDBytes returns the build id as text that a linker script may include, and C with a macro of that name.
func buildIDBytes(id [16]byte) []byte {
	var w bytes.Buffer
	for _, b := range id {
		fmt.Fprintf(&w, "BYTE(0x%02x)\n", b)
	}
	return w.Bytes()
}

// inspect checks that the result can run on the board, and measures it.
func (p *Project) inspect(path string) (image.Size, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return image.Size{}, failure.New(failure.Link, p.correctBuild(), "the build command succeeded but made no %s",
			p.state.Template.ELF)
	}
	if err != nil {
		return image.Size{}, failure.New(failure.Link, p.correctBuild(), "%w", err)
	}
	if err := p.checkTarget(data); err != nil {
		return image.Size{}, err
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return image.Size{}, failure.New(failure.Link, p.correctBuild(), "%s: %w", path, err)
	}
	defer f.Close()
	b := p.Board()
	if len(b.Memory) == 0 {
		return image.SizeOf(f), nil // the operating system loads it
	}
	if err := checkReserved(f, p.state.Template.ELF, b); err != nil {
		return image.Size{}, err
	}
	if err := p.checkContract(f); err != nil {
		return image.Size{}, err
	}
	if err := p.checkParts(f); err != nil {
		return image.Size{}, err
	}
	return image.SizeOf(f), nil
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
		return failure.New(failure.Link, "", "%s has no part of the firmware in %s", p.state.Template.ELF, code.Name)
	}
	if err := firmware.CheckCovered(f, parts); err != nil {
		return failure.New(failure.Link, "", "%s: %w", p.state.Template.ELF, err)
	}
	if _, err := firmware.ReadParts(f, p.state.Template.Landmarks, p.state.Template.ELF, firmware.Erased); err != nil {
		return failure.New(failure.Link, "the ranges of the firmware's checksum are longer than what is loaded", "%w", err)
	}
	return nil
}
