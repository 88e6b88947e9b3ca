// This file checks the files that targets write, before the work.

package console

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
)

// beginnings are the patterns of how files of a format begin. A format is the ending of its files, or a word if these
// may have any and are written as their content arrives.
var beginnings = map[string]string{
	".npz":      `PK(\x03\x04|\x05\x06)`, // the latter without arrays
	".json":     `\{\n  "board": .*\n  "model": .*\n  "app": `,
	".html":     `<!DOCTYPE html>`,
	".htm":      `<!DOCTYPE html>`,
	".md":       `\| board \||# Board `,
	".csv":      `board,model,app,|id,kind,board,`,
	"recording": `\{"boardsmith_recording":`,
	"log":       `\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-][0-9:]+) `,
}

// CheckFile checks that a variable's file can be written: its folder exists, and takes a new file. A file that exists
// must be of one of the formats, unless it is empty: a wrong name would cost the user a model or a source.
func CheckFile(variable, path string, formats ...string) error {
	if path == "" {
		return nil
	}
	if err := CheckFormat(variable, path, formats); err != nil {
		return err
	}

	folder := filepath.Dir(path)
	switch info, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return failure.New(failure.Config, "create it first: mkdir -p "+command.Quote(folder),
			"%s=%s: the folder %s does not exist", variable, path, folder)
	case err == nil && !info.IsDir():
		return failure.New(failure.Config, "choose a file in a folder", "%s=%s: %s is not a folder", variable, path, folder)
	}

	// What is written as it arrives may be a pipe or a device, and is not replaced by another file in its folder.
	isStream := !slices.ContainsFunc(formats, isEnding) && len(formats) > 0
	if info, err := os.Stat(path); isStream && err == nil && !info.IsDir() {
		return nil
	}

	err := regularfile.Writable(path)
	switch {
	case errors.Is(err, regularfile.ErrFolder):
		return failure.New(failure.Config, "name a file in it", "%s=%s is a folder", variable, path)
	case err != nil:
		return failure.New(failure.Config, "choose a file that can be written", "%s=%s: %w", variable, path, err)
	}
	return nil
}

func isEnding(format string) bool { return strings.HasPrefix(format, ".") }

// CheckFormat returns an error for a file of another format, by its ending or by its content.
func CheckFormat(variable, path string, formats []string) error {
	end := strings.ToLower(filepath.Ext(path))
	if slices.ContainsFunc(formats, isEnding) && end != "" && !slices.Contains(formats, end) {
		return failure.New(failure.Config, "choose another ending", "%s=%s: the file is written as %s", variable, path,
			strings.Join(formats, " or "))
	}

	f, err := regularfile.Open(path)
	if err != nil || len(formats) == 0 {
		return nil // of a file that cannot be written, there are other errors
	}
	defer f.Close()

	patterns := []string{`\z`} // an empty file
	for _, format := range formats {
		patterns = append(patterns, beginnings[format])
	}

	if !regexp.MustCompile(`\A(` + strings.Join(patterns, "|") + `)`).MatchReader(bufio.NewReader(f)) {
		return failure.New(failure.Config, "choose another file, or remove this one",
			"%s=%s is a file of another kind, which would be lost", variable, path)
	}
	return nil
}

// readFiles are the variables of files that targets read and that could be of a format that they write.
var readFiles = []string{"BASELINE", "EXPECT", "FIXED_INPUT", "INPUT", "LABELS"}

// CheckReplaced returns an error if a file that the running target writes is that of another variable, whatever its
// path, of those in the struct that variables points to.
func (c *Console) CheckReplaced(variables any) error {
	v, paths := reflect.ValueOf(variables).Elem(), map[string]string{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name := f.Tag.Get("var"); name != "" {
			paths[name], _ = v.FieldByIndex(f.Index).Interface().(string)
		}
	}

	for _, name := range writers[c.step] {
		for _, other := range slices.Concat(writers[c.step], readFiles) {
			if path, of := paths[name], paths[other]; name != other && path != "" && of != "" && c.isFileOf(path, of) {
				return failure.New(failure.Config, "choose another "+name, "%s=%s is a file of %s=%s, which it would replace",
					name, path, other, of)
			}
		}
	}
	return nil
}

// isFileOf reports whether a path is that of a file, or of one in a folder.
func (c *Console) isFileOf(path, of string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return c.Abs(path) == c.Abs(of) // it does not exist yet
	}

	files := []string{of}
	entries, _ := os.ReadDir(of) // none of a file
	for _, e := range entries {
		files = append(files, filepath.Join(of, e.Name()))
	}

	return slices.ContainsFunc(files, func(file string) bool {
		other, err := os.Stat(file)
		return err == nil && info.Mode().IsRegular() && os.SameFile(info, other)
	})
}
