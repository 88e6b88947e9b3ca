// This file builds in folders of the cache that are kept: what was compiled there before is not compiled again,
// whatever project it was for. Into such a folder the project's inputs are copied, those that differ, and results out
// of it.

package project

import (
	"bytes"
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

// keptFile is in a kept folder: what it was built with that its key does not cover.
const keptFile = ".boardsmith.kept"

// A keptRecord is keptFile.
type keptRecord struct {
	Found []toolState `json:"found"` // compiler and libraries, if only the build finds them
}

// keptFolder borrows a folder for the build. It returns nil if the template has none, or if the cache cannot lend one:
// the project is built in its own folder then.
func (p *Project) keptFolder(r *recipe, build string) *cache.Folder {
	c := cache.OrUsers(p.builder.Cache)
	if c == nil || !p.state.Template.Kept {
		return nil
	}
	f, err := c.Lend(p.keptKey(r, build))
	if err != nil {
		p.builder.log().Warn("no build folder of the cache can be used", "error", err)
		return nil
	}
	return f
}

// keptKey covers everything that a kept folder's build command does not notice itself, but for the compiler if only the
// build finds that; and what a build command may remember of its inputs, whatever they are now: see configures.
func (p *Project) keptKey(r *recipe, build string) cache.Key {
	facts, err := json.Marshal([]any{p.state.Board, p.state.Template, p.state.Options})
	if err != nil {
		panic(err) // project.json has them in this form
	}
	tools := []string{build} // the folder may have their paths
	for _, tool := range p.state.Template.Tools {
		path, _ := p.findTool(tool) // otherTools has found it
		tools = append(tools, path)
	}
	key := cache.NewSentence("kept v7")
	for _, name := range slices.Sorted(maps.Keys(r.inputs)) {
		switch {
		case r.configures[name]:
			key.Say("configured by", name, r.inputs[name])
		case !p.folders().InModel(name) || r.named[name]:
			key.Say("there", name) // a command may find something by whether it is there
		}
	}
	return key.Say("settings", fmt.Sprintf("%x", r.toolKey)).Say("project", string(facts)).
		Say("places", r.env...).Say("tools", tools...).Key()
}

// compileKept builds in a kept folder, and copies the results into the project's build folder, which is empty. A
// failure can come from what is in the folder, such as the path of a program that was moved: unless it is an error in
// one of the inputs, the build is repeated in the emptied folder.
func (p *Project) compileKept(ctx context.Context, t *tree, r *recipe, build string, folder *cache.Folder) error {
	if err := p.prepareKept(r, folder); err != nil {
		return err
	}
	err := p.compileIn(ctx, t, r, build, folder)
	if failed := (*ToolError)(nil); errors.As(err, &failed) && folder.Whole && !failed.isOfInput(r) {
		p.builder.log().Info("build again in an emptied folder", "folder", folder.Dir, "error", err)
		if err := folder.Empty(); err != nil {
			return err
		}
		err = p.compileIn(ctx, t, r, build, folder)
	}
	if failed := (*ToolError)(nil); errors.As(err, &failed) {
		note := p.unseen(t, r, folder.Dir, failed.Message)
		if note == "" && failed.Class == failure.Config {
			note = p.leftOut(t, r)
		}
		failed.Message += note
		// The user can change the project's files, and run the command there.
		failed.Message = strings.ReplaceAll(failed.Message, folder.Dir, p.dir)
		failed.Tail = bytes.ReplaceAll(failed.Tail, []byte(folder.Dir), []byte(p.dir))
		failed.Command = strings.ReplaceAll(failed.Command, command.Quote(folder.Dir), command.Quote(p.dir))
	}
	return err
}

// unseen returns a line about the first of the project's files in a message of a build in a kept folder that this
// folder lacks, or "".
func (p *Project) unseen(t *tree, r *recipe, folder, message string) string {
	inFolder := regexp.MustCompile(regexp.QuoteMeta(folder) + `/([^\s:;,"'()]+)`)
	for _, found := range inFolder.FindAllStringSubmatch(message, -1) {
		name := path.Clean(found[1])
		if strings.HasPrefix(name, "../") {
			return "\n" + name + " is outside of the project: the command runs in another folder; name it by its absolute path"
		}
		below := func(input string) bool { return input == name || strings.HasPrefix(input, name+"/") }
		_, err := t.root.Stat(filepath.FromSlash(name))
		if err != nil || strings.HasPrefix(name+"/", p.state.Template.BuildFolder()+"/") ||
			slices.ContainsFunc(slices.Collect(maps.Keys(r.inputs)), below) {
			continue
		}
		return fmt.Sprintf("\n%s is no input of template %s, so it is not in the folder in which the command runs", name,
			p.state.Template.Name)
	}
	return ""
}

// leftOut returns a line about the files and folders of the user's in the project that a kept folder lacks, or "": what
// a command misses there it may not name.
func (p *Project) leftOut(t *tree, r *recipe) string {
	entries, err := fs.ReadDir(t.root.FS(), ".")
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		belongs := func(file string) bool { return file == e.Name() || strings.HasPrefix(file, e.Name()+"/") }
		if !belongs(p.state.Template.BuildFolder()) && !strings.HasPrefix(e.Name(), ".") &&
			!slices.Contains([]string{blueprint.StateFile, blueprint.ModelTar}, e.Name()) &&
			!slices.ContainsFunc(slices.Collect(maps.Keys(r.inputs)), belongs) &&
			!slices.ContainsFunc(slices.Collect(maps.Keys(p.state.Files)), belongs) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("\nno inputs of template %s, so the command does not see them: %s", p.state.Template.Name,
		strings.Join(names, ", "))
}

// compileIn is one attempt of compileKept. After an error in an input, a folder that was built before is kept.
func (p *Project) compileIn(ctx context.Context, t *tree, r *recipe, build string, folder *cache.Folder) error {
	in, err := openTree(folder.Dir)
	if err != nil {
		return err
	}
	defer in.close()
	if err := p.copyInputs(t, in, r, folder); err != nil {
		return err
	}
	err = p.runBuilds(ctx, in, build, folder.Lock, r, false)
	if failed := (*ToolError)(nil); errors.As(err, &failed) && folder.Whole && failed.isOfInput(r) {
		p.returnKept(in, r, folder)
	}
	if err != nil {
		return err
	}
	if err := p.unchanged(ctx, t, r); err != nil {
		return err
	}
	if err := p.copyResults(in, t); err != nil {
		return err
	}
	p.returnKept(in, r, folder)
	return nil
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

// prepareKept empties a folder that was built with another compiler.
func (p *Project) prepareKept(r *recipe, folder *cache.Folder) error {
	if !folder.Whole {
		return nil
	}
	var was keptRecord
	data, err := os.ReadFile(filepath.Join(folder.Dir, keptFile))
	if err == nil {
		err = json.Unmarshal(data, &was)
	}
	if err == nil && slices.Equal(was.Found, r.found) {
		return nil
	}
	return folder.Empty()
}

// returnKept gives the folder back. If this fails, the next user empties it.
func (p *Project) returnKept(in *tree, r *recipe, folder *cache.Folder) {
	data, err := json.Marshal(keptRecord{Found: r.found})
	if err == nil {
		err = in.root.WriteFile(keptFile, data, 0o644)
	}
	if err == nil {
		err = folder.Return()
	}
	if err != nil {
		p.builder.log().Warn("the build folder was returned to the cache with an error", "error", err)
	}
}

// copyInputs makes the inputs in a kept folder equal to the project's. It writes only files that differ, and gives them
// a newer time than the results that are there. It empties a folder that has other inputs, unless they are only sources
// and objects: see Project.differs. Headers of the model are included by the model's sources only: if one comes or
// goes, these are written, too.
func (p *Project) copyInputs(t, in *tree, r *recipe, folder *cache.Folder) error {
	there, err := in.list(p.state.Template.Inputs)
	if err != nil {
		return err
	}
	have, err := in.digests(there)
	if err != nil {
		return err
	}
	others := p.cameOrWent(have, r.inputs)
	if slices.ContainsFunc(others, func(name string) bool { return !p.folders().InModel(name) }) {
		if err := in.empty(".", ""); err != nil {
			return err
		}
		have, folder.Whole = nil, false
	}
	for name := range have {
		if _, still := r.inputs[name]; !still {
			if err := in.remove(name); err != nil {
				return err
			}
		}
	}
	var names []string
	for name, sum := range r.inputs {
		again := len(others) > 0 && p.folders().InModel(name) && isSource(name)
		if have[name] != sum || again {
			names = append(names, name)
		}
	}
	if err := in.makeFolders(names); err != nil {
		return err
	}
	var copies errgroup.Group
	copies.SetLimit(runtime.NumCPU())
	for _, name := range names {
		copies.Go(func() error {
			if err := copyFile(t, in, name); err != nil {
				return err
			}
			sum, err := in.digest(name)
			if err == nil && sum != r.inputs[name] {
				err = failure.New(failure.Config, "build again", "%s changed during the build", name)
			}
			return err
		})
	}
	return copies.Wait()
}

// cameOrWent lists the files, other than the model's sources and objects, that are missing from inputs or new there.
// Nothing came into an empty folder.
func (p *Project) cameOrWent(have, inputs map[string]string) (names []string) {
	if len(have) == 0 {
		return nil
	}
	for _, name := range changes(have, inputs) {
		_, had := have[name]
		_, has := inputs[name]
		if had != has && !p.isUnit(name) {
			names = append(names, name)
		}
	}
	return names
}

// isUnit reports whether an input is a source or an object of the model. Whether any other file is there may decide
// what a compiler finds first, or what a command does.
func (p *Project) isUnit(name string) bool {
	return p.folders().InModel(name) && (isSource(name) || path.Ext(name) == ".o")
}

// copyFile copies a file between two trees. The copy's time is now: a file system's own clock may be behind, and give a
// file the same time as results that were made of its former content.
func copyFile(from, to *tree, name string) error {
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
	target, err := to.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return to.error("write", name, err)
	}
	_, err = io.Copy(target, source)
	now := time.Now()
	err = errors.Join(err, target.Close(), to.root.Chmod(at, mode), to.root.Chtimes(at, now, now))
	return to.error("write", name, err)
}

// copyResults copies the results of a build in a kept folder.
func (p *Project) copyResults(in, t *tree) error {
	names := slices.Concat(p.otherForms(), p.state.Template.BoardFile(),
		[]string{p.state.Template.BuildID, p.state.Template.ELF, p.state.Template.Map})
	for _, pattern := range p.state.Template.Results {
		found, _ := fs.Glob(in.root.FS(), pattern) // check has validated the pattern
		names = append(names, found...)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		info, err := in.root.Stat(filepath.FromSlash(name))
		return err != nil || !info.Mode().IsRegular() // inspect reports an image that is not there
	})
	if err := t.makeFolders(names); err != nil {
		return err
	}
	var copies errgroup.Group
	copies.SetLimit(runtime.NumCPU())
	for _, name := range names {
		copies.Go(func() error { return copyFile(in, t, name) })
	}
	return copies.Wait()
}
