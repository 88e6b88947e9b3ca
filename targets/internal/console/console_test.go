package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestProgress: a step of more than a second prints a plain line, a shorter one nothing. Update changes the step in
// progress, if there is one.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var printed bytes.Buffer
		c := New(testkit.Environment(), &printed, &printed)
		c.Update("nothing runs", 1, 2)
		p := c.Start("short", 0)
		time.Sleep(quiet - time.Millisecond)
		p.End()
		p.End()
		p = c.Start("first", 9)
		c.Update("long", 3, 10)
		p.Add(1)
		time.Sleep(quiet + 300*time.Millisecond)
		c.endProgress()
		c.Update("ended", 1, 2)
		testkit.Equal(t, "printed", printed.String(), "boardsmith: long: 4 of 10, 1 s\n")
	})
}

// TestNarrowTable: a table that is wider than the terminal becomes a list for each row.
func TestNarrowTable(t *testing.T) {
	rows := [][]string{{"board", "flash", "outputs"}, {"host", "30,925", "exact"}, {"mps2_an386", "fault", ""}}
	const wide, narrow = "board        flash  outputs\nhost        30,925  exact\nmps2_an386   fault",
		"board    host\nflash    30,925\noutputs  exact\n\nboard  mps2_an386\nflash  fault\n"
	for columns, want := range map[int]string{27: wide, 26: narrow} {
		testkit.Equal(t, columns, strings.Join(tableLines(rows, []int{1}, columns), "\n"), want)
	}
}

// TestDo: a target's error, which has the exit status, and what it would do are printed as text and as a JSON line.
func TestDo(t *testing.T) {
	for status, c := range map[int]struct {
		target     func(*Console) error
		text, line string
	}{
		4: {
			func(*Console) error { return failure.New(failure.DoesNotFit, "buy more", "too big") },
			"boardsmith: error: too big\nboardsmith: hint: buy more\n",
			`{"class":"does-not-fit","code":4,"error":"too big","next":"buy more","status":"failed","step":"build","v":1}`,
		},
		0: {
			func(c *Console) error { return c.Would("remove %s", "p") },
			"build: would remove p\n", `{"status":"dry-run","step":"build","v":1,"would":"remove p"}`,
		},
	} {
		var out, errs bytes.Buffer
		console := New(testkit.Environment("JSON=1"), &out, &errs)
		err := console.Do(t.Context(), "build", func(context.Context) error { return c.target(console) })
		var failed interface{ ExitStatus() int }
		if got := errors.As(err, &failed); got != (status != 0) || got && failed.ExitStatus() != status {
			t.Errorf("want status %d: %v", status, err)
		}
		if errs.String() != c.text || out.String() != c.line+"\n" {
			t.Errorf("printed %q and %q, want %q and %q", errs.String(), out.String(), c.text, c.line)
		}
	}
}

// TestEndOfMage: a target ends soon after mage, which waits for it; one of a program of `mage -compile` outlives the
// shell that started it.
func TestEndOfMage(t *testing.T) {
	if when := os.Getenv("BOARDSMITH_TEST_TARGET"); when != "" {
		for n := 0; when == "late" && n < 2000 && os.Getppid() == starter; n++ { // begins when mage has ended already
			if n == 0 {
				fmt.Println("waits")
			}
			time.Sleep(10 * time.Millisecond)
		}
		_ = New(os.Getenv, os.Stdout, os.Stderr).Do(t.Context(), "wait", func(ctx context.Context) error {
			fmt.Println("waits")
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Second):
			}
			return nil
		})
		return
	}
	if runtime.GOOS == "windows" {
		t.Skip("a process there keeps the number of its parent")
	}
	self, err := os.Executable()
	testkit.Must(t, err)
	for name, ends := range map[string]bool{
		strings.Repeat("ab", 32) + " early": true, strings.Repeat("ab", 32) + " late": true, "ci early": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, when, _ := strings.Cut(name, " ")
			program := filepath.Join(t.TempDir(), file)
			testkit.Must(t, os.Symlink(self, program))
			shell := exec.Command("sh", "-c", `"$0" -test.run='^TestEndOfMage$' & echo $!; wait`, program)
			shell.Env = append(os.Environ(), "BOARDSMITH_TEST_TARGET="+when)
			output, err := shell.StdoutPipe()
			testkit.Must(t, err)
			testkit.Must(t, shell.Start())
			pid := 0
			if _, err := fmt.Fscanf(output, "%d\nwaits\n", &pid); err != nil {
				t.Fatal(err)
			}
			child, err := os.FindProcess(pid)
			testkit.Must(t, err)
			defer child.Kill()
			testkit.Must(t, shell.Process.Kill())
			ended := make(chan struct{})
			go func() {
				_, _ = io.Copy(io.Discard, output)
				close(ended)
			}()
			select {
			case <-ended:
				if !ends {
					t.Error("it ended with its parent")
				}
			case <-time.After(map[bool]time.Duration{true: 10 * time.Second, false: 3 * parentPoll}[ends]):
				if ends {
					t.Error("it goes on after its parent has ended")
				}
			}
		})
	}
}

func TestSwitches(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "0": false, "no": false, "No": false, "off": false, "FALSE": false, "1": true, "yes": true, "2": true,
	} {
		testkit.Equal(t, value, IsOn(value), want)
	}
}

// TestToolEnv: programs that a target starts do not inherit the inputs of this run.
func TestToolEnv(t *testing.T) {
	t.Setenv("BOARD", "host")
	t.Setenv("MAGEFILE_VERBOSE", "1")
	t.Setenv("BOARDSMITH_HOME", "/home")
	env := ToolEnv()
	if !slices.Contains(env, "BOARDSMITH_HOME=/home") {
		t.Error("BOARDSMITH_HOME is not passed on")
	}
	for _, v := range env {
		if strings.HasPrefix(v, "BOARD=") || strings.HasPrefix(v, "MAGEFILE_") {
			t.Errorf("%s is passed on", v)
		}
	}
}

// TestNames: a variable that resembles one of the running target's is an error, a note if that one is set, too, and
// nothing if the target does not read it. What other programs set resembles none. What a magefile's own target reads is
// its own: beside it, such a variable is at most a note, which is printed once.
func TestNames(t *testing.T) {
	for _, c := range []struct{ steps, args, environ, env, want, note string }{
		{"build", "", "MODLE=a.tar", "", `MODLE is no variable of build, which reads MODEL`, ""},
		{"build", "", "MODLE=a.tar", "MODEL", "", "boardsmith: note: MODLE resembles MODEL, and has no effect on %s\n"},
		{"measure", "", "MODELS=a.tar", "", "which reads MODEL", ""},
		{"build", "", "BORD=host", "", "", "boardsmith: note: BORD resembles BOARD, and has no effect on %s\n"},
		{"build", "", "MODE=fast", "", "", ""},
		{"run", "", "RACE=1 MAGE=mage", "", "", ""},
		{"build", "", "board=host", "", "", "boardsmith: note: board resembles BOARD, and has no effect on %s\n"},
		{"build", "", "MODEM=/dev/ttyS0", "", "", "boardsmith: note: MODEM resembles MODEL, and has no effect on %s\n"},
		{"flash", "", "TARGETS=all", "", "", "boardsmith: note: TARGETS resembles TARGET, and has no effect on %s\n"},
		{"tune", "", "PROPSER=grid", "", "which reads PROPOSER", ""},
		{"build", "", "PROPSER=grid", "", "", ""},
		{"boards", "", "MODLE=a.tar", "", "", ""},
		{"boards", "", "BOARDSMITH_PAHT=a", "", "which reads BOARDSMITH_PATH", ""},
		{"build", "", "MODLE=", "", "", ""},
		{"build", "", "MODEL=a.tar BOARD=host TEST=1 HOME=/h RAM=1", "MODEL", "", ""},
		{"build flash", "all", "MODELS=a.tar", "", "", ""},
		{
			"build flash", "all build flash", "MODELS=a.tar", "", "",
			"boardsmith: note: MODELS resembles MODEL, and has no effect on %s\n",
		},
		{"build flash", "build flash", "MODELS=a.tar", "", "MODELS is no variable of build, which reads MODEL", ""},
	} {
		var out bytes.Buffer
		console := New(testkit.Environment(c.env+"=set"), &out, &out)
		console.environ = func() []string { return strings.Fields(c.environ) }
		console.args = strings.Fields(cmp.Or(c.args, "-v "+c.steps))
		steps := strings.Fields(c.steps)
		var err error
		for _, console.step = range steps {
			if err == nil {
				err = console.checkNames()
			}
		}
		testkit.WantErrorIf(t, c.want != "", err, failure.Config, c.want, "did you mean ")
		testkit.Equal(t, c, out.String(), strings.Replace(c.note, "%s", steps[0], 1))
	}
}

// TestForms: a value that another system has set is not set to any target, and noted to one that reads the variable.
func TestForms(t *testing.T) {
	empty, withTargets := t.TempDir(), t.TempDir()
	testkit.WriteFile(t, filepath.Join(withTargets, "boardsmith.json"), `{"targets": {"x": {}}}`)
	testkit.Must(t, os.Mkdir(filepath.Join(empty, "classes"), 0o755))
	for _, c := range []struct {
		step, dir, name, value string
		ours, noted            bool
	}{
		{"run", empty, "IMAGE", "registry.example/node:18", false, true},
		{"build", empty, "IMAGE", "ubuntu-24.04", false, false},
		{"run", empty, "IMAGE", "12", true, false}, // a mistake of ours
		{"flash", empty, "IMAGE", "last", true, false},
		{"run", empty, "IMAGE", "running", true, false},
		{"validate", empty, "LABELS", "bug,p1", false, true},
		{"validate", empty, "LABELS", "none.npz", true, false},
		{"validate", empty, "LABELS", "classes", true, false},
		{"build", withTargets, "TARGET", "production", true, false}, // an error that names the targets
		{"build", empty, "TARGET", "x86_64-linux-gnu", false, true},
		{"run", empty, "TRACE", "1", false, true},
		{"run", empty, "TRACE", "TRUE", false, true},
		{"run", empty, "TRACE", "1.bin", true, false},
		{"monitor", empty, "LOG", "on", false, true},
		{"update", empty, "NAME", "DESKTOP-7F3", false, true},
		{"update", empty, "NAME", "https://example.org/x.git@v1", true, false},
	} {
		var out bytes.Buffer
		console := New(testkit.Environment(c.name+"="+c.value), &out, &out)
		console.Dir, console.args = c.dir, []string{c.step}
		var got string
		for range 2 {
			err := console.Do(t.Context(), c.step, func(context.Context) error {
				got = console.Env(c.name)
				return nil
			})
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if (got == c.value) != c.ours || got != "" && !c.ours ||
			strings.Count(out.String(), c.name+"="+c.value+" has no effect") != map[bool]int{true: 1}[c.noted] {
			t.Errorf("%+v: %q, printed %q", c, got, out.String())
		}
	}
}

func init() {
	type common struct {
		Board  string `var:"BOARD"`
		Model  string `var:"MODEL"`
		Target string `var:"TARGET"`
	}
	type run struct {
		common
		Image  string        `var:"IMAGE"`
		Trace  string        `var:"TRACE"`
		DryRun bool          `var:"DRYRUN"`
		Repeat int           `var:"REPEAT" default:"10" range:"1 99" else:" is not a number" next:"REPEAT=9"`
		Load   string        `var:"LOAD" of:"flash ram"`
		Output string        `var:"OUTPUT" write:".npz .npy"`
		Wait   time.Duration `var:"WAIT"`
		Uses   []string      `var:"LIBRARIES"`
	}
	for target, variables := range map[string]any{
		"build": common{}, "measure": common{}, "run": run{}, "flash": run{}, "clean": run{},
		"tune": struct {
			Proposer string `var:"PROPOSER"`
		}{}, "validate": struct {
			Labels string `var:"LABELS"`
		}{},
		"monitor": struct {
			Log string `var:"LOG"`
		}{}, "update": struct {
			Name string `var:"NAME"`
		}{},
	} {
		Declare(target, variables)
	}
}

// TestRead: a field has the variable's text in its kind, its default if the variable is not set, and nothing if the
// target does not read it.
func TestRead(t *testing.T) {
	t.Chdir(t.TempDir())
	type variables struct {
		Repeat int           `var:"REPEAT" default:"10" range:"1 99" else:" is not a number" next:"REPEAT=9"`
		Load   string        `var:"LOAD" of:"flash ram"`
		Output string        `var:"OUTPUT" write:".npz .npy"`
		Wait   time.Duration `var:"WAIT"`
		DryRun bool          `var:"DRYRUN"`
		Uses   []string      `var:"LIBRARIES"`
		Labels string        `var:"LABELS"` // not of run
	}
	for text, want := range map[string]string{
		"":                         "{10   0s false [] }",
		"REPEAT=7 LOAD=ram":        "{7 ram  0s false [] }",
		"WAIT=60 DRYRUN=yes":       "{10   1m0s true [] }",
		"WAIT=2m DRYRUN=off":       "{10   2m0s false [] }",
		"LIBRARIES=nn,../a,, ":     "{10   0s false [nn ../a] }",
		"OUTPUT=x.npz LABELS=none": "{10  x.npz 0s false [] }",
		"REPEAT=0":                 "REPEAT=0 is not a number",
		"REPEAT=NaN":               "REPEAT=NaN is not a number",
		"REPEAT=100":               "REPEAT=100 is not a number",
		"LOAD=rm":                  `LOAD=rm is none of flash, ram; did you mean "ram"?`,
		"OUTPUT=x.csv":             "OUTPUT=x.csv: the file is written as .npz or .npy",
		"WAIT=soon":                "WAIT=soon is not a positive duration of at most 292 years",
		"WAIT=1e6":                 "{10   277h46m40s false [] }",
	} {
		c := New(testkit.Environment(strings.Fields(text)...), io.Discard, io.Discard)
		c.step = "run"
		var v variables
		var got string
		if err := c.Read(&v); err != nil {
			got = err.Error()
			testkit.WantError(t, err, failure.Config)
		} else {
			got = fmt.Sprint(v)
		}
		testkit.Equal(t, text, got, want)
	}
}
