// This file generates a project's files, and updates them.

package project

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"

	"github.com/otiai10/copy"
	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/project/internal/builddir"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// Generate makes the project in dir, which must be empty, absent, or a project; in a project it changes only files that
// differ. A file that a user has changed stays if Generate would make it as before (Project.Preserved); else Generate
// changes nothing and returns ErrEdited. With s.Force it replaces all such files and keeps a copy of each. After
// a failure, or the end of the process, the folder is unchanged or the next Generate repairs it. The caller must Close
// the project. Errors: ErrEdited, *LockedError, those of boards and mlf, and others of class config.
func (b *Builder) Generate(ctx context.Context, dir string, s Spec) (*Project, error) {
	dir = abspath.Of(dir)
	pl, err := b.planIn(ctx, dir, s)
	if err != nil {
		return nil, err
	}

	created, err := makeFolder(dir)
	if err != nil {
		return nil, err
	}
	l, err := workdir.Share(dir)
	if err != nil {
		return nil, err
	}

	p := &Project{dir: dir, builder: b, lock: l, model: pl.archive}
	if err := p.generate(ctx, pl, s.Force); err != nil {
		p.lock.Release()

		// A folder that was there stays.
		if created != "" {
			removeEmpty(dir, created)
		}
		return nil, err
	}
	return p, nil
}

// Check returns the error with which Generate would refuse the spec or the folder, and leaves the folder as
// it is. A place in a git repository is fetched, as by Generate.
func (b *Builder) Check(ctx context.Context, dir string, s Spec) error {
	dir = abspath.Of(dir)
	pl, err := b.planIn(ctx, dir, s)
	if err != nil || !Exists(dir) {
		return err
	}

	t, err := workdir.Open(dir)
	if err != nil {
		return err
	}
	defer t.Close()
	old, err := oldState(t)
	if err != nil {
		return err
	}

	_, err = (&Project{dir: dir}).compare(t, old, pl, s.Force)
	return err
}

// planIn plans a project in a folder, which must be empty, absent, or a project.
func (b *Builder) planIn(ctx context.Context, dir string, s Spec) (*plan, error) {
	b.anchor()
	if err := goodFolder(dir); err != nil {
		return nil, err
	}

	pl, err := b.makePlan(ctx, dir, s)
	if err != nil {
		return nil, err
	}

	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "generate")
	}
	return pl, workdir.CheckFree(dir)
}

// Generate is the Builder's Generate for an open project, without letting others change the folder in between.
// After a failure p is unchanged, or another Generate must repair it.
func (p *Project) Generate(ctx context.Context, s Spec) error {
	if err := p.errIfClosed(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "generate")
	}

	p.builder.anchor()
	pl, err := p.builder.makePlan(ctx, p.dir, s)
	if err != nil {
		return err
	}

	next := &Project{dir: p.dir, builder: p.builder, lock: p.lock, model: pl.archive, devices: p.devices}
	if err := next.generate(ctx, pl, s.Force); err != nil {
		return err
	}
	*p = *next
	return nil
}

// goodFolder returns an error for a path that make does not support.
func goodFolder(dir string) error {
	if strings.ContainsAny(dir, "\n\r\x00") {
		return failure.New(failure.Config, "choose another folder", "project folder %q has a line break in its name", dir)
	}
	return nil
}

// makeFolder creates dir and returns the topmost folder that it created, or "".
func makeFolder(dir string) (created string, err error) {
	for up := dir; ; up = filepath.Dir(up) {
		if _, err := os.Stat(up); err == nil || up == filepath.Dir(up) {
			break
		}
		created = up
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", regularfile.Error("make", dir, err)
	}
	return created, nil
}

// removeEmpty removes what makeFolder created, if it holds only lock files.
func removeEmpty(dir, created string) {
	l := workdir.NewLock(dir)
	if l.Change(context.Background()) != nil {
		return // another process uses it
	}

	// Another process may have written to it before it was locked.
	if workdir.CheckFree(dir) != nil || Exists(dir) {
		l.Release()
		return
	}

	_ = os.RemoveAll(filepath.Join(dir, workdir.StageFolder))
	l.Discard()
	for ; os.Remove(dir) == nil && dir != created; dir = filepath.Dir(dir) {
	}
}

// generate carries out the plan if the folder differs from it.
func (p *Project) generate(ctx context.Context, pl *plan, force bool) error {
	t, err := workdir.Open(p.dir)
	if err != nil {
		return err
	}
	defer t.Close()
	old, err := oldState(t)
	if err != nil {
		return err
	}

	todo, err := p.compare(t, old, pl, force)
	if err != nil {
		return err
	}
	p.stayed = todo.stay

	// Without a difference, others may go on reading the folder.
	if old != nil && old.Pending == nil && len(todo.write)+len(todo.remove) == 0 && old.Inputs == pl.state.Inputs {
		p.state = *old
		return nil
	}

	if err := p.lock.Change(ctx); err != nil {
		return err
	}
	return errors.Join(p.change(ctx, t, pl, todo), p.lock.ShareAgain())
}

// change carries out the plan while the folder is locked. It reads the state again: others may have recorded a flash.
func (p *Project) change(ctx context.Context, t *workdir.Tree, pl *plan, d todo) error {
	old, err := oldState(t)
	if err != nil {
		return err
	}

	p.state = pl.state
	if old != nil {
		p.state.Tools, p.state.Flashes = old.Tools, old.Flashes

		// The completed board holds only for equal inputs.
		if old.Inputs == p.state.Inputs {
			p.state.Built = old.Built
		}

		// No later build would remove results of another name.
		if old.Template.ELF != p.state.Template.ELF {
			if err := builddir.RemoveResults(t, old.Template.BuildFolder(), old.Template.ELF); err != nil {
				return err
			}
		}
	}

	return p.carryOut(ctx, t, pl, d)
}

// oldState returns the folder's current state, nil if it is empty.
func oldState(t *workdir.Tree) (*projectfile.State, error) {
	if Exists(t.Dir) {
		return projectfile.Read(t.Dir)
	}
	return nil, workdir.CheckFree(t.Dir) // once more, now that it is locked
}

// todo lists the differences between the folder and the plan.
type todo struct {
	write  []string
	remove []string
	keep   []string          // changed by the user; keep a copy first
	stay   []string          // changed by the user, while their sources have not changed
	ours   map[string]string // unchanged generated files, with their digests
}

// compare determines what to do. A user's change of a file that would be generated as it was stays, unless force is
// set. It returns an error if another change of the user's would be lost.
func (p *Project) compare(t *workdir.Tree, old *projectfile.State, pl *plan, force bool) (todo, error) {
	d := todo{ours: map[string]string{}}
	if old == nil {
		old = &projectfile.State{}
	}

	for name, want := range pl.state.Files {
		have, err := t.Digest(name)
		if err != nil {
			return d, err
		}
		if have == want {
			d.ours[name] = have
			continue
		}

		if old.Files[name] == want && !force && changedByUser(t, name, have, old) {
			d.stay = append(d.stay, name)
			continue
		}

		d.write = append(d.write, name)
		d.addOld(t, old, name, have)
	}

	for _, name := range old.Names() {
		if _, still := pl.state.Files[name]; still {
			continue
		}

		have, err := t.Digest(name)
		if err != nil {
			return d, err
		}
		if !d.addOld(t, old, name, have) {
			d.remove = append(d.remove, name)
		}
	}

	sort.Strings(d.write)
	sort.Strings(d.keep)
	sort.Strings(d.stay)

	if len(d.keep) > 0 && !force {
		return d, edited(p.dir, d.keep)
	}
	return d, nil
}

// addOld adds the old content of a file that is to be replaced or removed: a user's change is kept as a copy. have is
// its digest, "" if there is no such file. It reports whether a user has changed it.
func (d *todo) addOld(t *workdir.Tree, old *projectfile.State, name, have string) (edited bool) {
	edited = changedByUser(t, name, have, old)
	if edited {
		d.keep = append(d.keep, name)
	} else if have != "" {
		d.ours[name] = have
	}
	return edited
}

// changedByUser reports whether the file, with digest have, exists and differs from what old records.
func changedByUser(t *workdir.Tree, name, have string, old *projectfile.State) bool {
	if have != "" && (have == old.Files[name] || have == old.Pending[name]) {
		return false
	}
	_, err := t.Root.Lstat(filepath.FromSlash(name))
	return err == nil
}

// carryOut writes project.json with the intended state, then each file atomically, then the final project.json.
func (p *Project) carryOut(ctx context.Context, t *workdir.Tree, pl *plan, d todo) error {
	during := p.state
	during.Files, during.Pending = d.ours, pl.state.Files

	if err := p.stage(ctx, t, pl, d.write); err != nil {
		return err
	}
	defer func() { _ = t.Root.RemoveAll(workdir.StageFolder) }() // if this fails, the next run that writes removes it

	// After this, the next Generate repairs what a killed process leaves.
	if err := during.Write(p.dir); err != nil {
		return err
	}

	for _, name := range d.keep {
		to, err := t.Keep(name)
		if err != nil {
			return err
		}
		p.builder.log().Info("kept a copy", "of", name, "as", to)
	}

	if err := t.MakeFolders(d.write); err != nil {
		return err
	}

	for i, name := range d.write {
		if ctx.Err() != nil {
			return failure.Stopped(ctx, "generate")
		}
		if err := t.Place(staged(i), name); err != nil {
			return err
		}
		p.builder.Report(device.ProgressEvent{Step: "generate", Detail: name, Done: i + 1, Total: len(d.write)})
	}

	for _, name := range d.remove {
		if err := t.Remove(name); err != nil {
			return err
		}
	}

	// Once project.json has the final state, a later run may have nothing to write, and would leave the folder there.
	if err := t.Root.RemoveAll(workdir.StageFolder); err != nil {
		return t.Error("remove", workdir.StageFolder, err)
	}

	if err := p.state.Write(p.dir); err != nil {
		return err
	}

	p.wrote = slices.Concat(d.write, d.remove)
	sort.Strings(p.wrote)
	return nil
}

// merged returns a state's files with their digests; of one that an interrupted run may have added, the intended one.
func merged(old *projectfile.State) map[string]string {
	all := map[string]string{}
	for _, name := range old.Names() {
		all[name] = old.Files[name]
		if all[name] == "" {
			all[name] = old.Pending[name]
		}
	}
	return all
}

// stage writes the files into a separate folder, so that a full disk or a cancel leaves the project unchanged.
func (p *Project) stage(ctx context.Context, t *workdir.Tree, pl *plan, names []string) (err error) {
	// A killed process may have left its stage.
	if err := t.Sweep(); err != nil {
		return err
	}

	defer func() {
		if err != nil {
			_ = t.Root.RemoveAll(workdir.StageFolder) // keep the first error
		}
	}()

	if err := t.Root.Mkdir(workdir.StageFolder, 0o755); err != nil {
		return t.Error("make", workdir.StageFolder, err)
	}

	writes, writing := errgroup.WithContext(ctx)
	writes.SetLimit(runtime.NumCPU())
	for i, name := range names {
		writes.Go(func() error {
			if writing.Err() != nil {
				return failure.Stopped(ctx, "generate") // or a write failed, and its error is returned
			}
			return t.Error("write", name, pl.files[name].stage(t, staged(i)))
		})
	}
	return writes.Wait()
}

// staged returns the path of file i in the flat staging folder: creating folders twice would cost more than the
// files.
func staged(i int) string { return fmt.Sprintf("%s/%d", workdir.StageFolder, i) }

// stage writes the file under another name, with its mode.
func (f planned) stage(t *workdir.Tree, at string) error {
	var err error
	if f.files != nil {
		err = copy.Copy(f.name, filepath.Join(t.Dir, at), copy.Options{FS: f.files, PermissionControl: copy.DoNothing})
	} else {
		err = t.Root.WriteFile(at, f.data, 0o644)
	}
	if err != nil {
		return err
	}

	// The mode is the same whatever the umask is.
	return t.Root.Chmod(at, f.mode)
}

// Clean removes the files of Generate and Build in dir, and the folder if it is empty then. A missing folder is clean.
// If the user has changed generated files, Clean removes nothing and returns ErrEdited, unless force is set. The
// user's own files stay.
func (b *Builder) Clean(ctx context.Context, dir string, force bool) error {
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "clean")
	}

	dir = abspath.Of(dir)
	if err := workdir.CheckFree(dir); err != nil {
		return err
	}
	if !Exists(dir) {
		return nil
	}

	l := workdir.NewLock(dir)
	if err := l.Change(ctx); err != nil {
		return err
	}

	if err := cleanLocked(ctx, dir, force); err != nil {
		l.Release()
		return err
	}

	l.Discard()
	// A folder with the user's files stays. A link goes with the folder that it leads to.
	if folder, err := filepath.EvalSymlinks(dir); err == nil && os.Remove(folder) == nil {
		_ = os.Remove(dir)
	}
	b.log().Info("cleaned", "dir", dir)
	return nil
}

func cleanLocked(ctx context.Context, dir string, force bool) error {
	s, err := projectfile.Read(dir)
	if err != nil {
		return err
	}
	t, err := workdir.Open(dir)
	if err != nil {
		return err
	}
	defer t.Close()

	// An interrupted run may have written some files already, which are no changes of the user's.
	changed, err := t.Edited(merged(s), s.Pending)
	if err != nil {
		return err
	}
	if len(changed) > 0 && !force {
		return edited(dir, changed)
	}

	if err := builddir.RemoveResults(t, s.Template.BuildFolder(), s.Template.ELF); err != nil {
		return err
	}
	if err := t.Root.RemoveAll(workdir.StageFolder); err != nil {
		return t.Error("remove", workdir.StageFolder, err)
	}

	for _, name := range s.Names() {
		if ctx.Err() != nil {
			return failure.Stopped(ctx, "clean")
		}
		if err := t.Remove(name); err != nil {
			return err
		}
	}

	// This comes last: until then, another Clean can go on.
	return t.Remove(templatefile.StateFile)
}

// ErrEdited is wrapped by the error, of class config, that lists files of a project that a user has changed and that
// Generate would overwrite.
var ErrEdited = failure.New(failure.Config, "to replace them and keep a copy of each as FILE.orig, generate with "+
	nextstep.Option("Spec.Force", "true"), "changed by hand since they were generated")

func edited(dir string, files []string) error {
	var names []string
	for _, name := range files {
		names = append(names, workdir.Printable(name))
	}
	return fmt.Errorf("project %s: %w: %s", dir, ErrEdited, strings.Join(names, ", "))
}
