// This file prepares the build folder: it records which folder boardsmith may empty and remove, and determines what of
// an earlier build can be used. project.json is no such record: a template, or an edit, can make it name a folder of
// the user's.

package project

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/blueprint"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/filelock"
)

// builtFolder returns the name in builtFile, or "" if there is none.
func (t *tree) builtFolder() (string, error) {
	at := filepath.Join(t.dir, builtFile)
	if err := plain(at); err != nil {
		return "", err
	}
	data, err := os.ReadFile(at)
	if notThere(err) {
		return "", nil
	}
	name := strings.TrimSuffix(string(data), "\n")
	if err == nil && blueprint.CheckBuildFolder(name) != nil {
		return "", failure.New(failure.Config, "remove it", "%s does not name a build folder: %q", at, name)
	}
	return name, t.error("read", builtFile, err)
}

// ownsBuild returns an error if the folder has files that no build made.
func (t *tree) ownsBuild(folder string) error {
	built, err := t.builtFolder()
	if err != nil || built == folder || t.isFree(folder) || t.wasBuilt(folder) {
		return err
	}
	return failure.New(failure.Config, "move its files elsewhere, or remove it if `make` by hand made them",
		"the template's build folder %s has files, and boardsmith did not make it", filepath.Join(t.dir, folder))
}

// isFree reports whether a folder is absent or empty.
func (t *tree) isFree(folder string) bool {
	if _, err := t.root.Lstat(folder); notThere(err) {
		return true
	}
	entries, err := fs.ReadDir(t.root.FS(), folder)
	return err == nil && len(entries) == 0
}

// wasBuilt reports whether a folder has the record of a build, also of an earlier version's, or the mark of an
// unfinished one.
func (t *tree) wasBuilt(folder string) bool {
	if _, err := t.root.Lstat(filepath.Join(folder, unfinishedFile)); err == nil {
		return true
	}
	data, err := fs.ReadFile(t.root.FS(), path.Join(folder, recordFile))
	var record struct {
		BuildID string `json:"build_id"`
	}
	if err != nil || json.Unmarshal(data, &record) != nil {
		return false
	}
	id, err := hex.DecodeString(record.BuildID)
	return err == nil && len(id) == 16
}

// buildIn records the build folder, and removes the former one of another template.
func (t *tree) buildIn(folder string) error {
	if err := t.ownsBuild(folder); err != nil {
		return err
	}
	former, err := t.builtFolder()
	if err != nil || former == folder {
		return err
	}
	if former != "" {
		if err := t.root.RemoveAll(former); err != nil {
			return t.error("remove", former, err)
		}
	}
	at := filepath.Join(t.dir, builtFile)
	return t.error("write", builtFile, atomicwriter.WriteFile(at, []byte(folder+"\n"), 0o644))
}

// removeBuilt removes the build folder and its record. It leaves a folder with files that no build made.
func (t *tree) removeBuilt(folder string) error {
	built, err := t.builtFolder()
	if err != nil {
		return err
	}
	for _, name := range []string{built, folder} {
		if name == "" || t.ownsBuild(name) != nil {
			continue
		}
		if err := t.root.RemoveAll(name); err != nil {
			return t.error("remove", name, err)
		}
	}
	return t.remove(builtFile)
}

// begin prepares the build folder. It empties the folder unless last can be reused and all files are as last left
// them. It marks the folder as unfinished, and gives inputs that changed since last a newer time than last's results.
// It returns the locked mark, which the tools inherit.
func (p *Project) begin(ctx context.Context, t *tree, r *recipe, last *buildRecord) (*os.File, error) {
	if err := p.awaitOrphans(ctx, t); err != nil {
		return nil, err
	}
	folder := p.state.Template.BuildFolder()
	if err := t.buildIn(folder); err != nil {
		return nil, err
	}
	if last == nil || p.differs(last, r) || last.Setting != hex.EncodeToString(r.setting[:]) ||
		!p.untouched(t, last) {
		if err := t.root.RemoveAll(folder); err != nil {
			return nil, t.error("remove", folder, err)
		}
	} else if err := p.freshen(t, r, last); err != nil {
		return nil, err
	}
	if elf := p.state.Template.ELF; !p.state.Board.PostLink.IsZero() { // the build command must link again
		if err := t.root.Remove(filepath.FromSlash(elf)); err != nil && !notThere(err) {
			return nil, t.error("remove", elf, err)
		}
	}
	name := p.inBuild(unfinishedFile)
	if err := t.writeFile(name, nil); err != nil {
		return nil, err
	}
	f, err := t.root.OpenFile(filepath.FromSlash(name), os.O_RDWR, 0)
	if err != nil {
		return nil, t.error("open", name, err)
	}
	if ok, err := filelock.Try(f); err != nil || !ok {
		f.Close()
		return nil, t.error("lock", name, cmp.Or(err, errStillRuns))
	}
	return f, nil
}

var errStillRuns = errors.New("tools of a killed build still run")

// awaitOrphans waits until the tools of a killed build, which may still write, have ended.
func (p *Project) awaitOrphans(ctx context.Context, t *tree) error {
	name := p.inBuild(unfinishedFile)
	f, err := t.root.OpenFile(filepath.FromSlash(name), os.O_RDWR, 0)
	if notThere(err) {
		return nil
	}
	if err != nil {
		return t.error("open", name, err)
	}
	defer f.Close()
	limit := time.NewTimer(orphanTimeout)
	defer limit.Stop()
	for {
		if ok, err := filelock.Try(f); err != nil || ok {
			return t.error("lock", name, err)
		}
		select {
		case <-ctx.Done():
			return failure.Stopped(ctx, "build: %w", errStillRuns)
		case <-limit.C:
			return failure.New(failure.Timeout, "end them", "build: %w, after %v", errStillRuns, orphanTimeout)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// differs reports whether the last build's results must not be used: an input was removed, or there is a new one other
// than a source or an object of the model, or one changed that configures builds. No dependency file lists these.
func (p *Project) differs(last *buildRecord, r *recipe) bool {
	for name, sum := range last.Inputs {
		if now, ok := r.inputs[name]; !ok || now != sum && r.configures[name] {
			return true
		}
	}
	for name := range r.inputs {
		if _, ok := last.Inputs[name]; !ok && (!p.isUnit(name) || r.named[name]) {
			return true
		}
	}
	return false
}

// untouched reports whether the build folder's files are as last left them, and older than sources that change now.
func (p *Project) untouched(t *tree, last *buildRecord) bool {
	digest, newest := p.objects(t)
	return digest != "" && digest == last.Objects && !newest.After(time.Now())
}

// objects returns a digest of all files in the build folder, and the time of the newest. The digest is "" if they
// cannot be read.
func (p *Project) objects(t *tree) (digest string, newest time.Time) {
	names, err := t.list([]string{p.state.Template.BuildFolder()})
	if err != nil {
		return "", newest
	}
	own := []string{p.inBuild(recordFile), p.inBuild(unfinishedFile)}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(own, name) })
	sums, err := t.digests(names)
	if err != nil {
		return "", newest
	}
	s := cache.NewSentence("objects v1")
	for _, name := range names { // sorted, as the folder is walked
		info, err := t.root.Lstat(filepath.FromSlash(name))
		if err != nil {
			return "", newest
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		s.Say("file", name, sums[name])
	}
	key := s.Key()
	return hex.EncodeToString(key[:]), newest
}

// freshen prepares a build folder that holds last: it gives changed inputs a newer time than last's results, and
// removes forms of the old image that this build does not make.
func (p *Project) freshen(t *tree, r *recipe, last *buildRecord) error {
	if err := t.touch(r.inputs, last.Inputs); err != nil {
		return err
	}
	if !p.state.Template.MakesForms() {
		return nil
	}
	apart, _ := fs.Glob(t.root.FS(), p.state.Template.Forms.Apart) // check has validated the pattern
	for _, name := range slices.Concat(p.otherForms(), apart) {
		if slices.Contains(p.wantedForms(), name) {
			continue
		}
		if err := t.root.Remove(filepath.FromSlash(name)); err != nil && !notThere(err) {
			return t.error("remove", name, err)
		}
	}
	return nil
}

// touch sets the time of files that differ from last to now.
func (t *tree) touch(inputs, last map[string]string) error {
	now := time.Now()
	for name, sum := range inputs {
		if last[name] == sum {
			continue
		}
		if err := t.root.Chtimes(filepath.FromSlash(name), now, now); err != nil {
			return t.error("touch", name, err)
		}
	}
	return nil
}
