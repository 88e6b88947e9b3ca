// This file builds in folders of the cache, in which what was compiled before is not compiled again, whatever project
// it was for. docs/templates.md has the rule by which a folder is chosen. Into it the project's inputs are copied,
// those that differ, and results out of it.

package project

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/toolwords"
)

// folderFile is in a folder: what it was built with that its key does not cover.
const folderFile = ".boardsmith.folder"

// A folderRecord is folderFile.
type folderRecord struct {
	Found []toolState       `json:"found"` // compiler and libraries, if only the build found them
	First map[string]string `json:"first"` // inputs of the first build in the folder, name to digest
}

// folder borrows a folder of the cache for the build. Without a usable cache, it is a temporary one.
func (b *buildRun) folder() (*cache.Folder, error) {
	if c := cache.OrUsers(b.builder.Cache); c != nil {
		f, err := c.Lend(b.folderKey())
		if err == nil {
			return f, nil
		}
		b.builder.log().Warn("no build folder of the cache can be used", "error", err)
	}
	return cache.Temporary()
}

// folderKey covers everything that build commands do not notice themselves, but for the compiler if only the build
// finds that; and the contents of what a configure step reads. docs/templates.md has the rule.
func (b *buildRun) folderKey() cache.Key {
	facts, err := json.Marshal([]any{b.state.Board, b.state.Template.Name, b.state.Template.Blueprint, b.state.Options})
	if err != nil {
		panic(err) // project.json has them in this form
	}
	tools := []string{b.program} // the folder may have their paths
	for _, tool := range b.state.Template.Tools {
		path, _ := b.findTool(tool) // otherTools has found it
		tools = append(tools, path)
	}
	key := cache.NewSentence("folder v1").Say("settings", fmt.Sprintf("%x", b.r.toolKey)).Say("project", string(facts)).
		Say("places", b.r.env...).Say("tools", tools...)
	for _, name := range slices.Sorted(maps.Keys(b.r.inputs)) {
		switch {
		case b.configures(name):
			key.Say("configured by", name, b.r.inputs[name])
		case !b.folders().InModel(name):
			key.Say("there", name) // a compiler or a command may find something by whether it is there
		}
	}
	return key.Key()
}

// configures reports whether an input's contents choose the folder.
func (b *buildRun) configures(name string) bool {
	return !b.folders().InModel(name) && !isSourceOrHeader(name) ||
		slices.ContainsFunc(b.state.Template.ConfigureReads, func(pattern string) bool {
			ok, _ := path.Match(pattern, name) // check has validated the pattern
			return ok
		})
}

// inFolder builds in a folder, copies the results into the project, and returns their names. A failure can come from
// what is in the folder, such as the path of a program that was moved: unless it is an error in one of the inputs, the
// build is repeated in the emptied folder.
func (b *buildRun) inFolder(ctx context.Context) ([]string, error) {
	give, err := b.builder.takeJob(ctx) // first, so that no more folders are in use than compilers run
	if err != nil {
		return nil, err
	}
	defer give()
	folder, err := b.folder()
	if err != nil {
		return nil, err
	}
	defer folder.Drop() // unless it was returned, what it has is damaged
	first, err := b.prepare(ctx, folder)
	if err != nil {
		return nil, err
	}
	results, err := b.attempt(ctx, folder, first)
	if failed := (*ToolError)(nil); errors.As(err, &failed) && folder.Whole && !failed.isOfInput(b.r) {
		b.builder.log().Info("build again in an emptied folder", "folder", folder.Dir, "error", err)
		if err := folder.Empty(); err != nil {
			return nil, err
		}
		first = nil
		results, err = b.attempt(ctx, folder, first)
	}
	if failed := (*ToolError)(nil); errors.As(err, &failed) {
		b.nameProject(failed, folder.Dir)
	}
	if err != nil {
		return nil, b.explain(err, folder.Dir)
	}
	if first == nil {
		first = b.r.inputs
	}
	defer b.giveBack(folder, first)
	if err := b.checkLibraries(folder.Dir); err != nil {
		return nil, err
	}
	return results, b.postLink(ctx, folder)
}

// explain adds to an error of the build command what is known about its cause. dir is where it ran.
func (b *buildRun) explain(err error, dir string) error {
	err = b.builder.explained(b.linkFits(err, dir, b.archive, b.of), b.archive, b.state.Libraries)
	return b.missingSystem(err, dir)
}

// nameProject names the project's folder in place of another in an error: the user can change the files there, and run
// the command. It adds what the other folder lacks.
func (b *buildRun) nameProject(failed *ToolError, folder string) {
	note := b.unseen(folder, failed.Message)
	if note == "" && failed.Class == failure.Config {
		note = b.leftOut()
	}
	failed.Message += note
	failed.Message = strings.ReplaceAll(failed.Message, folder, b.t.dir)
	failed.Tail = bytes.ReplaceAll(failed.Tail, []byte(folder), []byte(b.t.dir))
	failed.Command = strings.ReplaceAll(failed.Command, command.Quote(folder), command.Quote(b.t.dir))
}

var noWorkTree = regexp.MustCompile(`(?i)not a git repository`)

// unseen returns a line about the first of the project's files in a message of a build in a folder that this folder
// lacks, or "".
func (b *buildRun) unseen(folder, message string) string {
	if noWorkTree.MatchString(message) {
		return "\nthe command runs in a copy of the inputs, no git work tree: let a file or a variable of env have " +
			"what it asks git"
	}
	inFolder := regexp.MustCompile(regexp.QuoteMeta(folder) + `/([^\s:;,"'()]+)`)
	for _, found := range inFolder.FindAllStringSubmatch(message, -1) {
		name := path.Clean(found[1])
		if strings.HasPrefix(name, "../") {
			return outsideNote(name)
		}
		_, err := b.t.root.Stat(filepath.FromSlash(name))
		if err != nil || strings.HasPrefix(name+"/", b.state.Template.BuildFolder()+"/") || b.r.hasBelow(name) {
			continue
		}
		return fmt.Sprintf("\n%s is no input of template %s, so it is not in the folder in which the command runs", name,
			b.state.Template.Name)
	}
	if above := aboveFolder.FindStringSubmatch(message); above != nil {
		return outsideNote(above[1])
	}
	return ""
}

// aboveFolder matches a relative path out of the folder, as the message of a tool quotes it.
var aboveFolder = regexp.MustCompile(`(?:^|[\s'"])(\.\./[^\s:;,"'()]+)`)

func outsideNote(name string) string {
	return "\n" + name + " is outside of the project: the command runs in another folder; name it by its absolute path"
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

// leftOut returns a line about the files and folders of the user's in the project that the build's folder lacks, or "":
// what a command misses there it may not name.
func (b *buildRun) leftOut() string {
	entries, err := fs.ReadDir(b.t.root.FS(), ".")
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		belongs := func(file string) bool { return file == e.Name() || strings.HasPrefix(file, e.Name()+"/") }
		if !belongs(b.state.Template.BuildFolder()) && !strings.HasPrefix(e.Name(), ".") &&
			!slices.Contains([]string{blueprint.StateFile, blueprint.ModelTar}, e.Name()) && !b.r.hasBelow(e.Name()) &&
			!slices.ContainsFunc(slices.Collect(maps.Keys(b.state.Files)), belongs) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("\nno inputs of template %s, so the command does not see them: %s", b.state.Template.Name,
		strings.Join(names, ", "))
}

// attempt is one attempt of inFolder. first are the inputs of the first build in the folder; nil: it is empty. After an
// error in an input, a folder that was built before is kept.
func (b *buildRun) attempt(ctx context.Context, folder *cache.Folder, first map[string]string) ([]string, error) {
	in, err := openTree(folder.Dir)
	if err != nil {
		return nil, err
	}
	defer in.close()
	changed, err := b.copyInputs(in)
	if err != nil {
		return nil, err
	}
	if err := in.makeFolders([]string{b.state.Template.ELF}); err != nil {
		return nil, err
	}
	err = b.runAndComplete(ctx, in, folder.Lock, changed)
	if failed := (*ToolError)(nil); errors.As(err, &failed) && folder.Whole && failed.isOfInput(b.r) {
		b.giveBack(folder, first)
	}
	if err != nil {
		return nil, err
	}
	if err := b.unchanged(ctx, b.t, b.r); err != nil {
		return nil, err
	}
	if b.builder.Fresh {
		if err := b.compareFresh(ctx, in, first); err != nil {
			return nil, err
		}
	}
	return b.copyResults(in)
}

// isOfInput reports whether the failure is the inputs' own: an error in one of them, missing symbols, or too large an
// image.
func (e *ToolError) isOfInput(r *recipe) bool {
	if e.Class == failure.Host {
		return false
	}
	return e.Class == failure.DoesNotFit || toolwords.InSource(e.Message, func(file string) bool {
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
func (b *buildRun) prepare(ctx context.Context, folder *cache.Folder) (first map[string]string, err error) {
	if !folder.Whole {
		return nil, nil
	}
	in, err := openTree(folder.Dir)
	if err != nil {
		return nil, err
	}
	defer in.close()
	var last folderRecord
	data, err := in.readSome(folderFile, maxStateSize)
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	if err == nil && b.state.Board.Toolchain.CC == "" {
		board, failed := b.completed(in)
		if err = failed; err == nil && !b.findsAgain(ctx, last.Found, board) {
			err = errors.New("another compiler")
		}
	}
	if err == nil {
		return last.First, nil
	}
	return nil, folder.Empty()
}

// giveBack returns the folder to the cache. If this fails, the next user empties it.
func (b *buildRun) giveBack(folder *cache.Folder, first map[string]string) {
	data, err := json.Marshal(folderRecord{Found: b.r.found, First: first})
	if err == nil {
		err = os.WriteFile(filepath.Join(folder.Dir, folderFile), data, 0o644)
	}
	if err == nil {
		err = folder.Return()
	}
	if err != nil {
		b.builder.log().Warn("the build folder was returned to the cache with an error", "error", err)
	}
}

// compareFresh builds once more, from nothing, and returns an error if the image differs from the one in a folder. It
// names the inputs that have changed since the folder was empty: the build reads one of them, and does not notice.
func (b *buildRun) compareFresh(ctx context.Context, in *tree, first map[string]string) error {
	folder, err := cache.Temporary()
	if err != nil {
		return err
	}
	defer folder.Drop()
	fresh, err := openTree(folder.Dir)
	if err != nil {
		return err
	}
	defer fresh.close()
	changed, err := b.copyInputs(fresh)
	if err != nil {
		return err
	}
	if err := fresh.makeFolders([]string{b.state.Template.ELF}); err != nil {
		return err
	}
	if err := b.run(ctx, fresh, folder.Lock, changed); err != nil {
		if failed := (*ToolError)(nil); errors.As(err, &failed) {
			b.nameProject(failed, folder.Dir)
		}
		return err
	}
	have, err := in.digest(b.state.Template.ELF)
	if err != nil {
		return err
	}
	want, err := fresh.digest(b.state.Template.ELF)
	if err != nil || have == want {
		return err
	}
	var names []string // none in a folder that was empty
	if first != nil {
		names = changes(first, b.r.inputs)
	}
	return failure.New(failure.Config,
		"name it in configure_reads of template.json, or let the build command depend on it",
		"a build from nothing gives another %s: "+
			"the build command reads one of these files and does not notice its change: %s", b.state.Template.ELF,
		cmp.Or(strings.Join(names, ", "), "none; the image depends on the folder, the time or the order"))
}

// configureFiles are names of files that begin the configure step of CMake and of Meson. It runs anew if one is newer.
var configureFiles = []string{"CMakeLists.txt", "meson.build"}

// copyInputs makes the inputs in a folder equal to the project's. It writes only files that differ, gives them a newer
// time than the results that are there, and returns their names. Those that depend on the names of the model's files
// are written if these names change; the model's sources also if a file changes that a compiler may read without noting
// it.
func (b *buildRun) copyInputs(in *tree) ([]string, error) {
	present, err := in.list(b.state.Template.Inputs)
	if err != nil {
		return nil, err
	}
	have, err := in.digests(present)
	if err != nil {
		return nil, err
	}
	names := changes(have, b.r.inputs)
	renamed, included := false, false
	for _, name := range names {
		_, had := have[name]
		_, has := b.r.inputs[name]
		if b.folders().InModel(name) {
			renamed = renamed || had != has
			included = included || !isSourceOrHeader(name) && path.Ext(name) != ".o"
		}
		if !has {
			if err := in.remove(name); err != nil {
				return nil, err
			}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, has := b.r.inputs[name]; return !has })
	for name := range b.r.inputs {
		ofModel := b.folders().InModel(name) && isSourceOrHeader(name) && !isHeader(name)
		configures := !b.folders().InModel(name) && slices.Contains(configureFiles, path.Base(name))
		if (ofModel && (renamed || included) || configures && renamed) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if err := in.makeFolders(names); err != nil {
		return nil, err
	}
	var copies errgroup.Group
	copies.SetLimit(runtime.NumCPU())
	for _, name := range names {
		copies.Go(func() error {
			if err := copyFile(b.t, in, name, nil); err != nil {
				return err
			}
			sum, err := in.digest(name)
			if err == nil && sum != b.r.inputs[name] {
				err = failure.New(failure.Config, "build again", "%s changed during the build", name)
			}
			return err
		})
	}
	return names, copies.Wait()
}

// copyFile copies a file between two trees, with its content changed by edit unless that is nil. The copy's time is
// now: a file system's own clock may be behind, and give a file the same time as results that were made of its former
// content.
func copyFile(from, to *tree, name string, edit func([]byte) []byte) error {
	at := filepath.FromSlash(name)
	source, err := from.root.Open(at)
	if err != nil {
		return from.error("read", name, err)
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return from.error("read", name, err)
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	var data io.Reader = source
	if edit != nil {
		text, err := io.ReadAll(source)
		if err != nil {
			return from.error("read", name, err)
		}
		data = bytes.NewReader(edit(text))
	}
	target, err := to.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return to.error("write", name, err)
	}
	_, err = io.Copy(target, data)
	now := time.Now()
	err = errors.Join(err, target.Close(), to.root.Chmod(at, mode), to.root.Chtimes(at, now, now))
	return to.error("write", name, err)
}

const compileCommands = "compile_commands.json"

// copyResults copies the results of a build in a folder, and returns their names. Compile commands name the project's
// inputs then.
func (b *buildRun) copyResults(in *tree) ([]string, error) {
	forms := b.otherForms()
	if b.state.Template.MakesForms() {
		forms = b.wantedForms() // others in the folder are of another image
	}
	names := slices.Concat(forms, b.state.Template.BoardFile(), []string{b.state.Template.ELF, b.state.Template.Map})
	for _, pattern := range b.state.Template.Results {
		found, _ := fs.Glob(in.root.FS(), pattern) // check has validated the pattern
		names = append(names, found...)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		info, err := in.root.Stat(filepath.FromSlash(name))
		return err != nil || !info.Mode().IsRegular() // inspect reports an image that is not there
	})
	if err := b.t.makeFolders(names); err != nil {
		return nil, err
	}
	var copies errgroup.Group
	copies.SetLimit(runtime.NumCPU())
	for _, name := range names {
		var edit func([]byte) []byte
		if path.Base(name) == compileCommands {
			edit = func(text []byte) []byte { return b.inputsNamed(text, in.dir) }
		}
		copies.Go(func() error { return copyFile(in, b.t, name, edit) })
	}
	return names, copies.Wait()
}

// inputsNamed replaces the paths of inputs in a folder by those in the project.
func (b *buildRun) inputsNamed(text []byte, folder string) []byte {
	for _, input := range b.state.Template.Inputs {
		text = bytes.ReplaceAll(text, []byte(folder+"/"+input), []byte(b.t.dir+"/"+input))
	}
	return text
}
