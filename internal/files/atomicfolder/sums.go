// This file writes and reads the list of a folder's files with their digests.

package atomicfolder

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/files/regularfile"
)

// SumsFile is the name of the list, which sha256sum -c reads.
const SumsFile = "SHA256SUMS"

// Sums returns the list of the files, sorted by name.
func Sums(files []File) File {
	var text bytes.Buffer
	for _, f := range slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) }) {
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(f.Data), f.Name)
	}
	return File{Name: SumsFile, Data: text.Bytes()}
}

// Listed returns the digest, in hexadecimal, of each file that the list of a folder names, and "" of the list itself.
// It returns nil if the folder has no list.
func Listed(dir string) (map[string]string, error) {
	if !HasFile(dir, SumsFile) {
		return nil, nil
	}
	path := filepath.Join(dir, SumsFile)
	f, err := regularfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	listed := map[string]string{SumsFile: ""}

	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if sum, name, ok := strings.Cut(lines.Text(), "  "); ok && name != SumsFile {
			listed[name] = sum
		}
	}

	if err := lines.Err(); err != nil {
		return nil, regularfile.Error("read", path, err)
	}
	return listed, nil
}

// Foreign returns the slash path of a file in a folder that is not among the listed ones, or "" if there is none.
func Foreign(dir string, listed map[string]string) (string, error) {
	return find(dir, func(_, name string, _ fs.DirEntry) (bool, error) {
		_, ok := listed[name]
		return !ok, nil
	})
}

// Changed returns the slash path of a file in a folder that is not among the listed ones or has another digest than
// there, or "" if there is none. The list itself has no digest.
func Changed(dir string, listed map[string]string) (string, error) {
	return find(dir, func(path, name string, e fs.DirEntry) (bool, error) {
		want, ok := listed[name]

		if !ok || !e.Type().IsRegular() || name == SumsFile {
			return !ok || !e.Type().IsRegular(), nil
		}

		sum, err := digestOf(path)
		return sum != want, err
	})
}

// find returns the slash path of the first file in a folder for which is returns true, or "".
func find(dir string, matches func(path, name string, e fs.DirEntry) (bool, error)) (string, error) {
	file, dir := "", target(dir)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}

		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}

		name = filepath.ToSlash(name)
		ok, err := matches(path, name, e)
		if ok && err == nil {
			file, err = name, fs.SkipAll
		}
		return err
	})
	if err != nil {
		return "", regularfile.Error("read", dir, err)
	}

	return file, nil
}

func digestOf(path string) (string, error) {
	f, err := regularfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()

	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
