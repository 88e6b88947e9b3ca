// This file lets people at a device: gdb through its probe, and the commands that flashing would run.

package device

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
)

// Debug runs the probe's gdb server while use runs, which is given the server's address; the core is halted behind its
// reset. Afterwards the board is reset and runs. Errors: *LeaseError where the board was plugged in elsewhere,
// and another process leases it there; those of flasher.
func (d *Device) Debug(ctx context.Context, use func(ctx context.Context, address string) error) error {
	if d.attachment != nil {
		if err := d.attachment.again(ctx, d.board); err != nil && !notAttached(err) {
			return err
		}
	}
	server, err := d.debugServer()
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	err = server.Serve(ctx, port, func(ctx context.Context) error { return use(ctx, fmt.Sprintf("127.0.0.1:%d", port)) })
	if ctx.Err() != nil {
		return errors.Join(err, failure.Stopped(ctx, "debug"))
	}
	return errors.Join(err, d.attachment.programmer.Do(ctx, flasher.Job{Restart: true}))
}

func (d *Device) debugServer() (flasher.DebugServer, error) {
	if d.attachment == nil {
		return nil, failure.New(failure.Config, "choose a board with a probe, as in BOARD=microbit, and a another PROGRAMMER than none", "board %s has no debug probe", d.board.Name)
	}
	server, ok := d.attachment.programmer.(flasher.DebugServer)
	if !ok {
		return nil, failure.New(failure.Config, "use PROGRAMMER=openocd or PROGRAMMER=pyocd", "%s serves no gdb", d.attachment.tool)
	}
	return server, nil
}

// freePort is a TCP port that nobody listened on just now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("gdb server: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// A Plan is the command lines that flashing and debugging would run, with nothing done.
type Plan struct {
	Flash []string // that write the whole image; less is written where the board is found to hold some of it
	Files []string // that these read, with their addresses
	Debug string   // the gdb server
}

// planPort stands for a port that is only chosen when a server is started.
const planPort = 3333

// Plan says what Flash and Debug would run for an image. It changes nothing, starts no emulated chip, and takes no lease.
func (k *Desk) Plan(ctx context.Context, b *boards.Board, which string, i *image.Image) (Plan, error) {
	if ctx.Err() != nil {
		return Plan{}, failure.Stopped(ctx, "plan")
	}
	runner := k.programmerOf(b)
	if runner == "none" {
		return Plan{}, nil
	}
	i, err := k.images().Whole(i)
	if err != nil {
		return Plan{}, err
	}
	img, err := flashImageOf(b, i)
	if err != nil {
		return Plan{}, err
	}
	probe, err := k.plannedProbe(ctx, b, which)
	if err != nil {
		return Plan{}, err
	}
	programmer, err := flasher.New(runner, flasher.Config{Flash: b.Flash, Chip: b.Identification, AnyChip: k.Reflash, Probe: probe, Build: i.BuildDir, Find: k.tool, Log: k.log()})
	if err != nil {
		return Plan{}, err
	}
	job := img.job(img.sectors)
	p := Plan{Flash: programmer.Commands(job), Files: programmer.Files(job)}
	if server, ok := programmer.(flasher.DebugServer); ok {
		p.Debug = server.ServeCommand(planPort)
	}
	return p, nil
}

// plannedProbe is the probe that would be used; one of an emulated chip that is not running has its ports left open.
func (k *Desk) plannedProbe(ctx context.Context, b *boards.Board, which string) (flasher.Probe, error) {
	if !b.Flash.Emulated {
		n := &attachment{}
		var none *NoDeviceError
		if err := n.find(b, which, k.File); err != nil && !errors.As(err, &none) {
			return flasher.Probe{}, err
		}
		return n.probe, nil // none: the tool would take what it finds
	}
	dir, err := k.stateDir()
	if err != nil {
		return flasher.Probe{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	v := &flasher.Emulated{Bitbang: "127.0.0.1:PORT", Remote: "127.0.0.1:PORT"}
	if a, err := virtualprobe.Ask(ctx, EmulatedDir(dir, b.Name), virtualprobe.Request{Do: "status"}); err == nil {
		v.Bitbang, v.Remote = a.Address.Bitbang, a.Address.Remote
	}
	return flasher.Probe{Emulated: v}, nil
}
