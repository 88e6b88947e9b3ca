// Package testkit is what tests of several packages share. Packages in its folder are for one subject each.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/statedir"
)

// Context returns a context that ends with the test, and a minute before the time of its package's tests does. What a
// test starts has no shorter limit: how long it takes depends on what else the computer does.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	if test, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, limited := test.Deadline(); limited {
			ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Minute))
		}
	}
	t.Cleanup(cancel)
	return ctx
}

// Within returns a context that ends after some time.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Await ends the test if something is not done soon: within half the time for which processes of tests sleep.
func Await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for ctx := Within(t, 30*time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// Ended returns a context that was cancelled.
func Ended(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Root returns the repository's folder, absolute.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	Must(t, err)
	for up := dir; ; up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			return up
		}
		if up == filepath.Dir(up) {
			t.Fatal("no go.mod above the test's folder ", dir)
		}
	}
}

// FindTool returns the path of a program: on PATH, or in the folder in which setup installs programs in Python.
func FindTool(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}

	state, err := statedir.Path()
	if err != nil {
		return "", err
	}
	path := filepath.Join(state, "tools", "py", "bin", name)
	_, err = os.Stat(path)
	return path, err
}

// Need skips a test if a program is not installed.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := FindTool(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
}

// Output runs a command, and returns what it prints. The test ends if the command fails.
func Output(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// NoteFiles opens all files of these patterns and the folders below them, which other programs read, so that go test
// does not use a cached result after a change.
func NoteFiles(t testing.TB, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			Must(t, filepath.WalkDir(name, noteFile))
		}
	}
}

func noteFile(name string, d fs.DirEntry, err error) error {
	if err != nil || d.IsDir() {
		return err
	}
	_, err = os.ReadFile(name)
	return err
}

// WriteProgram writes a script that can be run at once: a process that another goroutine starts meanwhile would hold
// the file open for writing, and the system would call it busy.
func WriteProgram(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	Must(t, os.WriteFile(path, []byte(text), 0o755))
}

// WatchCompiler puts a compiler first on PATH. While it runs, there is a file in the folder that is returned.
func WatchCompiler(t testing.TB) (running string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	Must(t, err)

	bin, running := t.TempDir(), t.TempDir()
	WriteProgram(t, filepath.Join(bin, "cc"), fmt.Sprintf(
		"#!/bin/sh\n: >'%s'/$$\n'%s' \"$@\"\nstatus=$?\nrm '%[1]s'/$$\nexit $status\n", running, cc))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return running
}

// Section compares what stands in a page between begin and the line "<!-- end -->" with a text. If update is true, it
// writes the text. how is the command that does.
func Section(t testing.TB, page, begin, text, how string, update bool) {
	t.Helper()
	old := ReadFile(t, page)
	const end = "<!-- end -->\n"
	head, rest, begins := strings.Cut(string(old), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s lacks %s or %s", page, begin, end)
	}

	switch text := head + begin + text + end + tail; {
	case update:
		Must(t, os.WriteFile(page, []byte(text), 0o644))
	case text != string(old):
		t.Errorf("%s is not up to date: %s", page, how)
	}
}

// Must ends the test if there was an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal reports a value that differs from the wanted one. what names it.
func Equal[T any](t testing.TB, what any, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v: got %+v, want %+v", what, got, want)
	}
}

// WantText reports parts that a text lacks.
func WantText(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%.2000s", part, text)
		}
	}
}

// Environment returns the values of variables: words such as NAME=value.
func Environment(words ...string) func(name string) string {
	return func(name string) string {
		for _, word := range words {
			if value, ok := strings.CutPrefix(word, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// WriteFile writes a file, and makes the folders above it.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	Must(t, os.WriteFile(path, []byte(text), 0o644))
}

// WriteFiles writes files below a folder, by their slash paths.
func WriteFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		WriteFile(t, filepath.Join(dir, filepath.FromSlash(name)), text)
	}
}

// ReadFile returns what a file contains.
func ReadFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	Must(t, err)
	return data
}

// EditFile replaces texts in a file: pairs of an old one, which it must contain, and a new one.
func EditFile(t testing.TB, path string, pairs ...string) {
	t.Helper()
	text := string(ReadFile(t, path))
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%s has no %q", path, pairs[i])
		}
	}
	WriteFile(t, path, strings.NewReplacer(pairs...).Replace(text))
}

// WantError reports an error that is not of a class, if one is given, or has a text neither in its message nor in its
// next step.
func WantError(t testing.TB, err error, class failure.Class, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want one of class %q with %q", class, texts)
		return
	}

	next := failure.Next(err)
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) && !strings.Contains(next, text) {
			t.Errorf("the error lacks %q: %v\nnext: %s", text, err, next)
		}
	}
	if of := failure.Of(err); class != "" && of != class {
		t.Errorf("class %q, want %q: %v", of, class, err)
	}
}

// As returns the error of a type that is in an error, or ends the test.
func As[E error](t testing.TB, err error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("got %v, want a %T", err, e)
	}
	return e
}

// Absent reports files that are there.
func Absent(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
}

// WantErrorIf is WantError if an error is wanted. Else it reports any error.
func WantErrorIf(t testing.TB, wanted bool, err error, class failure.Class, texts ...string) {
	t.Helper()
	if wanted {
		WantError(t, err, class, texts...)
	} else if err != nil {
		t.Errorf("no error is wanted: %v", err)
	}
}

// Link links an assembly source by a linker script, and returns the folder with o.elf and o.map. It skips the test if
// the compiler is not installed.
func Link(t testing.TB, cc, script, source string, flags ...string) (dir string) {
	t.Helper()
	Need(t, cc)
	dir = t.TempDir()
	WriteFiles(t, dir, map[string]string{"o.S": source, "o.ld": script})
	cmd := exec.Command(cc, append([]string{
		"-nostdlib", "-static", "-Wl,--build-id=md5,-Map=o.map", "-To.ld", "-o", "o.elf", "o.S",
	}, flags...)...)
	cmd.Dir = dir
	Output(t, cmd)
	return dir
}
