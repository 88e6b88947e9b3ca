// This file creates a bare Debian in a folder, and runs commands in it. They have mount and process namespaces of their
// own, so that the kernel removes their mounts and processes when they end.

package develop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/command"
)

// A system is a bare Debian in a folder. It has Go, this repository's last commit, and this computer's settings for
// package mirrors, proxies and certificates.
type system struct {
	name  string // name of the release, for people
	dir   string
	env   []string          // environment of its commands
	shown map[string]string // folders of this computer, with their path in the system, read-only
	grace time.Duration     // time for commands to end after a cancel; 0 means 3 s
}

// ---- Making a system -----------------------------------------------------------------------------------------------

// goSettings are Go's variables for the origin of modules.
var goSettings = []string{
	"GOROOT", "GOMODCACHE", "GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOINSECURE", "GOFLAGS",
	"GOTOOLCHAIN",
}

// Paths in a system of folders of this computer.
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
	if err := os.Chmod(dir, 0o755); err != nil { // all users of the system must have access to its root
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

// bootstrap unpacks and sets up the smallest variant of Debian. debootstrap mounts folders, so it runs in a mount
// namespace.
func (r *repository) bootstrap(ctx context.Context, release, dir string) error {
	const script = `mount -t proc proc /proc; debootstrap --variant=minbase "$@"; exit 0`
	args := append(ownNamespaces(), "sh", "-ec", script, "sh", release, dir)
	if mirror := debianMirror(ctx); mirror != "" {
		args = append(args, mirror)
	}
	return r.hostTool(ctx, "unshare", args...)
}

// hostTool runs a tool of this computer. Its error ends with the last lines that the tool printed.
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

// debianMirror returns the mirror of this computer's apt; "" leaves the choice to debootstrap.
func debianMirror(ctx context.Context) string {
	args := []string{"indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"}
	printed, err := exec.CommandContext(ctx, "apt-get", args...).Output()
	if err != nil {
		return ""
	}
	return mirrorOf(string(printed))
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
	printed, err := exec.CommandContext(ctx, "go", append([]string{"env", "-json"}, goSettings...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var settings map[string]string
	if err := json.Unmarshal(printed, &settings); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	return settings, nil
}

// systemEnv returns the environment of commands in a system. Modules come from this computer's cache, then from its
// proxy.
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

// passedOn are the variables for proxies, certificates and Python's packages.
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

// giveNetwork copies the host names, certificates and settings that this computer uses for the network.
func giveNetwork(ctx context.Context, dir string) error {
	files := map[string][]byte{"/etc/hosts": []byte("127.0.0.1 localhost\n::1 localhost\n")}
	// ca-certificates, if installed later, includes these in its new list.
	own, err := filepath.Glob("/usr/local/share/ca-certificates/*.crt")
	if err != nil {
		return err
	}
	for _, name := range append(own, "/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf") {
		if data, err := os.ReadFile(name); err == nil { // copies only what this computer has
			files[name] = data
		}
	}
	if printed, err := exec.CommandContext(ctx, "apt-config", "dump").Output(); err == nil {
		files["/etc/apt/apt.conf.d/90acquire"] = acquireSettings(string(printed))
	}
	for name, data := range files {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, data, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// acquireSettings returns apt's settings about the access to mirrors.
func acquireSettings(dump string) []byte {
	var kept []string
	for line := range strings.Lines(dump) {
		if strings.HasPrefix(line, "Acquire::") && !strings.HasPrefix(line, "Acquire::Changelogs") {
			kept = append(kept, line)
		}
	}
	return []byte(strings.Join(kept, ""))
}

// removeSystem removes a system's folder. No mount of its namespace is visible here. After a cancel it does not wait:
// mage gives a target 5 s to end, and removing so many files may take longer.
func removeSystem(ctx context.Context, dir string) {
	cmd := exec.Command("setsid", "rm", "-rf", "--one-file-system", dir)
	if err := cmd.Start(); err == nil && stoppedFromOutside(ctx) == nil {
		_ = cmd.Wait() // remaining files are in the folder for temporary files
	}
}

// ---- Running commands in it ----------------------------------------------------------------------------------------

// ownNamespaces are unshare's options for mounts and processes that end with it.
func ownNamespaces() []string { return []string{"--mount", "--pid", "--fork", "--kill-child"} }

// enter mounts what a system needs, and runs a command in it. The system's root becomes a mount point, so that programs
// in it can make mount namespaces in turn. The shell waits for the command as process 1, and thereby reaps orphaned
// processes.
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

// run runs a shell command in the system's repository. It calls line with each line that the command prints.
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
		return ended.Err // its output was shown
	}
	return err
}
