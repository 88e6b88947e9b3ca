// This file is the keeper's process. It owns the emulator, the probe's front ends and the serial line, and ends some
// time after its last client has disconnected.

package virtualprobe

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/term"

	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
)

const (
	saveEvery = 500 * time.Millisecond
	awaitStep = 15 * time.Millisecond
)

// models are the supported chips.
var models = map[string]Model{chipkeeper.NRF51: NRF51, chipkeeper.STM32F412: STM32F412}

// Keep is the keeper's main function: it keeps the chip that its arguments name until there has been no client for some
// time.
func Keep(args []string) error {
	flags := flag.NewFlagSet(chipkeeper.Program, flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "%s keeps one emulated chip. Package emulated starts it; nobody types its arguments.\n",
			chipkeeper.Program)
	}

	protocol := flags.Int("protocol", 0, "")
	stays := flags.Duration("stays", chipkeeper.Stays, "")
	if err := flags.Parse(args); err != nil {
		return err
	}

	if *protocol != chipkeeper.Protocol || flags.NArg() != 1 {
		return fmt.Errorf("this keeper speaks protocol %d, and was started for %d with %d folders: install the one of "+
			"this boardsmith",
			chipkeeper.Protocol, *protocol, flags.NArg())
	}
	return keep(flags.Arg(0), *stays)
}

// A keeper is the process's state.
type keeper struct {
	dir     string
	chip    *Chip
	log     hclog.Logger
	address chipkeeper.Address
	clients atomic.Int64
	since   atomic.Int64 // when the last client left, Unix nanoseconds
	done    chan struct{}
	once    sync.Once

	mu    sync.Mutex // protects the following fields; locked before the chip's lock
	state chipkeeper.State
	saved []byte // the state on disk
	owes  bool   // the flash on disk differs from the chip's
}

func keep(dir string, stays time.Duration) error {
	lock, err := filelock.Open(filepath.Join(dir, "lock"))
	if err != nil || lock == nil {
		return err // another keeper runs
	}
	defer lock.Close()
	if err := os.Truncate(filepath.Join(dir, chipkeeper.LogFile), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // the log of earlier keepers
	}

	k := &keeper{dir: dir, log: hclog.New(&hclog.LoggerOptions{Output: os.Stderr}), done: make(chan struct{})}
	b, err := os.ReadFile(filepath.Join(dir, chipkeeper.StateFile))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &k.state); err != nil {
		return fmt.Errorf("%s: %w", chipkeeper.StateFile, err)
	}
	k.state.Serial = chipkeeper.SerialOf(dir)

	if err := k.powerUp(); err != nil {
		return err
	}
	defer func() { _ = k.chip.Close() }()

	closers, err := k.open()
	// Also after an error, before which some may have been opened.
	for _, c := range closers {
		defer c.Close()
	}
	if err != nil {
		return err
	}

	defer os.Remove(filepath.Join(dir, chipkeeper.AddressFile))

	// The wait for the first client begins.
	k.left()
	k.wait(stays)
	return k.save()
}

// powerUp starts the chip with its saved flash.
func (k *keeper) powerUp() error {
	model, ok := models[k.state.Model]
	if !ok {
		return fmt.Errorf("there is no emulated chip %q", k.state.Model)
	}

	flash, err := os.ReadFile(filepath.Join(k.dir, chipkeeper.FlashFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	wear := &Wear{
		Erases: slices.Clone(k.state.Erases), Stuck: maps.Clone(k.state.Stuck), Weak: maps.Clone(k.state.Weak),
		Unstable: maps.Clone(k.state.Unstable),
	}
	k.chip, err = New(context.Background(), model, Options{Flash: flash, Wear: wear, Chip: k.state.Chip, Log: k.log})
	return err
}

// open creates the front ends and serves them.
func (k *keeper) open() (closers []io.Closer, err error) {
	control, err := k.listenControl()
	if err != nil {
		return closers, err
	}
	closers = append(closers, control)

	for _, f := range []struct {
		address *string
		serve   func(io.ReadWriter) error
	}{{&k.address.Bitbang, k.chip.serveBitbang}, {&k.address.Remote, k.chip.serveRemote}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return closers, err
		}
		closers = append(closers, l)
		*f.address = l.Addr().String()
		go k.accept(l, f.serve)
	}

	host, terminal, err := pty.Open()
	if err != nil {
		return closers, err
	}
	closers = append(closers, host)
	_, err = term.MakeRaw(int(terminal.Fd()))
	k.address.UART = terminal.Name()
	terminal.Close() // reading our side of a terminal then fails while no program has the other side open
	if err != nil {
		return closers, err
	}

	go k.serveUART(host)
	k.address.PID = os.Getpid()
	if err := chipkeeper.WriteJSON(filepath.Join(k.dir, chipkeeper.AddressFile), k.address); err != nil {
		return closers, err
	}

	// Answers have the addresses, which are complete only now.
	go k.control(control)
	return closers, nil
}

func (k *keeper) listenControl() (net.Listener, error) {
	if err := os.Chdir(k.dir); err != nil { // the address of a socket has about 100 characters at most
		return nil, err
	}
	if err := os.Remove(chipkeeper.ControlSocket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // left by a killed keeper: this process holds the lock
	}
	return net.Listen("unix", chipkeeper.ControlSocket)
}

func (k *keeper) accept(l net.Listener, serve func(io.ReadWriter) error) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			k.clients.Add(1)
			defer k.leave()
			defer conn.Close()
			if err := serve(conn); err != nil {
				k.log.Debug("client", "ended", err)
			}
			k.saveNow()
		}()
	}
}

func (k *keeper) left() { k.since.Store(time.Now().UnixNano()) }

// leave is called when a client has gone. Its time is noted before it counts as gone: else wait may see neither.
func (k *keeper) leave() {
	k.left()
	k.clients.Add(-1)
}

// awaitClient waits until a program has the terminal's other side open.
func (k *keeper) awaitClient(f *os.File) bool {
	for {
		open, err := terminalOpen(f)
		if err != nil || open {
			return open
		}

		select {
		case <-k.done:
			return false
		case <-time.After(awaitStep):
		}
	}
}

// wait returns when the keeper must end: on a request, on a signal, or after the given time without a client.
func (k *keeper) wait(stays time.Duration) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	pace := time.NewTicker(paceStep)
	defer pace.Stop()

	for {
		select {
		case <-k.done:
			return
		case <-signals:
			return
		case <-pace.C:
			if err := k.chip.pace(); err != nil {
				k.log.Warn("pace", "error", err)
			}
		case <-tick.C:
			if k.clients.Load() == 0 && time.Since(time.Unix(0, k.since.Load())) > stays {
				return
			}

			if err := k.chip.Alive(); err != nil {
				k.log.Error("the emulator has ended", "error", err)
				return
			}
			k.saveNow()
		}
	}
}
