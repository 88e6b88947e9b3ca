package projectapi

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	cp "github.com/otiai10/copy"
)

// This file records sessions in the form of testdata/tvm_sessions: the test program, as a folder's server, passes lines
// on between the client and the folder's own server, which it starts. It installs itself in each project that is
// generated.

const (
	recordFolder = "BOARDSMITH_RECORD"        // where TestRecordTVM writes
	recordScript = "BOARDSMITH_RECORD_SCRIPT" // what it runs, besides its own uses

	recordKind   = "record="                   // the server's kind, before a file or its beginning
	recordPython = "PROJECTAPI_TEST_PYTHON"    // runs a folder's microtvm_api_server.py
	ownLauncher  = "launch_recorded_server.sh" // a folder's own launcher, renamed
	ownServer    = "microtvm_api_server.py"    // a server in Python
	launcherFile = "launch_microtvm_api_server.sh"
	recordSuffix = ".jsonl"
)

// installRecorder makes this program the server of a folder. to is a file, or its name up to a number: a session of a
// template begins a new file.
func installRecorder(dir, to, python string) error {
	at := filepath.Join(dir, launcherFile)
	if err := os.Rename(at, filepath.Join(dir, ownLauncher)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nexport %s='%s%s' %s='%s'\nexec '%s' \"$@\"\n", serverVariable, recordKind, to,
		recordPython, python, self)
	syscall.ForkLock.RLock() // see program
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(at, []byte(script), 0o755)
}

// A recorder is between a client and the server of a folder.
type recorder struct {
	dir, to string
	server  string // template or project
	file    *os.File
	places  []string // pairs for a strings.Replacer
}

// record passes lines on until the client has closed its end. args are the server's.
func record(dir, to string, args []string) error {
	in, out := descriptor(args, "--read-fd"), descriptor(args, "--write-fd")
	r := &recorder{dir: dir, to: to, server: "project", places: []string{filepath.Dir(dir), "$TMP"}}
	flags := os.O_WRONLY | os.O_APPEND
	if !strings.HasSuffix(to, recordSuffix) {
		r.server, r.places = "template", nil
		flags |= os.O_CREATE | os.O_EXCL
	}
	var err error
	for n := 1; r.file == nil; n++ {
		name := to
		if r.server == "template" {
			name += recordSuffix
		}
		if n > 1 {
			name = fmt.Sprintf("%s-%d%s", to, n, recordSuffix)
		}
		r.file, err = os.OpenFile(name, flags, 0o644)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	defer r.file.Close()
	theirs, ours, err := pipes()
	if err != nil {
		return err
	}
	cmd := r.own(theirs)
	if err := cmd.Start(); err != nil {
		return err
	}
	closeAll(theirs)
	err = r.pass(in, out, ours[0], bufio.NewReader(ours[1]))
	closeAll(ours)
	return errors.Join(err, cmd.Wait())
}

// descriptor returns the file whose number is behind a flag.
func descriptor(args []string, flag string) *os.File {
	fd := map[string]int{"--read-fd": 3, "--write-fd": 4}[flag]
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		_, _ = fmt.Sscan(args[i+1], &fd)
	}
	return os.NewFile(uintptr(fd), flag)
}

// own returns the command of the folder's own server.
func (r *recorder) own(files []*os.File) *exec.Cmd {
	script := filepath.Join(r.dir, ownServer)
	fds := []string{"--read-fd", "3", "--write-fd", "4"}
	cmd := exec.Command(os.Getenv(recordPython), append([]string{script}, fds...)...)
	if _, err := os.Stat(filepath.Join(r.dir, ownLauncher)); err == nil {
		cmd = exec.Command(filepath.Join(r.dir, ownLauncher), append([]string{script}, fds...)...)
	}
	cmd.Dir, cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = r.dir, files, os.Stdout, os.Stderr
	return cmd
}

// pass records requests and replies, one after the other.
func (r *recorder) pass(in io.Reader, out, requests io.Writer, replies *bufio.Reader) error {
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		var q request
		if err == nil {
			err = json.Unmarshal(line, &q)
		}
		if err == nil && q.Method == "generate_project" {
			err = r.takeArchive(q)
		}
		if err == nil {
			err = r.write("to", line)
		}
		if err == nil {
			_, err = requests.Write(line)
		}
		if err != nil {
			return err
		}
		answer, err := replies.ReadBytes('\n')
		if err == nil {
			err = r.write("from", answer)
		}
		if err == nil && q.Method == "generate_project" && !bytes.Contains(answer, []byte(`"error"`)) {
			err = installRecorder(value[string](q.Params, "project_dir"), r.file.Name(), os.Getenv(recordPython))
		}
		if err == nil {
			_, err = out.Write(answer)
		}
		if err != nil {
			return err
		}
	}
}

// write adds a line, with names for this computer's folders.
func (r *recorder) write(direction string, line []byte) error {
	var b bytes.Buffer
	if err := json.Compact(&b, line); err != nil {
		return err
	}
	text := strings.NewReplacer(r.places...).Replace(b.String())
	_, err := fmt.Fprintf(r.file, "{\"server\":%q,%q:%s}\n", r.server, direction, text)
	return err
}

// takeArchive copies the archive of a project, without TVM's runtime and its templates' sources, and learns folders.
func (r *recorder) takeArchive(q request) error {
	path := value[string](q.Params, "model_library_format_path")
	r.places = []string{
		filepath.Dir(value[string](q.Params, "standalone_crt_dir")), "$TVM",
		filepath.Dir(value[string](q.Params, "project_dir")), "$TMP", filepath.Dir(path), "$TMP",
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		if data, err = io.ReadAll(z); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	out := tar.NewWriter(z)
	for in := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		top, _, _ := strings.Cut(strings.TrimPrefix(h.Name, "./"), "/")
		if top == "runtime" || top == "templates" {
			continue
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
	if err := errors.Join(out.Close(), z.Close()); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(r.file.Name(), recordSuffix)+".tar.gz", b.Bytes(), 0o644)
}

// packRecordings compresses the recordings in a folder and returns their names. Those without a project are removed:
// clients also ask templates for their options only.
func packRecordings(dir string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+recordSuffix))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := os.Remove(file); err != nil {
			return nil, err
		}
		if !bytes.Contains(data, []byte(`"method":"open_transport"`)) {
			_ = os.Remove(strings.TrimSuffix(file, recordSuffix) + ".tar.gz")
			continue
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err = z.Write(data)
		if err := errors.Join(err, z.Close(), os.WriteFile(file+".gz", b.Bytes(), 0o644)); err != nil {
			return nil, err
		}
		names = append(names, strings.TrimSuffix(filepath.Base(file), recordSuffix))
	}
	return names, nil
}

// repeatFile repeats a recorded session.
func repeatFile(t *testing.T, file string) {
	t.Helper()
	session, err := readSession(file)
	must(t, err)
	repeat(t, session, strings.TrimSuffix(file, recordSuffix+".gz")+".tar.gz")
}

// notRecorded are uses whose sessions are not repeated: tuning has many, what fits is another size with other firmware,
// and TVM's template cannot do one of them.
var notRecorded = []string{"autotvm_conv2d", "tensors", oursAlone, "example"}

// TestRecordTVM records what an unmodified TVM and its own template for this computer say, in uses of TestInterop or in
// a script that takes a template's folder as its argument, and repeats it with our server.
func TestRecordTVM(t *testing.T) {
	to, script := os.Getenv(recordFolder), os.Getenv(recordScript)
	if to == "" {
		t.Skip(recordFolder + " is not set")
	}
	tvm := tvmFor(t)
	needTools(t, "host")
	must(t, os.MkdirAll(to, 0o755))
	interop, err := filepath.Abs("testdata/interop/interop.py")
	must(t, err)
	runs := map[string]func(template string) []string{}
	for _, use := range uses {
		if !slices.Contains(notRecorded, use) {
			runs[use] = func(template string) []string { return []string{interop, use, template, ""} }
		}
	}
	if script != "" {
		name := strings.TrimSuffix(filepath.Base(script), filepath.Ext(script))
		runs = map[string]func(string) []string{name: func(template string) []string { return []string{script, template} }}
	}
	for name, args := range runs {
		t.Run(name, func(t *testing.T) {
			template, made := filepath.Join(t.TempDir(), "crt"), t.TempDir()
			err := cp.Copy(filepath.Join(tvm.built, "microtvm_template_projects", "crt"), template)
			must(t, errors.Join(err, installRecorder(template, filepath.Join(made, name), tvm.python)))
			cmd := tvm.command(t.Context(), t, tvm.built, args(template)...)
			cmd.WaitDelay = time.Minute
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			names, err := packRecordings(made)
			if err != nil || len(names) == 0 {
				t.Fatalf("recordings %v, %v", names, err)
			}
			must(t, cp.Copy(made, to))
			t.Logf("recorded %s", strings.Join(names, ", "))
			for _, n := range names {
				t.Run(n, func(t *testing.T) { repeatFile(t, filepath.Join(to, n+recordSuffix+".gz")) })
			}
		})
	}
}
