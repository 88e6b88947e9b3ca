//go:build !windows

package project

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
)

// killPoints is how many moments of a flash, for each tool, are tried in the full test; some of them else.
const (
	killPoints      = 60
	killPointsDrawn = 5
)

// A killPoint is one moment of a flash and what happens then.
type killPoint struct {
	kind string
	at   int // transfer of the probe, or line of our own log, from 1
}

func (k killPoint) String() string { return fmt.Sprintf("%s at %d", k.kind, k.at) }

// Whatever is killed, whenever: the next flash ends with the right image, and a good session.
func TestFlashNeverLies(t *testing.T) {
	for _, tool := range []string{"openocd", "pyocd"} {
		t.Run(tool, func(t *testing.T) {
			d := newReservedDesk(t, tool)
			images := [2]*Image{d.image(tiny(t, nil), boards.Options{}), d.image(tiny(t, nil), boards.Options{OperatorOpt: "O0"})}
			d.reaches(images[0])
			d.tell(virtualprobe.Request{Do: "faults", Faults: &virtualprobe.Faults{}})
			d.reaches(images[1])
			transfers := int(d.tell(virtualprobe.Request{Do: "status"}).Transfers)
			points := Drawn(t, "kill "+tool, allKillPoints(transfers), killPointsDrawn)
			t.Logf("%d transfers in a flash", transfers)
			for n, k := range points {
				d.hit(k, images[n%2])
				d.tell(virtualprobe.Request{Do: "faults", Faults: &virtualprobe.Faults{}})
				d.reaches(images[n%2])
				if t.Failed() {
					t.Fatalf("after %v", k)
				}
			}
			erases := d.tell(virtualprobe.Request{Do: "status"}).State.Erases
			for i := reservedPage; i < len(erases); i++ {
				if erases[i] != 0 {
					t.Errorf("reserved page %d was erased %d times", i, erases[i])
				}
			}
		})
	}
}

// allKillPoints spread over a flash of so many transfers.
func allKillPoints(transfers int) (all []killPoint) {
	kinds := []string{"the probe is unplugged", "the tool is killed", "we are killed"}
	const lines = 12 // of our own log in a flash, about
	for n := range lines {
		all = append(all, killPoint{"we are killed at a line", n + 1})
	}
	for n := range killPoints - lines {
		all = append(all, killPoint{kinds[n%len(kinds)], 1 + n*transfers/(killPoints-lines)})
	}
	return all
}

// reservedPage is the first of the pages that the test's microbit reserves.
const reservedPage = 240

// newReservedDesk is a microbit with a bootloader's region at the end of its flash.
func newReservedDesk(t *testing.T, tool string) *desk {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "boards", "microbit.json"))
	must(t, err)
	board := strings.Replace(string(text), `"flash": {"runner": "none"}`, flashers["microbit"], 1)
	board = strings.Replace(board, `"inherits": "chip/nrf51822",`, `"inherits": "chip/nrf51822", "memory": [
    {"name": "flash", "origin": "0x00000000", "size": "0x0003C000", "exec": true, "nonvolatile": true, "sectors": [{"count": 240, "size": 1024}], "erase_cycles": 20000},
    {"name": "bootloader", "origin": "0x0003C000", "size": "0x00004000", "nonvolatile": true, "reserved": true, "sectors": [{"count": 16, "size": 1024}]},
    {"name": "ram", "origin": "0x20000000", "size": "0x00004000", "exec": true}
  ],`, 1)
	return deskWith(t, shelfWith(t, map[string]string{"microbit.json": board}), "microbit", tool)
}

// reaches flashes the image, undisturbed, and demands that the chip holds it and answers.
func (d *desk) reaches(i *Image) {
	d.t.Helper()
	b, err := boards.Find(d.board, d.env.Path)
	must(d.t, err)
	dev, err := Attach(d.t.Context(), b, "", d.env)
	if err != nil {
		d.t.Errorf("attach: %v", err)
		return
	}
	defer dev.Close()
	if _, err := dev.Flash(d.t.Context(), i); err != nil {
		d.t.Errorf("flash: %v", err)
		return
	}
	d.mustHold(i)
	s, err := dev.Open(d.t.Context(), i)
	if err != nil {
		d.t.Errorf("open: %v", err)
		return
	}
	if err := s.Close(d.t.Context()); err != nil {
		d.t.Errorf("close: %v", err)
	}
}

// hit begins to flash the image in another process and lets the point come.
func (d *desk) hit(k killPoint, i *Image) {
	d.t.Helper()
	job, err := json.Marshal(flashJob{d.board, d.env.Path, d.state, d.env.Flasher, *i})
	must(d.t, err)
	file := filepath.Join(d.t.TempDir(), "job.json")
	must(d.t, os.WriteFile(file, job, 0o600))
	cmd := childCommand(d.t, "flash", file)
	var faults virtualprobe.Faults
	switch k.kind {
	case "the probe is unplugged":
		faults.UnplugAfter = k.at
	case "we are killed at a line":
		cmd.Env = append(cmd.Env, "PROJECT_TEST_KILL_LINE="+strconv.Itoa(k.at))
	default:
		faults.HangAfter = k.at
	}
	d.tell(virtualprobe.Request{Do: "faults", Faults: &faults})
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	must(d.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for start := time.Now(); faults.HangAfter > 0; time.Sleep(2 * time.Millisecond) {
		select {
		case err := <-ended: // before the point came: a flash need not always be as long
			ended <- err
			faults.HangAfter = 0
			continue
		default:
		}
		if time.Since(start) > time.Minute {
			d.t.Errorf("%v: it did not come in a minute\n%s", k, said.String())
			break
		}
		if d.tell(virtualprobe.Request{Do: "status"}).Transfers >= int64(k.at) {
			d.kill(k, cmd)
			break
		}
	}
	if faults.HangAfter > 0 {
		d.tell(virtualprobe.Request{Do: "faults", Faults: &virtualprobe.Faults{}}) // the wire is alive again, for nobody
	}
	select {
	case <-ended:
	case <-time.After(90 * time.Second):
		d.t.Errorf("%v: the flash has not ended\n%s", k, said.String())
		_ = cmd.Process.Kill()
		<-ended
	}
}

func (d *desk) kill(k killPoint, cmd *exec.Cmd) {
	d.t.Helper()
	if k.kind == "we are killed" {
		must(d.t, cmd.Process.Kill())
		return
	}
	for _, pid := range childrenOf(cmd.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
	}
}

// childrenOf lists a process's children.
func childrenOf(parent int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
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

// A flashJob is what the other process is to do.
type flashJob struct {
	Board, Path0 any
	State        string
	Tool         string
	Image        Image
}

// flashingChild flashes, and ends itself at the line of its log that it is told.
func flashingChild(file string) int {
	data, err := os.ReadFile(file)
	if err != nil {
		fmt.Println(err)
		return 3
	}
	var job struct {
		Board string
		Path0 []string
		State string
		Tool  string
		Image Image
	}
	if err := json.Unmarshal(data, &job); err != nil {
		fmt.Println(err)
		return 3
	}
	line, _ := strconv.Atoi(os.Getenv("PROJECT_TEST_KILL_LINE")) // 0: at none
	env := Env{
		Path: job.Path0, StateDir: job.State, Flasher: job.Tool, Tool: programmerPath, Wait: 30 * time.Second,
		Log: hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &deadly{left: line}}),
	}
	b, err := boards.Find(job.Board, job.Path0)
	if err == nil {
		var dev *Device
		if dev, err = Attach(context.Background(), b, "", env); err == nil {
			_, err = dev.Flash(context.Background(), &job.Image)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// A deadly log kills the process that writes its last line.
type deadly struct {
	mu   sync.Mutex
	left int
}

func (d *deadly) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // does not fail
		select {}
	}
	return os.Stdout.Write(p)
}
