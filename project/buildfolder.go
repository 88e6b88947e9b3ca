// This file records which folder boardsmith may empty and remove. project.json is no such record: a template, or an
// edit, can make it name a folder of the user's.

package project

import (
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/failure"
)

// builtFile holds the name of the build folder. Before boardsmith wrote it, the folder was absent or empty, or an
// earlier version of boardsmith had built in it.
const builtFile = ".boardsmith.built"

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
	if err == nil && checkBuildFolder(name) != nil {
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
