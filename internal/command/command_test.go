//go:build !windows

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

var (
	must      = testkit.Must
	last      = testkit.Last
	wantError = testkit.WantError
	wantEqual = testkit.WantEqual
	wantIs    = testkit.WantIs
)

func sh(script string) Command {
	return Command{Path: "/bin/sh", Args: []string{"-c", script}, Dir: "/"}
}

func TestCapture(t *testing.T) {
	c := sh(`echo one; echo two >&2; printf three`)
	out, errs, err := c.Capture(t.Context())
	if err != nil || out != "one\nthree" || errs != "two\n" {
		t.Errorf("%q, %q, %v", out, errs, err)
	}
}

// TestLines: lines arrive whole, also a last line without newline.
func TestLines(t *testing.T) {
	for script, want := range map[string][]string{
		``:                                   nil,
		`echo a; echo; echo b`:               {"a", "", "b"},
		`printf 'a\r\nb\r\n'`:                {"a", "b"},
		`printf 'a\nb'`:                      {"a", "b"},
		`printf a; sleep 0.05; printf 'b\r'`: {"ab"},
		`printf 'a\nno space left'; exit 1`:  {"a", "no space left"},
		`printf waiting; sleep 60`:           {"waiting"},
	} {
		out, errs := lines(t, script), lines(t, "exec >&2; "+script)
		if !slices.Equal(out[0], want) || out[1] != nil || !slices.Equal(errs[1], want) || errs[0] != nil {
			t.Errorf("%s: %q on standard output, %q on standard error, want %q", script, out, errs, want)
		}
	}
}

// lines runs a script for at most a second and returns the calls of its command's Out and Err.
func lines(t *testing.T, script string) (both [2][]string) {
	c := sh(script)
	c.Out = func(l string) { both[0] = append(both[0], l) }
	c.Err = func(l string) { both[1] = append(both[1], l) }
	c.Timeout, c.Grace = time.Second, 100*time.Millisecond
	_ = c.Run(t.Context()) // whether it succeeds or fails
	return both
}

// TestLongOutput: Stdout gets all of a long line; Out gets its beginning, whatever the sizes of the writes.
func TestLongOutput(t *testing.T) {
	const size = 3*headBytes + 1
	var whole bytes.Buffer
	var got []string
	c := sh(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo; echo y", size))
	c.Stdout, c.Out = &whole, func(l string) { got = append(got, l) }
	must(t, c.Run(t.Context()))
	wantEqual(t, whole.String(), strings.Repeat("x", size)+"\ny\n", whole.Len())
	wantEqual(t, got, []string{strings.Repeat("x", headBytes), "y"}, "Out got")
}

func TestFailure(t *testing.T) {
	err := sh(`echo trying; echo 'it broke' >&2; exit 3`).Run(t.Context())
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || failed.Stderr != "it broke\n" ||
		!strings.Contains(failed.Text, "trying\n") || failed.LastLine() == "" {
		t.Errorf("%+v", failed)
	}
	if want := `cd / && sh -c 'echo trying; echo '\''it broke'\'' >&2; exit 3'`; failed.Command != want &&
		failed.Command != strings.Replace(want, "sh", "/bin/sh", 1) {
		t.Errorf("typed %s", failed.Command)
	}
	if err := (Command{Path: "/not/there"}).Run(t.Context()); err == nil || errors.As(err, &failed) &&
		failed.Tool == "there" {
		t.Errorf("a missing program: %v", err)
	}
}

// Of long output, the beginning and the end are kept.
func TestMuchOutput(t *testing.T) {
	err := sh(`echo first; yes | head -c 1000000; echo last; exit 1`).Run(t.Context())
	var failed *Error
	if !errors.As(err, &failed) || !strings.HasPrefix(failed.Text, "first\n") ||
		!strings.HasSuffix(failed.Text, "last\n") || len(failed.Text) > headBytes+tailBytes {
		t.Errorf("%d bytes, %v", len(failed.Text), err)
	}
}

// TestWholeLines: the lines of one stream do not come into another's.
func TestWholeLines(t *testing.T) {
	// What was read of the script's output comes back to it: it waits for that before it prints to the other stream.
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	c := sh(`printf 'one '; head -c 4 >/dev/null; echo other >&2; head -c 5 >/dev/null; echo line; printf end; exit 1`)
	c.Stdin, c.Stdout, c.Err = r, w, func(l string) { _, _ = w.WriteString(l) }
	c.Timeout = time.Minute
	err = c.Run(t.Context())
	var failed *Error
	if !errors.As(err, &failed) || failed.Text != "other\none line\nend" {
		t.Errorf("%v", err)
	}
}

// When Run returns, the whole group has ended, also a child that ignores the interrupt.
func TestGroupEnds(t *testing.T) {
	const script = `trap '' INT; sh -c 'trap "" INT; echo $$ >"$MARK"; sleep 60' & wait`
	for name, run := range map[string]func(context.Context, Command){
		"cancelled": func(ctx context.Context, c Command) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(300*time.Millisecond, func() { cancel(errors.New("enough")) })
			wantError(t, c.Run(ctx), "", "enough")
		},
		"too long": func(ctx context.Context, c Command) {
			c.Timeout = 300 * time.Millisecond
			wantIs(t, c.Run(ctx), ErrTooLong)
		},
	} {
		t.Run(name, func(t *testing.T) {
			mark := filepath.Join(t.TempDir(), "mark")
			c := sh(script)
			c.Env, c.Grace = []string{"MARK=" + mark}, 300*time.Millisecond
			begin := time.Now()
			run(t.Context(), c)
			if d := time.Since(begin); d > 10*time.Second {
				t.Errorf("it took %v", d)
			}
			text, err := os.ReadFile(mark)
			if err != nil {
				t.Skipf("the child had not started: %v", err)
			}
			awaitEnd(t, string(text))
		})
	}
}

// A process that outlives a successful leader is ended too.
func TestGroupEndsAfterSuccess(t *testing.T) {
	out, _, err := sh(`sleep 60 >/dev/null 2>&1 & echo $!`).Capture(t.Context())
	must(t, err)
	awaitEnd(t, out)
}

// runChild starts this test program, which runs a script as a command that holds a file.
const runChild = "COMMAND_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(runChild) == "" {
		os.Exit(m.Run())
	}
	held, err := os.OpenFile(os.Args[2], os.O_RDWR, 0)
	if err == nil {
		_, err = filelock.Try(held)
	}
	if err == nil {
		c := sh(os.Args[1])
		c.Held = []*os.File{held}
		err = c.Run(context.Background())
	}
	fmt.Println(err)
	os.Exit(1)
}

// The lock of a killed process is held while any of its children runs. The children end at once, except those that
// left the process group.
func TestKilledWithGrandchildren(t *testing.T) {
	const work = `while echo x >>"$0.log"; do sleep 0.02; done`
	for name, c := range map[string]struct{ wrapper, needs string }{
		"a shell":                 {`sh -c '` + work + `' "$0"; echo done`, "sh"},
		"one that closes files":   {`sh -c '` + work + `' "$0" 3>&-; echo done`, "sh"},
		"one in the background":   {`sh -c '` + work + `' "$0" & wait`, "sh"},
		"python":                  {`python3 -c 'import subprocess, sys; subprocess.check_call(["sh", "-c", sys.argv[2], sys.argv[1]])' "$0" '` + work + `'`, "python3"},
		"python in a new session": {`python3 -c 'import subprocess, sys; subprocess.check_call(["sh", "-c", sys.argv[2], sys.argv[1]], start_new_session=True)' "$0" 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo x >>"$0.log"; sleep 0.05; done'`, "python3"},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Need(t, c.needs)
			t.Parallel()
			lock := filepath.Join(t.TempDir(), "lock")
			file, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600)
			must(t, err)
			defer file.Close()
			written := func() int64 {
				info, err := os.Stat(lock + ".log")
				if err != nil {
					return 0
				}
				return info.Size()
			}
			child := exec.Command(os.Args[0], strings.ReplaceAll(c.wrapper, `"$0"`, lock), lock)
			child.Env = append(os.Environ(), runChild+"=1")
			must(t, child.Start())
			testkit.Await(t, "the child's start", func() bool { return written() > 0 })
			_ = child.Process.Kill()
			_ = child.Wait() // it was killed
			testkit.Await(t, "the lock", func() bool {
				ok, err := filelock.Try(file)
				must(t, err)
				return ok
			})
			then := written()
			time.Sleep(200 * time.Millisecond)
			wantEqual(t, written(), then, "the lock was free while a tool wrote")
		})
	}
}

// awaitEnd awaits that a process does not exist or is a zombie.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	testkit.Await(t, "the child's end", func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func TestEnvironment(t *testing.T) {
	t.Setenv("BOARD", "host")
	t.Setenv("CFLAGS", "-O9")
	c := sh(`env`)
	c.Env = []string{"MINE=1"}
	out, _, err := c.Capture(t.Context())
	if err != nil || strings.Contains(out, "BOARD=") || strings.Contains(out, "CFLAGS") ||
		!strings.Contains(out, "LC_ALL=C\n") || !strings.Contains(out, "MINE=1\n") || !strings.Contains(out, "PWD=/\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRelativeReads: a place must be absolute, because a command runs in another folder than this process.
func TestRelativeReads(t *testing.T) {
	c := sh("exit 0")
	c.Reads = []string{"/", "."}
	if err := c.Run(t.Context()); Confines() {
		testkit.WantError(t, err, "", `"." is not absolute`)
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"": "''", "a-b_c=+.,/:@%9": "a-b_c=+.,/:@%9", "a b": "'a b'",
		"it's": `'it'\''s'`, "$x": "'$x'", "ü…": "ü…", "\u00a0\u3000": "'\u00a0\u3000'",
	} {
		wantEqual(t, Quote(word), want, word)
	}
}

// TestRelativeToOther: a program found by a relative path runs in another folder, and has an absolute TMPDIR there.
func TestRelativeToOther(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("TMPDIR", "a tmp")
	must(t, os.Mkdir("my tools", 0o755))
	testkit.WriteProgram(t, "my tools/tool", "#!/bin/sh\necho \"$TMPDIR\"\n")
	path, err := Find("my tools/tool", "")
	must(t, err)
	out, _, err := Command{Path: path, Dir: t.TempDir()}.Capture(t.Context())
	if want := filepath.Join(dir, "a tmp") + "\n"; err != nil || out != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
}
