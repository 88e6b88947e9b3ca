//go:build !windows

package virtualprobe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

func TestMain(m *testing.M) { keepertest.Main(m, keeperFlags...) }

// A kept chip has its flash and its wear in each later command, also after its keeper was restarted.
func TestKeeper(t *testing.T) {
	t.Parallel()
	needs(t, NRF51.Program)
	dir := filepath.Join(t.TempDir(),
		"a folder whose name is much longer than the name of a socket can ever be, as people's folders are", "chip")
	ctx := testkit.Context(t)
	a, err := startKeeper(t, dir)
	must(t, err)
	defer chipkeeper.Down(ctx, dir)
	name, want := image(t, 3000, 0)
	must(t, openocd(t, portOf(a.Address.Bitbang), nrfTarget, name, "0"))
	again, err := startKeeper(t, dir)
	if err != nil || again.Address != a.Address {
		t.Fatalf("a second keeper: %+v, %v", again, err)
	}
	must(t, chipkeeper.Down(ctx, dir))
	flash, err := os.ReadFile(filepath.Join(dir, chipkeeper.FlashFile))
	if err != nil || !bytes.Equal(flash[:len(want)], want) {
		t.Fatalf("the flash was not kept: %v", err)
	}
	third, err := startKeeper(t, dir)
	must(t, err)
	if e := third.State.Erases; len(e) < 3 || e[0] != 1 || e[2] != 1 {
		t.Errorf("erases are %v, want one of each of three pages", e)
	}
	if third.Address.PID == a.Address.PID {
		t.Error("the keeper did not end on request")
	}
	wantError(t, last(chipkeeper.Ask(ctx, dir, chipkeeper.Request{Do: "dance"})), "")
}

// TestRelativeTMPDIR starts a keeper, which runs in its chip's folder, with a relative folder for temporary files.
func TestRelativeTMPDIR(t *testing.T) {
	needs(t, NRF51.Program)
	dir := filepath.Join(t.TempDir(), "chip")
	must(t, last(keepertest.Path())) // builds it
	t.Chdir(t.TempDir())
	must(t, os.Mkdir("a folder", 0o755))
	t.Setenv("TMPDIR", "a folder")
	ctx := testkit.Context(t)
	must(t, last(startKeeper(t, dir)))
	must(t, chipkeeper.Down(ctx, dir))
}

// startKeeper starts the keeper of a folder's chip unless it runs.
func startKeeper(t *testing.T, dir string) (chipkeeper.Answer, error) {
	return chipkeeper.Up(testkit.Context(t), keepertest.Path, dir, NRF51.Name, chipkeeper.Stays)
}

// upWithin starts a keeper that ends after the given time without a client.
func upWithin(t *testing.T, stays time.Duration) (string, chipkeeper.Answer) {
	t.Helper()
	needs(t, NRF51.Program)
	dir := filepath.Join(t.TempDir(), "chip")
	a, err := chipkeeper.Up(t.Context(), keepertest.Path, dir, NRF51.Name, stays)
	must(t, err)
	t.Cleanup(func() { _ = chipkeeper.Down(context.Background(), dir) }) // the keeper may already have ended
	return dir, a
}

func gone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(text, []byte(") Z "))
}

// emulatorOf returns the only child of a keeper.
func emulatorOf(t *testing.T, keeper int) int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", keeper)) // the kernel lists children by thread
	must(t, err)
	var children []byte
	for _, f := range tasks {
		children = append(children, testkit.ReadFile(t, f)...)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(children)))
	if err != nil {
		t.Skipf("no list of children: %q", children)
	}
	return pid
}

// A keeper ends 60 s after its last client, not before. Afterwards the chip can be used again.
func TestKeeperLingers(t *testing.T) {
	t.Parallel()
	wantEqual(t, chipkeeper.Stays, 60*time.Second, "a keeper stays")
	const short = 5 * time.Second // on a slow computer too, the client comes within this time
	for name, connect := range map[string]func(ctx context.Context, dir string, a chipkeeper.Answer) (io.Closer, error){
		"probe": func(_ context.Context, _ string, a chipkeeper.Answer) (io.Closer, error) {
			return net.Dial("tcp", a.Address.Bitbang)
		},
		"hold": func(ctx context.Context, dir string, _ chipkeeper.Answer) (io.Closer, error) {
			return chipkeeper.Hold(ctx, dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, a := upWithin(t, short)
			conn, err := connect(t.Context(), dir, a)
			must(t, err)
			time.Sleep(short + 2*saveEvery)
			if gone(a.Address.PID) {
				t.Fatal("it ended while it had a client")
			}
			left := time.Now()
			conn.Close()
			await(t, "the keeper's end", func() bool { return gone(a.Address.PID) })
			if took := time.Since(left); took < short {
				t.Errorf("it ended after %v, not %v", took, short)
			}
			b, err := startKeeper(t, dir)
			if err != nil || b.Address.PID == a.Address.PID {
				t.Errorf("again: %+v, %v", b, err)
			}
		})
	}
}

// When a keeper is killed, its emulator ends too; the chip then restarts with the saved flash.
func TestKeeperKilled(t *testing.T) {
	t.Parallel()
	dir, a := upWithin(t, chipkeeper.Stays)
	emulator := emulatorOf(t, a.Address.PID)
	must(t, syscall.Kill(a.Address.PID, syscall.SIGKILL))
	await(t, "the emulator's end", func() bool { return gone(emulator) })
	b, err := startKeeper(t, dir)
	if err != nil || b.Address.PID == a.Address.PID || b.State.Serial != a.State.Serial {
		t.Errorf("again: %+v, %v", b, err)
	}
}

// A keeper that cannot start reports the reason immediately, not after the time limit.
func TestKeeperThatCannotStart(t *testing.T) {
	t.Parallel()
	needs(t, NRF51.Program)
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, chipkeeper.FlashFile), string(make([]byte, nrfBytes+1)))
	start := time.Now()
	_, err := startKeeper(t, dir)
	if err == nil || !strings.Contains(err.Error(), "bytes of flash") || time.Since(start) > 45*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

// If many processes start one chip at the same time, one keeper runs.
func TestManyUps(t *testing.T) {
	t.Parallel()
	needs(t, NRF51.Program)
	dir := filepath.Join(t.TempDir(), "chip")
	defer func() { _ = chipkeeper.Down(context.Background(), dir) }() // as in up
	var all sync.WaitGroup
	var pids sync.Map
	for range 6 {
		all.Go(func() {
			a, err := startKeeper(t, dir)
			if err != nil {
				t.Error(err)
			}
			pids.Store(a.Address.PID, true)
		})
	}
	all.Wait()
	n := 0
	pids.Range(func(any, any) bool { n++; return true })
	wantEqual(t, n, 1)
}

// newKeeper creates a keeper in this process, to test what no client can observe.
func newKeeper(t *testing.T) *keeper {
	t.Helper()
	needs(t, NRF51.Program)
	k := &keeper{
		dir: t.TempDir(), log: hclog.NewNullLogger(), done: make(chan struct{}),
		state: chipkeeper.State{Model: NRF51.Name},
	}
	must(t, k.powerUp())
	t.Cleanup(func() { must(t, k.chip.Close()) })
	return k
}

// A keeper answers, saves and swaps at the same time, under the race detector.
func TestKeeperAtOnce(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	var all sync.WaitGroup
	for _, do := range []string{"status", "save", "swap", "erase", "faults"} {
		all.Go(func() {
			for range 5 {
				faults := chipkeeper.Faults{Stuck: map[int]bool{3: true}}
				if a := k.execute(chipkeeper.Request{Do: do, Faults: &faults}); a.Error != "" {
					t.Errorf("%s: %s", do, a.Error)
				}
				k.saveNow()
			}
		})
	}
	all.Wait()
	wantEqual(t, k.currentState().Chip, 5)
}

// Flash that could not be saved is saved later.
func TestSaveAfterFullDisk(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	must(t, k.save())
	good := k.dir
	k.dir = filepath.Join(good, "not there")
	want := append(bytes.Repeat([]byte{0x5A}, nrfPage), bytes.Repeat([]byte{0xFF}, nrfBytes-nrfPage)...)
	must(t, k.chip.Load(want))
	wantError(t, k.save(), "")
	k.dir = good
	must(t, k.save())
	wantResult(t, want, "the flash was forgotten")(os.ReadFile(filepath.Join(good, chipkeeper.FlashFile)))
	must(t, last(os.Stat(filepath.Join(good, chipkeeper.StateFile))))
}

// TestSerialOf: the probe of a chip has its folder's name, also if another one is stored.
func TestSerialOf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "microbit")
	testkit.WriteFile(t, filepath.Join(dir, chipkeeper.StateFile), `{"serial": "OTHER-MICROBIT"}`)
	wantEqual(t, chipkeeper.SerialOf(dir), "EMULATED-MICROBIT")
}
