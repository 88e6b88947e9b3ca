// This file builds in folders of the cache, in which what was compiled before is not compiled again, whatever project
// it was for. docs/templates.md has the rule by which a folder is chosen. Into it the project's inputs are copied,
// those that differ, and results out of it.

package builddir

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// folderFile is in a folder: what it was built with that its key does not cover.
const folderFile = ".boardsmith.folder"

// A folderRecord is folderFile.
type folderRecord struct {
	Found []buildenv.Identity `json:"found"` // compiler and libraries, if only the build found them
	First map[string]string   `json:"first"` // inputs of the first build in the folder, name to digest
}

// folder borrows a folder of the cache for the build. Without a usable cache, it is a temporary one.
func (b *Build) folder() (*cache.Folder, error) {
	f, err := cache.OrDefault(b.Cache).Borrow(b.folderKey())
	if err != nil {
		b.Log.Warn("no build folder of the cache can be used", "error", err)
		return temporary()
	}
	return f, nil
}

// temporary returns an empty folder outside of any cache.
func temporary() (*cache.Folder, error) { return (*cache.Cache)(nil).Borrow(cachekey.Key{}) }

// folderKey covers everything that build commands do not notice themselves, but for the compiler if only the build
// finds that; and the contents of what a configure step reads. docs/templates.md has the rule.
func (b *Build) folderKey() cachekey.Key {
	options := b.State.Options
	options.OperatorOpt, options.OperatorFlags = "", "" // the build command has them from OperatorsFile
	facts, err := json.Marshal([]any{b.State.Board, b.State.Template.Name, b.State.Template.Description, options})
	if err != nil {
		panic(err) // project.json has them in this form
	}

	tools := []string{b.program} // the folder may have their paths
	for _, tool := range b.State.Template.Tools {
		path, _ := b.Env.Tool(tool) // otherTools has found it
		tools = append(tools, path)
	}

	key := cachekey.New("folder v1").Add("settings", fmt.Sprintf("%x", b.r.toolKey)).Add("project", string(facts)).
		Add("places", b.r.env...).Add("tools", tools...)

	for _, name := range slices.Sorted(maps.Keys(b.r.inputs)) {
		switch {
		case b.Configures(name):
			key.Add("configured by", name, b.r.inputs[name])
		case !b.isOfModel(name) && (!b.reconfigures(name) || isHeader(name)):
			key.Add("there", name) // a compiler or a command may find something by whether it is there
		}
	}
	return key.Key()
}

// isOfModel reports whether an input is the model's, or the flags with which that is compiled.
func (b *Build) isOfModel(name string) bool {
	return b.State.Template.Landmarks.Folders.InModel(name) || name == templatefile.OperatorsFile
}

// Configures reports whether an input's contents choose the folder.
func (b *Build) Configures(name string) bool {
	return !b.isOfModel(name) && !isSourceOrHeader(name) && !b.reconfigures(name) ||
		matches(b.State.Template.ConfigureReads, name)
}

// reconfigures reports whether the configure step, which is run anew, takes a change of an input into account.
func (b *Build) reconfigures(name string) bool { return matches(b.State.Template.Reconfigure, name) }

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // check has validated the pattern
		return ok
	})
}

// inFolder builds in a folder, copies the results into the project, and returns their names. What was compiled before a
// failure is kept. A failure that is not of the inputs can come from what is in the folder, such as the path of a
// program that was moved: if a build from nothing succeeds, the folder is emptied.
func (b *Build) inFolder(ctx context.Context) ([]string, error) {
	give, err := b.Env.Tools.TakeJob(ctx, b.Jobs) // first, so that no more folders are in use than compilers run
	if err != nil {
		return nil, err
	}
	defer give()

	folder, err := b.folder()
	if err != nil {
		return nil, err
	}
	defer folder.Discard() // unless it was returned, what it has is damaged
	first, err := b.prepare(ctx, folder)
	if err != nil {
		return nil, err
	}

	results, err := b.attempt(ctx, folder, first)
	failed := (*buildenv.ToolError)(nil)
	if errors.As(err, &failed) && folder.Intact && !isOfInput(failed, b.r) {
		b.Log.Info("build from nothing, in another folder", "folder", folder.Dir, "error", err)

		// If this succeeds, the content of the folder was the cause.
		if err = b.anew(ctx, func(*workdir.Tree) error { return nil }); err == nil {
			if err := folder.Empty(); err != nil {
				return nil, err
			}
			first = nil
			results, err = b.attempt(ctx, folder, first)
		}
	}

	// The next build goes on after a failure, but if the computer failed, files may be incomplete.
	if err == nil || errors.As(err, &failed) && failed.Class != failure.Host {
		defer b.giveBack(folder, first)
	}
	if err != nil {
		return nil, b.Explain(err, folder.Dir)
	}

	if err := b.Check(folder.Dir); err != nil {
		return nil, err
	}
	return results, b.postLink().Run(ctx, b.Tree, folder.Dir, folder.Lock)
}

// nameProject names the project's folder in place of another in an error: the user can change the files there, and run
// the command. It adds what the command cannot read.
func (b *Build) nameProject(failed *buildenv.ToolError, folder string, reads []string) {
	failed.Message = cmp.Or(failed.Message, strings.TrimSpace(string(failed.Tail)))

	// Names are compared with the folder's before they are replaced.
	note := b.unseen(folder, failed.Message, reads)
	if note != "" {
		failed.Class = failure.Config
	}
	failed.Message += note
	failed.Message = strings.ReplaceAll(failed.Message, folder, b.Tree.Dir)
	if note == "" {
		failed.Message += b.copied(failed.Message)
	}

	failed.Tail = bytes.ReplaceAll(failed.Tail, []byte(folder), []byte(b.Tree.Dir))
	failed.Command = strings.ReplaceAll(failed.Command, command.Quote(folder), command.Quote(b.Tree.Dir))
}

var errorAt = regexp.MustCompile(`(?m)^([^\s:]+):\d+`)

// copied returns a line about the first file in a message if it is an unchanged copy of one of the user's, or "".
func (b *Build) copied(message string) string {
	m := errorAt.FindStringSubmatch(strings.ReplaceAll(filepath.ToSlash(message), filepath.ToSlash(b.Tree.Dir)+"/", ""))
	if m == nil {
		return ""
	}

	name := path.Clean(m[1])
	sum, generated := b.r.inputs[name], slices.Contains(templatefile.GeneratedFiles, name)
	if sum == "" || sum != b.State.Files[name] || generated || templatefile.IsShipped(sum) ||
		b.State.Template.Landmarks.Folders.InModel(name) {
		return ""
	}

	return "\n" + name + " is a copy: change it where it comes from (template " + b.State.Template.Name +
		", a library, or beside the board file), and generate again"
}

var (
	notThere = regexp.MustCompile(`(?i)no such file|no rule to make target|cannot (find|open)|not found|permission denied`)
	fileName = regexp.MustCompile(`'[^']+'|‘[^’]+’|"[^"]+"|[^\s:;,"'()<>=\x60‘’]+`)
)

// unseen returns a line about the first file in a message of a build in a folder that is there, but not for the
// command: one of the project that is no input, or one outside of the project and of reads; or "".
func (b *Build) unseen(folder, message string, reads []string) string {
	for line := range strings.SplitSeq(message, "\n") {
		parts := strings.Split(line, ": ") // of which one may be a name with spaces
		for _, word := range append(parts, fileName.FindAllString(line, -1)...) {
			name, inFolder := strings.CutPrefix(strings.Trim(word, ` '"‘’`), folder+"/")
			if name = path.Clean(name); !inFolder && !path.IsAbs(name) && !notThere.MatchString(line) {
				continue // a relative name may be of another folder, or no name
			}

			_, err := os.Stat(filepath.Join(b.Tree.Dir, filepath.FromSlash(name)))
			switch isResult := strings.HasPrefix(name+"/", b.State.Template.BuildFolder()+"/"); {
			case strings.HasPrefix(name, "../") && err == nil, isOutside(name, reads):
				return diagnostics.Outside(name, b.State.Template.Name)
			case err == nil && !isResult && !b.r.hasBelow(name) && (inFolder || b.State.Files[name] != "") &&
				name != templatefile.ModelTar:
				return diagnostics.NoInput(name, b.State.Template.Name)
			}
		}
	}
	return ""
}

// isOutside reports whether a path is that of a file which a command that may read only some places could not read.
func isOutside(path string, reads []string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || reads == nil || !filepath.IsAbs(path) {
		return false
	}

	if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() {
		return false
	}

	// Links may lead to a place, too.
	return !slices.ContainsFunc(reads, func(place string) bool {
		place, err := filepath.EvalSymlinks(place)
		return err == nil && strings.HasPrefix(real+"/", strings.TrimSuffix(place, "/")+"/")
	})
}

// hasBelow reports whether a name is that of an input or of a folder with inputs.
func (r *recipe) hasBelow(name string) bool {
	for input := range r.inputs {
		if input == name || strings.HasPrefix(input, name+"/") {
			return true
		}
	}
	return false
}

// attempt is one attempt of inFolder. first are the inputs of the first build in the folder; nil: it is empty.
func (b *Build) attempt(ctx context.Context, folder *cache.Folder, first map[string]string) ([]string, error) {
	in, err := workdir.Open(folder.Dir)
	if err != nil {
		return nil, err
	}
	defer in.Close()

	err = b.run(ctx, in, folder.Lock)
	completed := b.complete(ctx, in) // also after a failure: for advice, and for the next build in the folder
	if err := cmp.Or(err, completed); err != nil {
		return nil, err
	}

	if err := b.unchanged(ctx); err != nil {
		return nil, err
	}
	if b.Fresh {
		if err := b.compareFresh(ctx, in, first); err != nil {
			return nil, err
		}
	}

	return b.copyResults(in)
}

// isOfInput reports whether the failure is not of the folder: of the computer, of the link, or an error in an input.
func isOfInput(e *buildenv.ToolError, r *recipe) bool {
	of := []failure.Class{failure.Host, failure.Link, failure.DoesNotFit}
	return slices.Contains(of, e.Class) || diagnostics.InSource(e.Message, func(file string) bool {
		for name := range r.inputs {
			if strings.HasSuffix("/"+filepath.ToSlash(file), "/"+name) {
				return true
			}
		}
		return false
	})
}

// prepare returns the inputs of the first build in a folder, nil for an empty one. It empties a folder whose compiler,
// which only the build found, is no longer the same: build tools do not notice.
func (b *Build) prepare(ctx context.Context, folder *cache.Folder) (first map[string]string, err error) {
	in, err := workdir.Open(folder.Dir)
	if err != nil {
		return nil, err
	}
	defer in.Close()

	var last folderRecord
	data, err := in.ReadSome(folderFile, projectfile.MaxBytes)
	if err == nil {
		err = json.Unmarshal(data, &last)
	}

	if err == nil && b.State.Board.Toolchain.CC == "" { // else its key has it
		board, failed := b.Complete(in)
		if err = failed; err == nil && !b.findsAgain(ctx, last.Found, board) {
			err = errors.New("another compiler")
		}
	}

	// Without a valid record, or with another compiler, what is there cannot be used.
	if err == nil {
		return last.First, nil
	}
	return nil, folder.Empty()
}

// giveBack returns the folder to the cache. If this fails, the next user empties it. first are the inputs of the first
// build in it; nil: those of this one.
func (b *Build) giveBack(folder *cache.Folder, first map[string]string) {
	if first == nil {
		first = b.r.inputs
	}

	data, err := json.Marshal(folderRecord{Found: b.r.found, First: first})
	if err == nil {
		err = os.WriteFile(filepath.Join(folder.Dir, folderFile), data, 0o644)
	}
	if err == nil {
		err = folder.Return()
	}
	if err != nil {
		b.Log.Warn("the build folder was returned to the cache with an error", "error", err)
	}
}

// anew builds from nothing, in a temporary folder, and calls then.
func (b *Build) anew(ctx context.Context, then func(in *workdir.Tree) error) error {
	folder, err := temporary()
	if err != nil {
		return err
	}
	defer folder.Discard()
	in, err := workdir.Open(folder.Dir)
	if err != nil {
		return err
	}
	defer in.Close()

	if err := b.run(ctx, in, folder.Lock); err != nil {
		return err
	}
	return then(in)
}

// compareFresh compares the image in a folder with one of a build from nothing, and with that of the last build if no
// input has changed since. first are the inputs of the first build in the folder.
func (b *Build) compareFresh(ctx context.Context, in *workdir.Tree, first map[string]string) error {
	elf := b.State.Template.ELF
	have, err := in.Digest(elf)
	if err != nil {
		return err
	}

	// A second build shows whether builds vary, or whether the folder has missed a change.
	var images [2]string // of two builds, if the first differs
	for i := range images {
		read := func(in *workdir.Tree) (err error) { images[i], err = in.Digest(elf); return err }
		if err := b.anew(ctx, read); err != nil {
			return err
		}
		if images[0] == have {
			break
		}
	}

	var changed []string // files that are still there, since the folder was empty
	for _, name := range changes(first, b.r.inputs) {
		if first != nil && b.r.inputs[name] != "" {
			changed = append(changed, name)
		}
	}

	last := b.last
	isSame := last != nil && last.Recipe == hex.EncodeToString(b.r.key[:]) && slices.Equal(last.Detected, b.r.found)

	// The record describes the project's image, which post_link has changed, but not the folder's.
	switch {
	case images[0] == have && (!isSame || last.Digest == have || !b.State.Board.PostLink.IsZero()):
		return nil
	case images[0] == have:
		return failure.New(failure.Config, nextVaries,
			"%s is not that of the last build, and no input has changed since: "+
				"it depends on the time, or on what is no input", elf)
	case images[0] != images[1] || len(changed) == 0:
		return failure.New(failure.Config, nextVaries,
			"builds of the same inputs give different %s: it depends on the folder, the time or the order", elf)
	}

	return failure.New(failure.Config,
		"name it in configure_reads of template.json, or let the build command depend on it",
		"a build from nothing gives another %s: "+
			"the build command reads one of these files and does not notice its change: %s", elf, strings.Join(changed, ", "))
}

const nextVaries = "compile with -Wdate-time, which shows uses of the date and the time"

// configureFiles are names of files that begin the configure step of CMake and of Meson. It runs anew if one is newer.
var configureFiles = []string{"CMakeLists.txt", "meson.build"}

// copyInputs makes the inputs in a folder equal to the project's. It writes only files that differ, gives them a newer
// time than the results that are there, and returns their names. Those that depend on the names of the model's files
// are written if these names or the model's flags change; the model's sources also if a file changes that a compiler
// may read without noting it; those of the configure step also if a file changes for which it must run anew.
func (b *Build) copyInputs(in *workdir.Tree) ([]string, error) {
	present, err := b.listInputs(in)
	if err != nil {
		return nil, err
	}
	have, err := in.Digests(present)
	if err != nil {
		return nil, err
	}

	names := changes(have, b.r.inputs)
	renamed, included, configures := false, false, false
	for _, name := range names {
		_, had := have[name]
		_, has := b.r.inputs[name]
		if b.isOfModel(name) {
			renamed = renamed || had != has || name == templatefile.OperatorsFile // which a configure step reads
			included = included || !isSourceOrHeader(name) && path.Ext(name) != ".o"
		} else if b.reconfigures(name) {
			configures = configures || had != has || !isSourceOrHeader(name)
		}

		// This precedes all writes: a file may be where a folder is made below.
		if !has {
			if err := in.Remove(name); err != nil {
				return nil, err
			}
		}
	}

	if configures {
		if err := b.forget(in); err != nil {
			return nil, err
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, has := b.r.inputs[name]; return !has })

	// The content of these is equal, but a new time makes build tools take them up again.
	for name := range b.r.inputs {
		ofModel := b.State.Template.Landmarks.Folders.InModel(name) && isSourceOrHeader(name) && !isHeader(name)
		ofStep := !b.State.Template.Landmarks.Folders.InModel(name) && slices.Contains(configureFiles, path.Base(name))
		if (ofModel && (renamed || included) || ofStep && (renamed || configures)) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}

	if err := in.MakeFolders(names); err != nil {
		return nil, err
	}

	var copies errgroup.Group
	copies.SetLimit(runtime.NumCPU())
	for _, name := range names {
		copies.Go(func() error {
			if err := workdir.CopyFile(b.Tree, in, name, nil); err != nil {
				return err
			}

			// The copy was read later than the digest.
			sum, err := in.Digest(name)
			if err == nil && sum != b.r.inputs[name] {
				err = failure.New(failure.Config, "build again", "%s changed during the build", name)
			}
			return err
		})
	}
	return names, copies.Wait()
}

// forget removes what CMake remembers of its configure steps in a folder: it has values for which there is no reason
// any more. What was compiled stays.
func (b *Build) forget(in *workdir.Tree) error {
	return fs.WalkDir(in.Root.FS(), b.State.Template.BuildFolder(), func(name string, _ fs.DirEntry, err error) error {
		if workdir.IsMissing(err) || path.Base(name) != "CMakeCache.txt" {
			return nil
		}
		return cmp.Or(err, in.Root.Remove(filepath.FromSlash(name)))
	})
}

const compileCommands = templatefile.CompileFile

// copyResults copies the results of a build in a folder, and returns their names. Compile commands name the project's
// inputs then.
func (b *Build) copyResults(in *workdir.Tree) ([]string, error) {
	forms := OtherForms(b.State)
	if b.State.Template.MakesForms() {
		forms = b.wantedForms() // others in the folder are of another image
	}
	names := slices.Concat(forms, b.State.Template.BoardFile(), []string{b.State.Template.ELF, b.State.Template.Map})

	for _, pattern := range append([]string{b.State.Template.LibraryArchives()}, b.State.Template.Results...) {
		files, _ := fs.Glob(in.Root.FS(), pattern) // check has validated the pattern
		names = append(names, files...)
	}

	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		info, err := in.Root.Stat(filepath.FromSlash(name))
		return err != nil || !info.Mode().IsRegular() // inspect reports an image that is not there
	})

	if err := b.Tree.MakeFolders(names); err != nil {
		return nil, err
	}

	var copies errgroup.Group
	copies.SetLimit(runtime.NumCPU())
	for _, name := range names {
		var edit func([]byte) []byte
		if path.Base(name) == compileCommands {
			edit = func(text []byte) []byte { return b.inputsNamed(text, in.Dir) }
		}
		copies.Go(func() error { return workdir.CopyFile(in, b.Tree, name, edit) })
	}
	return names, copies.Wait()
}

// inputsNamed replaces the paths of inputs in a folder by those in the project.
func (b *Build) inputsNamed(text []byte, folder string) []byte {
	tops := map[string]bool{}
	for input := range b.r.inputs {
		top, _, _ := strings.Cut(input, "/")
		tops[top] = true
	}

	for top := range tops {
		text = bytes.ReplaceAll(text, []byte(folder+"/"+top), []byte(b.Tree.Dir+"/"+top))
	}
	return text
}
