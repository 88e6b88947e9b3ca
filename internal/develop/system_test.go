//go:build linux

package develop

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMirrorOf(t *testing.T) {
	const targets = "Other|Debian|http://a/\nDebian|Debian-Security|http://b/\n" +
		"Debian|Debian|http://c/debian/\nDebian|Debian|http://d/\n"
	for printed, want := range map[string]string{targets: "http://c/debian/", "Ubuntu|Ubuntu|http://u/\n": "", "": ""} {
		if got := mirrorOf(printed); got != want {
			t.Errorf("%q: %q, want %q", printed, got, want)
		}
	}
}

func TestSystemEnv(t *testing.T) {
	settings := map[string]string{"GOROOT": "/go", "GOMODCACHE": "/mods", "GOPROXY": "https://p,direct", "GOSUMDB": "off"}
	environ := []string{"BOARD=x", "GOROOT=/go", "https_proxy=h", "NO_PROXY=n", "PIP_CERT=c", "BOARDSMITH_HOME=/h"}
	got := systemEnv(settings, environ)
	slices.Sort(got)
	want := []string{
		"GOPROXY=file:///srv/modules/cache/download,https://p,direct", "GOSUMDB=off", "HOME=/root", "NO_PROXY=n",
		"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"PIP_CERT=c", "TMPDIR=/tmp", "https_proxy=h",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestAcquireSettings(t *testing.T) {
	const dump = "APT::Architecture \"amd64\";\nAcquire::http::Proxy \"http://p/\";\n" +
		"Acquire::Changelogs::URI \"\";\nDPkg::Post \"x\";\n"
	if got := string(acquireSettings(dump)); got != "Acquire::http::Proxy \"http://p/\";\n" {
		t.Errorf("%q", got)
	}
}

// smallSystem creates a system with only a shell and the program sleep, copied from this computer.
func smallSystem(t *testing.T) *system {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes systems")
	}
	mount := append(ownNamespaces(), "mount", "-t", "proc", "proc", "/proc")
	if printed, err := exec.Command("unshare", mount...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v: %s", err, printed)
	}
	dir, shown := t.TempDir(), t.TempDir()
	for _, name := range []string{"proc", "sys", "dev", "shown"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	library := regexp.MustCompile(`/\S+`)
	for _, program := range []string{"/bin/sh", "/bin/sleep"} {
		printed, err := exec.Command("ldd", program).Output()
		if err != nil {
			t.Skipf("ldd %s: %v", program, err)
		}
		for _, file := range append(library.FindAllString(string(printed), -1), program) {
			data, err := os.ReadFile(file)
			if err == nil {
				to := filepath.Join(dir, file)
				err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o755))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	writeFile(t, filepath.Join(shown, "file"), "from outside\n")
	return &system{
		name: "small", dir: dir, env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		shown: map[string]string{shown: "/shown"}, grace: time.Second,
	}
}

// TestSystemRuns runs commands in a system: they have mounts and processes of their own, and none remain.
func TestSystemRuns(t *testing.T) {
	sys := smallSystem(t)
	var printed []string
	listen := func(line string) { printed = append(printed, line) }
	shell := `read line </shown/file; echo "$line"; (: >/shown/other) || echo read-only; ` +
		`(: <>/dev/ptmx) && echo terminals; ` +
		`read name rest </proc/1/stat; echo "process 1: $name"; exit 7`
	err := sys.runIn(t.Context(), "/", shell, listen)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("ended with %v, want status 7", err)
	}
	for _, want := range []string{"from outside", "read-only", "terminals", "process 1: 1"} {
		if !slices.Contains(printed, want) {
			t.Errorf("%q is not in %q", want, printed)
		}
	}
	mustBeAlone(t, sys)
}

// TestSystemCancelled stops a command that ignores signals, with an orphaned process.
func TestSystemCancelled(t *testing.T) {
	sys := smallSystem(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := sys.runIn(ctx, "/", `trap "" INT; (sleep 98765 &); echo begun; sleep 98765; sleep 98765`, func(line string) {
		if line == "begun" {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	mustBeAlone(t, sys)
}

// TestSystemTooSlow checks the time limit of a system: the stopped check and those that did not run have failed,
// earlier results are kept, and other systems are still tested, unlike after a cancel.
func TestSystemTooSlow(t *testing.T) {
	sys := smallSystem(t)
	if err := os.MkdirAll(filepath.Join(sys.dir, sourceAt), 0o755); err != nil {
		t.Fatal(err)
	}
	checks := []systemCheck{{"quick", "true"}, {"slow", "sleep 98765"}, {"left", "true"}}
	r, printed := quietRepository()
	var tl tally
	ctx, cancel := withSystemLimit(t.Context(), 2*time.Second)
	defer cancel()
	if err := r.checkSystem(ctx, &tl, sys, checks); err != nil {
		t.Errorf("ended with %v", err)
	}
	if want := []string{"small: slow", "small: left"}; tl.passed != 1 || !slices.Equal(tl.failures, want) {
		t.Errorf("%d passed, failed %q, want 1 and %q\n%s", tl.passed, tl.failures, want, printed)
	}
	if len(tl.systems) != 1 {
		t.Fatalf("reported %+v", tl.systems)
	}
	report := tl.systems[0]
	if !strings.HasSuffix(report.results["quick"], " s") || report.results["left"] != "FAILED" || report.tools != nil {
		t.Errorf("reported %+v", report)
	}
	if !strings.Contains(printed.String(), "more than 2s") {
		t.Errorf("printed\n%s", printed)
	}
	mustBeAlone(t, sys)

	outer, stop := context.WithCancelCause(t.Context())
	stop(errors.New("enough"))
	ctx, cancel = withSystemLimit(outer, time.Hour)
	defer cancel()
	if err := r.checkSystem(ctx, &tl, sys, checks); err == nil || err.Error() != "enough" {
		t.Errorf("a cancel: ended with %v", err)
	}
}

// mustBeAlone fails if a process runs in the system, or something is mounted in it.
func mustBeAlone(t *testing.T, sys *system) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), sys.dir) {
		t.Errorf("something is mounted in %s", sys.dir)
	}
	deadline := time.Now().Add(10 * time.Second) // the kernel ends them shortly after process 1
	for {
		var left []string
		roots, _ := filepath.Glob("/proc/[0-9]*/root")
		for _, root := range roots {
			if to, err := os.Readlink(root); err == nil && to == sys.dir {
				left = append(left, root)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running: %q", left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
