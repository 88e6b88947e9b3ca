// This file tries boardsmith on other systems than this one: on a bare Debian, made by debootstrap in a folder that is
// removed at the end. What runs there has mounts and processes of its own, which the kernel ends with it.

package develop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

// debians are the releases that boardsmith is tried on, by their names in the archive.
var debians = []struct{ release, name string }{{"bookworm", "Debian 12"}, {"trixie", "Debian 13"}}

// debianLimit ends the tests of one system: it is made, the tools are installed, and a whole test runs.
const debianLimit = testLimit + 30*time.Minute

// errSlow is the end of a system's time. What it stops has failed, and the next system is tried.
var errSlow = errors.New("the tests of one system took too long")

// withSystemLimit gives one system's tests their time.
func withSystemLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: more than %v", errSlow, limit))
}

// stoppedFromOutside returns why all tests shall end, nil if they shall not: also where the system's time is over.
func stoppedFromOutside(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, errSlow) {
		return cause
	}
	return nil
}

// A system is a bare Debian in a folder. It has Go, this repository's last commit, and what this computer knows of
// package mirrors, proxies and certificates.
type system struct {
	name  string // of the release, for people
	dir   string
	env   []string          // of what runs in it
	shown map[string]string // folders of this computer that are seen in it, and where: read-only
	grace time.Duration     // for what runs in it to end by itself after a cancel; 0 means 3 s
}

// A systemReport is what became of one system, for the report.
type systemReport struct {
	name    string
	results map[string]string // by check
	tools   map[string]string // versions; nil: not known
}

// A systemCheck is a command that must succeed in the repository of a system.
type systemCheck struct{ name, command string }

const (
	demoCheck  = "go tool mage demo"
	wholeCheck = "go tool mage test"
)

// wholeChecks are README's two commands. briefChecks try the tools of each kind of board instead of everything.
var (
	wholeChecks = []systemCheck{{demoCheck, demoCheck}, {wholeCheck, wholeCheck}}
	briefChecks = []systemCheck{
		{demoCheck, demoCheck},
		{"go tool mage setup", "go tool mage setup"},
		{"sample on lm3s6965evb", "BOARD=lm3s6965evb go tool mage build flash run"},
		{"sample on qemu_riscv32", "BOARD=qemu_riscv32 go tool mage build flash run"},
		{"make -C crt measure", "make -C crt measure"},
	}
)

// testDebian runs README's commands on each release, or on the one that RELEASE names.
func (r *repository) testDebian(ctx context.Context) error {
	if err := r.canMakeSystems(); err != nil {
		return err
	}
	var t tally
	if err := r.tryDebians(ctx, &t, r.Env("RELEASE"), wholeChecks); err != nil {
		return err
	}
	return r.conclude(&t)
}

// briefDebians is the part of test:full.
func (r *repository) briefDebians(ctx context.Context, t *tally) error {
	if err := r.canMakeSystems(); err != nil {
		r.skip(t, "other releases of Debian", err.Error())
		return nil
	}
	return r.tryDebians(ctx, t, "", briefChecks)
}

// canMakeSystems says what keeps a system from being made.
func (r *repository) canMakeSystems() error {
	switch {
	case runtime.GOOS != "linux":
		return failure.New(failure.Config, "", "test:debian needs Linux")
	case os.Geteuid() != 0:
		return failure.New(failure.Config, `sudo env PATH="$PATH" go tool mage test:debian`,
			"test:debian needs root: it makes systems with mounts of their own")
	}
	for _, tool := range []string{"debootstrap", "unshare", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			how := "go tool mage setup, or: apt-get install " + tool
			return failure.New(failure.ToolMissing, how, "%s is not on PATH", tool)
		}
	}
	return nil
}

// tryDebians tries the releases, or only one, one after the other. An error is returned only where nothing can be
// tried, or the user stopped it.
func (r *repository) tryDebians(ctx context.Context, t *tally, only string, checks []systemCheck) error {
	tried := false
	for _, d := range debians {
		if only != "" && only != d.release {
			continue
		}
		tried = true
		if err := r.tryDebian(ctx, t, d.release, d.name, checks); err != nil {
			return err
		}
	}
	if !tried {
		return failure.New(failure.Config, "", "RELEASE=%s is none that boardsmith is tried on", only)
	}
	return nil
}

func (r *repository) tryDebian(ctx context.Context, t *tally, release, name string, checks []systemCheck) error {
	ctx, cancel := withSystemLimit(ctx, debianLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "boardsmith-"+release+"-")
	if err != nil {
		return err
	}
	defer removeSystem(ctx, dir)
	start := time.Now()
	p := r.Start("making a "+name, 0)
	sys, err := r.makeSystem(ctx, release, name, dir)
	p.End()
	if err := stoppedFromOutside(ctx); err != nil {
		return err
	}
	if err != nil {
		r.fail(t, name, err.Error())
		return nil
	}
	r.pass(t, name+": made", time.Since(start))
	return r.checkSystem(ctx, t, sys, checks)
}

// checkSystem runs the checks in a system. Those for which there is no more time fail.
func (r *repository) checkSystem(ctx context.Context, t *tally, sys *system, checks []systemCheck) error {
	report := systemReport{name: sys.name, results: map[string]string{}}
	for _, c := range checks {
		if err := r.trySystem(ctx, t, sys, c, &report); err != nil {
			return err
		}
	}
	report.tools = r.toolsOf(ctx, sys)
	t.systems = append(t.systems, report)
	return nil
}

// removeSystem removes a system's folder, in which nothing is mounted here. After a cancel it does not wait: mage gives
// a target 5 s to end, and so many files may take longer.
func removeSystem(ctx context.Context, dir string) {
	cmd := exec.Command("setsid", "rm", "-rf", "--one-file-system", dir)
	if err := cmd.Start(); err == nil && stoppedFromOutside(ctx) == nil {
		_ = cmd.Wait() // what it could not remove lies in the folder for such
	}
}

var countsRE = regexp.MustCompile(`^\d+ passed, \d+ failed, \d+ skipped$`)

// trySystem runs one check in the system, showing what it prints.
func (r *repository) trySystem(ctx context.Context, t *tally, sys *system, c systemCheck, report *systemReport) error {
	start, counts := time.Now(), ""
	err := sys.run(ctx, c.command, func(line string) {
		if countsRE.MatchString(line) {
			counts = ": " + line
		}
		r.Printf("%s: %s", sys.name, line)
	})
	if err := stoppedFromOutside(ctx); err != nil {
		return err
	}
	name := sys.name + ": " + c.name + counts
	if err != nil {
		report.results[c.name] = "FAILED" + counts
		r.fail(t, name, err.Error())
		return nil
	}
	report.results[c.name] = fmt.Sprintf("%.0f s%s", time.Since(start).Seconds(), counts)
	r.pass(t, name, time.Since(start))
	return nil
}

// toolsOf asks the system for the versions of its tools; nil if there is no more time for it.
func (r *repository) toolsOf(ctx context.Context, sys *system) map[string]string {
	versions := map[string]string{}
	_ = sys.run(ctx, "JSON=1 go tool mage doctor", func(line string) { // it fails where a tool is missing
		var r struct{ Tool, Version string }
		if json.Unmarshal([]byte(line), &r) == nil && r.Tool != "" {
			versions[r.Tool] = r.Version
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return versions
}

// ---- Making one ----------------------------------------------------------------------------------------------------

// goSettings are the variables of Go that decide where modules come from.
var goSettings = []string{
	"GOROOT", "GOMODCACHE", "GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOINSECURE", "GOFLAGS",
	"GOTOOLCHAIN",
}

// Where folders of this computer are seen in a system.
const (
	goAt      = "/usr/local/go"
	modulesAt = "/srv/modules"
	sourceAt  = "/root/boardsmith"
)

func (r *repository) makeSystem(ctx context.Context, release, name, dir string) (*system, error) {
	settings, err := goEnv(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.bootstrap(ctx, release, dir); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // all users of the system go through its root
		return nil, err
	}
	sys := &system{
		name: name, dir: dir, grace: 2 * time.Second,
		env:   systemEnv(settings, os.Environ()),
		shown: map[string]string{settings["GOROOT"]: goAt, settings["GOMODCACHE"]: modulesAt},
	}
	for _, at := range sys.shown {
		if err := os.MkdirAll(filepath.Join(dir, at), 0o755); err != nil {
			return nil, err
		}
	}
	if err := giveNetwork(ctx, dir); err != nil {
		return nil, err
	}
	if !isClean(r.commit(ctx)) {
		r.Notef("note: %s gets the last commit, without what was changed since", name)
	}
	clone := []string{"-c", "safe.directory=*", "clone", "--quiet", "--no-hardlinks", r.Dir, filepath.Join(dir, sourceAt)}
	return sys, r.hostTool(ctx, "git", clone...)
}

// bootstrap unpacks and sets up the smallest Debian there is. debootstrap mounts folders, so it has mounts of its own.
func (r *repository) bootstrap(ctx context.Context, release, dir string) error {
	const script = `mount -t proc proc /proc; debootstrap --variant=minbase "$@"; exit 0`
	args := append(ownNamespaces(), "sh", "-ec", script, "sh", release, dir)
	if mirror := debianMirror(ctx); mirror != "" {
		args = append(args, mirror)
	}
	return r.hostTool(ctx, "unshare", args...)
}

// hostTool runs a tool of this computer; its error has the end of what it printed.
func (r *repository) hostTool(ctx context.Context, name string, args ...string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	err = command.Command{Path: path, Args: args, Env: passedOn(os.Environ()), Grace: 2 * time.Second}.Run(ctx)
	var ended *command.Error
	if errors.As(err, &ended) {
		return fmt.Errorf("%s: %w\n%s", ended.Command, ended.Err, ended.Text)
	}
	return err
}

// debianMirror is where this computer's apt gets Debian from; "" leaves it to debootstrap.
func debianMirror(ctx context.Context) string {
	args := []string{"indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"}
	said, err := exec.CommandContext(ctx, "apt-get", args...).Output()
	if err != nil {
		return ""
	}
	return mirrorOf(string(said))
}

func mirrorOf(targets string) string {
	for line := range strings.Lines(targets) {
		if uri, ok := strings.CutPrefix(strings.TrimSpace(line), "Debian|Debian|"); ok {
			return uri
		}
	}
	return ""
}

func goEnv(ctx context.Context) (map[string]string, error) {
	said, err := exec.CommandContext(ctx, "go", append([]string{"env", "-json"}, goSettings...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var settings map[string]string
	if err := json.Unmarshal(said, &settings); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	return settings, nil
}

// systemEnv is the environment in a system: modules come from this computer's cache, then from where it gets them.
func systemEnv(settings map[string]string, environ []string) []string {
	path := goAt + "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	env := append(passedOn(environ), "HOME=/root", "TMPDIR=/tmp", "PATH="+path)
	for _, name := range goSettings {
		v := settings[name]
		switch {
		case name == "GOROOT" || name == "GOMODCACHE" || v == "":
			continue
		case name == "GOPROXY":
			v = "file://" + modulesAt + "/cache/download," + v
		}
		env = append(env, name+"="+v)
	}
	return env
}

// passedOn are the variables about proxies, certificates and Python's packages.
func passedOn(environ []string) []string {
	var env []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		proxy := strings.HasSuffix(strings.ToLower(name), "_proxy")
		if proxy || strings.HasPrefix(name, "PIP_") || strings.HasPrefix(name, "SSL_CERT_") {
			env = append(env, v)
		}
	}
	return env
}

// giveNetwork gives the system the names, the certificates and the settings with which this computer reaches others.
func giveNetwork(ctx context.Context, dir string) error {
	files := map[string][]byte{"/etc/hosts": []byte("127.0.0.1 localhost\n::1 localhost\n")}
	// The package ca-certificates, when something brings it, makes its list anew, of these too.
	own, err := filepath.Glob("/usr/local/share/ca-certificates/*.crt")
	if err != nil {
		return err
	}
	for _, name := range append(own, "/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf") {
		if data, err := os.ReadFile(name); err == nil { // what is not here is not needed there
			files[name] = data
		}
	}
	if said, err := exec.CommandContext(ctx, "apt-config", "dump").Output(); err == nil {
		files["/etc/apt/apt.conf.d/90acquire"] = acquireSettings(string(said))
	}
	for name, data := range files {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, data, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// acquireSettings keeps of apt's settings how it reaches mirrors.
func acquireSettings(dump string) []byte {
	var kept []string
	for line := range strings.Lines(dump) {
		if strings.HasPrefix(line, "Acquire::") && !strings.HasPrefix(line, "Acquire::Changelogs") {
			kept = append(kept, line)
		}
	}
	return []byte(strings.Join(kept, ""))
}

// ---- Running in one ------------------------------------------------------------------------------------------------

// ownNamespaces are unshare's options for mounts and processes that end with it.
func ownNamespaces() []string { return []string{"--mount", "--pid", "--fork", "--kill-child"} }

// enter mounts what a system needs, and runs a command in it. The system's root is made a mount, so that programs in it
// can have mounts of their own in turn. The shell waits for the command as process 1, so that it
// can collect processes that lost their parent.
const enter = `
root=$1 folder=$2 command=$3
shift 3
mount --bind "$root" "$root"
for shown do
  mount --bind "${shown%%=*}" "$root${shown#*=}"
  mount -o remount,bind,ro "$root${shown#*=}"
done
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mkdir -p "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 pts "$root/dev/pts"
mount -t tmpfs shm "$root/dev/shm"
chroot "$root" sh -c "cd $folder && $command"
exit 0
`

// run runs a shell command in the system's repository. line takes what it prints.
func (sys *system) run(ctx context.Context, shell string, line func(string)) error {
	return sys.runIn(ctx, sourceAt, shell, line)
}

func (sys *system) runIn(ctx context.Context, folder, shell string, line func(string)) error {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return err
	}
	args := append(ownNamespaces(), "sh", "-ec", enter, "sh", sys.dir, folder, shell)
	for from, at := range sys.shown {
		args = append(args, from+"="+at)
	}
	err = command.Command{Path: unshare, Args: args, Env: sys.env, Out: line, Err: line, Grace: sys.grace}.Run(ctx)
	var ended *command.Error
	if errors.As(err, &ended) {
		return ended.Err // what it printed was shown
	}
	return err
}
