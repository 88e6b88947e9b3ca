// This file runs the tests with an unmodified TVM and writes their times to a page.

package develop

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// interopFile is written by mage interop.
const interopFile = reportFolder + "/tvm.md"

// tvmVariable names a Python that has TVM.
const tvmVariable = "BOARDSMITH_TVM_PYTHON"

func (r *repository) interop(ctx context.Context) error {
	if err := r.needTVM(); err != nil {
		return err
	}
	var t tally
	var all []interopUse
	commit, load := r.commit(ctx), systemLoad()
	env := []string{drawn.Variable + "=" + cmp.Or(r.Env(drawn.Variable), drawn.Full)}
	args := []string{"-count=1", "-timeout=0", "-run=^(TestInterop|TestTVMsOwnTests)$", "./projectapi"}
	err := r.goTestLines(ctx, &t, env, "standard-verbose", func(line string) {
		if u, ok := parseInterop(line); ok {
			r.Printf("%-8s %-24s %-20s %s", u.template, u.use, u.board, u.result())
			all = append(all, u)
		}
	}, args...)
	if err != nil {
		return err
	}
	if t.failed == 0 && len(all) > 0 {
		if err := r.writePage(interopFile, interopPage(all, commit, load)); err != nil {
			return err
		}
	}
	return r.conclude(&t)
}

// needTVM returns an error if no TVM is named.
func (r *repository) needTVM() error {
	if r.Env(tvmVariable) != "" {
		return nil
	}
	return failure.New(failure.Config, "name a Python that has TVM 0.14 with its micro part and its compiler, "+
		"from a source tree with its tests", "%s is not set: nothing was run", tvmVariable)
}

// interopRecord makes recorded sessions as those in projectapi/testdata/tvm_sessions, and repeats each once.
func (r *repository) interopRecord(ctx context.Context, folder string) error {
	if err := r.needTVM(); err != nil {
		return err
	}
	env := []string{"BOARDSMITH_RECORD=" + r.path(folder)}
	if script := r.Env("SCRIPT"); script != "" {
		env = append(env, "BOARDSMITH_RECORD_SCRIPT="+r.path(script))
	}
	var t tally
	args := []string{"-count=1", "-timeout=0", "-run=^TestRecordTVM$", "./projectapi"}
	err := r.goTestLines(ctx, &t, env, "standard-verbose", func(line string) {
		if _, names, ok := strings.Cut(line, ": recorded "); ok {
			r.Printf("recorded %s", strings.TrimSpace(names))
		}
	}, args...)
	if err != nil {
		return err
	}
	return r.conclude(&t)
}

// path makes a path that the user gave absolute.
func (r *repository) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.Dir, path)
}

// An interopUse is one use of a template by TVM: a line that TestInterop has logged.
type interopUse struct {
	use, template, board string
	seconds, cpu         string // "": it failed
	note                 string // what the script adds
}

func (u interopUse) result() string {
	text := "fails"
	if u.seconds != "" {
		text = u.seconds + " s (" + u.cpu + " s)"
	}
	return text + u.note
}

var interopRE = regexp.MustCompile(`interop: ([^,]+), ([^,]+), ([^,]+), (?:fails|([0-9.]+), ([0-9.]+))(;.*)?$`)

func parseInterop(line string) (u interopUse, ok bool) {
	m := interopRE.FindStringSubmatch(line)
	if m == nil {
		return u, false
	}
	return interopUse{m[1], m[2], m[3], m[4], m[5], m[6]}, true
}

// interopPage returns the page: a row for each use on each board, a column for each template.
func interopPage(all []interopUse, commit, load string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Templates under TVM's own Python

Written by `+"`go tool mage interop`"+`. The scripts are in `+"`projectapi/testdata/interop`"+`: each use is one run of
Python, with TVM's imports, its compiler and its search.
Times are seconds of wall time, in brackets those of all processors.

| | |
|---|---|
| commit | %s |
| day | %s |
| system | %s/%s, %d cores; load before the run: %s |

| use | board | TVM's template | boardsmith's |
|---|---|---|---|
`, commit, time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), load)
	var rows [][2]string
	for _, u := range all {
		if row := [2]string{u.use, u.board}; !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	for _, row := range rows {
		cells := map[string]string{}
		for _, u := range all {
			if u.use == row[0] && u.board == row[1] {
				cells[u.template] = u.result()
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row[0], row[1], cells["TVM's"], cells["ours"])
	}
	return b.String()
}

// systemLoad returns Linux's mean number of running processes in the last 15 minutes, which the times depend on.
func systemLoad() string {
	data, err := os.ReadFile("/proc/loadavg")
	if words := strings.Fields(string(data)); err == nil && len(words) > 2 {
		return words[2]
	}
	return "not known"
}
