package virtualprobe

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	RunKeeper()
	os.Exit(m.Run())
}

// A kept chip has its flash and its wear from command to command, and from keeper to keeper.
func TestKeeper(t *testing.T) {
	needs(t, NRF51.Program)
	dir := filepath.Join(t.TempDir(), "a folder whose name is much longer than the name of a socket can ever be, as people's folders are", "chip")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a, err := Up(ctx, dir, NRF51.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer Down(ctx, dir)
	name, want := image(t, 3000, 0)
	run(t, "openocd", "-s", jtagScripts(t), "-c", "adapter driver remote_bitbang; remote_bitbang host localhost; remote_bitbang port "+portOf(a.Address.Bitbang)+"; transport select jtag",
		"-c", "gdb_port disabled; tcl_port disabled; telnet_port disabled", "-f", "target/nrf51.cfg", "-c", "program "+name+" verify reset exit 0")
	again, err := Up(ctx, dir, NRF51.Name)
	if err != nil || again.Address != a.Address {
		t.Fatalf("a second keeper: %+v, %v", again, err)
	}
	if err := Down(ctx, dir); err != nil {
		t.Fatal(err)
	}
	flash, err := os.ReadFile(filepath.Join(dir, flashName))
	if err != nil || !bytes.Equal(flash[:len(want)], want) {
		t.Fatalf("the flash was not kept: %v", err)
	}
	third, err := Up(ctx, dir, NRF51.Name)
	if err != nil {
		t.Fatal(err)
	}
	if e := third.State.Erases; len(e) < 3 || e[0] != 1 || e[2] != 1 {
		t.Errorf("erases are %v, want one of each of three pages", e)
	}
	if third.Address.PID == a.Address.PID {
		t.Error("the keeper was told to end, and did not")
	}
	if _, err := Ask(ctx, dir, Request{Do: "dance"}); err == nil {
		t.Error("it dances")
	}
}
