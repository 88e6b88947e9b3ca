//go:build !windows

package device_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// killPoints is how many moments of a flash there are for each tool, of which a run draws some. A full one has several
// desks for each tool: most of a flash is waiting.
const (
	killPoints      = 520
	killPointsDrawn = 2
	cutPointsDrawn  = 1
	killDesks       = 3
	maxFailures     = 5 // of a tool, which end its test
)

// A killPoint is a point of a flash and the disturbance there.
type killPoint struct {
	kind killKind
	at   int // transfer of the probe, or line of the host's log, from 1
}

type killKind int

const (
	unplugged       killKind = iota // the probe, at a transfer
	toolKilled                      // at a transfer
	hostKilled                      // at a transfer
	hostInterrupted                 // the host gets a signal after a transfer
	hostKilledAtLine
	hostInterruptedAtLine
	erasingCut    // the power is cut inside an erase; at is the seed
	programmedCut // the power is cut inside the programming of a word
)

func (k killKind) String() string {
	return [...]string{
		"unplugged", "tool killed", "host killed", "host interrupted", "host killed at a line",
		"host interrupted at a line", "power cut in erase", "power cut in word",
	}[k]
}

func (k killPoint) String() string { return fmt.Sprintf("%v at %d", k.kind, k.at) }

// TestFlashSurvivesKill: after any process is killed at any point of a flash, the ledger is right, no tool is left, and
// the next flash ends with the right image, as GNU objcopy computes it, and a working session.
func TestFlashSurvivesKill(t *testing.T) {
	t.Parallel()
	for _, tool := range programmers() {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			first, one, two := flashedMicrobit(t, tool)
			images := [2]*image.Image{one, two}
			first.setFaults(chipkeeper.Faults{})
			lines := first.linesOf(images[1])
			transfers := int(first.status().Transfers)
			points := append(drawn.Of(t, "kill "+tool, allKillPoints(lines, transfers), killPointsDrawn),
				drawn.Of(t, "cut "+tool, allCutPoints(), cutPointsDrawn)...)
			desks := []*desk{first}
			for drawn.InFull() && len(desks) < killDesks {
				desks = append(desks, newDesk(t, "microbit", tool))
			}
			next := make(chan killPoint, len(points))
			for _, k := range points {
				next <- k
			}
			close(next)
			var failures atomic.Int64
			var running sync.WaitGroup
			for _, d := range desks {
				running.Go(func() {
					d.env.Log = nil
					n := 0 // what the desk holds
					if d == first {
						n = 1
					} else {
						d.startFlashed(images[0])
					}
					for k := range next {
						n++
						if err := d.surviveKill(k, images[n%2], images); err != nil {
							t.Errorf("%v: %v", k, err)
							if failures.Add(1) >= maxFailures {
								return
							}
						}
					}
				})
			}
			running.Wait()
			for _, d := range desks {
				erases := d.status().State.Erases
				if len(erases) == 0 || len(erases) > reservedPage {
					t.Errorf("erases of %d pages, of which from %d on none may be", len(erases), reservedPage)
				}
			}
		})
	}
}

// TestLeaseOutlastsKilledHost: a tool that a wrapper started is not a child of the killed process. The board stays
// leased while the tool runs, and the tool ends.
func TestLeaseOutlastsKilledHost(t *testing.T) {
	t.Parallel()
	d, _, two := flashedMicrobit(t, "openocd")
	real, err := programmerPath("openocd")
	must(t, err)
	bin := t.TempDir()
	testkit.WriteProgram(t, filepath.Join(bin, "openocd"), "#!/bin/sh\n"+real+" \"$@\"\nexit $?\n")
	const into = 900 // transfers
	at := d.setFaults(chipkeeper.Faults{HangAfter: into}).Address
	cmd := d.job(two)
	cmd.Env = append(cmd.Env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	must(t, cmd.Start())
	for begun := time.Now(); d.status().Transfers < into; {
		if time.Since(begun) > 5*time.Minute {
			t.Error("OpenOCD did not reach this transfer within five minutes")
			break
		}
		time.Sleep(3 * time.Millisecond)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	d.env.Wait = 5 * time.Minute
	d.attach()
	if toolRuns(at) {
		t.Error("the board was leased while its tool ran")
	}
}

// surviveKill disturbs a flash of the image, checks the ledger, and flashes the image.
func (d *desk) surviveKill(k killPoint, i *image.Image, images [2]*image.Image) error {
	d.disturbFlash(k, i)
	d.setFaults(chipkeeper.Faults{})
	return cmp.Or(d.checkLedger(images), d.flashAndOpen(i), d.checkStable())
}

// checkStable returns an error if cells of the chip are unstable, which none is after an undisturbed flash.
func (d *desk) checkStable() error {
	if n := len(d.status().State.Unstable); n > 0 {
		return fmt.Errorf("%d bytes of the flash are still unstable", n)
	}
	return nil
}

// allKillPoints returns points of a flash with so many lines of log and transfers: every line, the first and last
// transfers, and others evenly between them.
func allKillPoints(lines, transfers int) (all []killPoint) {
	for n := range lines {
		all = append(all, killPoint{hostKilledAtLine, n + 1}, killPoint{hostInterruptedAtLine, n + 1})
	}
	kinds := []killKind{unplugged, toolKilled, hostKilled, hostInterrupted}
	for _, k := range kinds {
		for n := range 5 {
			all = append(all, killPoint{k, n + 1}, killPoint{k, transfers - n})
		}
	}
	for n, rest := 0, killPoints-len(all); n < rest; n++ {
		all = append(all, killPoint{kinds[n%len(kinds)], 6 + n*(transfers-10)/rest})
	}
	return all
}

// allCutPoints returns power cuts of several kinds in the first erase, and in words at increasing distances.
func allCutPoints() (all []killPoint) {
	for n := range 10 {
		all = append(all, killPoint{erasingCut, n + 1}, killPoint{programmedCut, n*n + 1})
	}
	return all
}

// checkLedger returns an error if the chip does not contain the image for which the ledger marks it as clean.
func (d *desk) checkLedger(images [2]*image.Image) error {
	all, err := ledger.New(filepath.Join(d.state, "ledger")).List()
	for _, e := range all {
		for _, i := range images {
			if !e.Dirty && e.Image == i.Digest {
				if err := d.holds(i); err != nil {
					return fmt.Errorf("the ledger marks the board as clean: %w", err)
				}
			}
		}
	}
	return err
}

// job returns the command that flashes the image in another process.
func (d *desk) job(i *image.Image) *exec.Cmd {
	d.t.Helper()
	job, err := json.Marshal(flashJob{d.board, d.env.Path, d.state, d.env.Programmer, *i, i.BuildDir})
	must(d.t, err)
	file := filepath.Join(d.t.TempDir(), "job.json")
	writeFile(d.t, file, string(job))
	return childCommand(d.t, "flash", file)
}

// linesOf flashes the image and returns the number of lines of its log.
func (d *desk) linesOf(i *image.Image) int {
	d.t.Helper()
	cmd := d.job(i)
	output, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%v\n%s", err, output)
	}
	return bytes.Count(output, []byte("\n"))
}

// disturbFlash begins to flash the image in another process and disturbs it at the point. It waits until that process
// and its tool have ended.
func (d *desk) disturbFlash(k killPoint, i *image.Image) {
	d.t.Helper()
	d.env.Wait = 5 * time.Second
	cmd := d.job(i)
	var faults chipkeeper.Faults
	awaited := false // a transfer, at which to kill a process
	switch k.kind {
	case unplugged:
		faults.UnplugAfter = k.at
	case erasingCut:
		faults.Cut = &chipkeeper.Cut{Erase: true, After: 1, Seed: uint64(k.at)}
	case programmedCut:
		faults.Cut = &chipkeeper.Cut{After: k.at, Seed: uint64(k.at)}
	case hostKilledAtLine:
		cmd.Env = append(cmd.Env, "PROJECT_TEST_KILL_LINE="+strconv.Itoa(k.at))
	case hostInterruptedAtLine:
		cmd.Env = append(cmd.Env, "PROJECT_TEST_STOP_LINE="+strconv.Itoa(k.at))
	case hostInterrupted:
		awaited = true
	default:
		faults.HangAfter = k.at
		awaited = true
	}
	at := d.setFaults(faults).Address
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	must(d.t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the flash was disturbed
		close(ended)
	}()
	begun := time.Now()
	for awaited {
		select {
		case <-ended: // before the point: the flash was shorter
			awaited = false
			continue
		case <-time.After(3 * time.Millisecond):
		}
		if d.status().Transfers >= int64(k.at) {
			d.kill(k, cmd)
			break
		}
		if time.Since(begun) > 5*time.Minute {
			d.t.Errorf("%v: this point was not reached within five minutes", k)
			break
		}
	}
	if faults.HangAfter > 0 {
		d.setFaults(chipkeeper.Faults{}) // end the fault
	}
	select {
	case <-ended:
	case <-time.After(90 * time.Second):
		d.t.Errorf("%v: the flash has not ended", k)
		_ = cmd.Process.Kill()
		<-ended
	}
	for begun = time.Now(); toolRuns(at) ||
		d.status().Busy; time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 5*time.Second {
			d.t.Errorf("%v: the tool still runs\n%s", k, output.String())
			return
		}
	}
}

// toolRuns reports whether a process's command line has the probe's address.
func toolRuns(a chipkeeper.Address) bool {
	_, bitbang, _ := strings.Cut(a.Bitbang, ":")
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, f := range lines {
		text, _ := os.ReadFile(f) // no text if it has ended
		if bytes.Contains(text, []byte("remote:"+a.Remote)) || bytes.Contains(text, []byte("remote_bitbang port "+bitbang)) {
			return true
		}
	}
	return false
}

func (d *desk) kill(k killPoint, cmd *exec.Cmd) {
	d.t.Helper()
	switch k.kind {
	case hostKilled:
		_ = cmd.Process.Kill() // it may just have ended
		return
	case hostInterrupted:
		_ = cmd.Process.Signal(os.Interrupt)
		return
	}
	for _, pid := range childrenOf(cmd.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
	}
}

// childrenOf lists a process's children.
func childrenOf(parent int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, f := range stats {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if ppid, _ := strconv.Atoi(fields[1]); ppid == parent {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestEmulatorKilled: the end of the emulator of an emulated chip is a loss of power, which returns: what uses the chip
// fails soon, and the chip works again without being flashed.
func TestEmulatorKilled(t *testing.T) {
	t.Parallel()
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[:drawn.Count(1, 2)] {
		t.Run(how.String(), func(t *testing.T) {
			t.Parallel()
			d, i, _ := flashedMicrobit(t, "openocd")
			dev := d.attach()
			ctx := t.Context()
			s, err := dev.Open(ctx, i)
			must(t, err)
			for _, pid := range childrenOf(d.status().Address.PID) {
				must(t, syscall.Kill(pid, how))
			}
			for killed := time.Now(); err == nil; _, err = s.Platform(ctx) {
				if time.Since(killed) > 20*time.Second {
					t.Fatal("the session goes on")
				}
			}
			if class := failure.Of(err); class == failure.Timeout {
				t.Errorf("class %s: %v", class, err)
			}
			must(t, s.Close(ctx))
			must(t, writeAndRead(ctx, t, dev, i))
		})
	}
}

// A flashJob is the input of the other process.
type flashJob struct {
	Board string
	Path  []string
	State string
	Tool  string
	Image image.Image
	Build string // the image's
}

// flashingChild flashes, and kills itself at the given line of its log.
func flashingChild(file string) int {
	data, err := os.ReadFile(file)
	if err != nil {
		fmt.Println(err)
		return 3
	}
	var job flashJob
	if err := json.Unmarshal(data, &job); err != nil {
		fmt.Println(err)
		return 3
	}
	job.Image.BuildDir = job.Build
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log := killingLog{signal: syscall.SIGKILL}
	if log.left, err = strconv.Atoi(os.Getenv("PROJECT_TEST_KILL_LINE")); err != nil { // 0: at none
		log.left, _ = strconv.Atoi(os.Getenv("PROJECT_TEST_STOP_LINE"))
		log.signal = syscall.SIGINT
	}
	host := device.Host{Path: job.Path, Log: hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &log})}
	env := env{Host: host, StateDir: job.State, Programmer: job.Tool, Tool: programmerPath, Wait: 5 * time.Minute}
	b, err := boards.Find(job.Board, job.Path)
	if err == nil {
		var dev *device.Device
		if dev, err = attach(ctx, b, "", env); err == nil {
			_, err = dev.Flash(ctx, &job.Image)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// A killingLog sends its own process a signal with its last line.
type killingLog struct {
	mu     sync.Mutex
	left   int
	signal syscall.Signal
}

func (d *killingLog) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left == 0 {
		_ = syscall.Kill(os.Getpid(), d.signal) // does not fail
		if d.signal == syscall.SIGKILL {
			select {}
		}
	}
	return os.Stdout.Write(p)
}

// childMode names the mode in which this test program runs as a second process, which is then killed or watched.
const childMode = "DEVICE_TEST_CHILD"

// child is the main function of the second process. childMode selects what it does.
func child() int {
	switch os.Getenv(childMode) {
	case "flash":
		return flashingChild(os.Args[1])
	case "attach":
		return attachingChild()
	}
	return 3
}

func childCommand(t *testing.T, mode string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	return cmd
}
