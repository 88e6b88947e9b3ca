// This file keeps an emulated chip between commands, as a board on the desk keeps its flash: one process for each,
// which owns the emulator, the probe's front ends and the serial line, and ends a while after its last client.

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
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/gofrs/flock"
	"github.com/hashicorp/go-hclog"
	"github.com/moby/sys/atomicwriter"
	"golang.org/x/term"

	"github.com/boardsmith/boardsmith/failure"
)

// Program is the name of the keeper's executable, cmd/boardsmith-keeper.
const Program = "boardsmith-keeper"

// programEnv names the keeper's executable where it is neither beside this one nor on PATH.
const programEnv = "BOARDSMITH_KEEPER"

// keeperProtocol is what this package and the keeper's executable agree on: its arguments, requests and answers.
const keeperProtocol = 1

const (
	stateName    = "chip.json"
	flashName    = "flash.bin"
	addressName  = "address.json" // there while the keeper runs
	controlName  = "control"
	logName      = "keeper.log"
	saveEvery    = 500 * time.Millisecond
	firstAnswers = 90 * time.Second // for a keeper to start; one that cannot says so at once
	asksEvery    = 10 * time.Millisecond
	awaitStep    = 15 * time.Millisecond
)

// lingers is how long a keeper stays after its last client. Tests shorten it.
var lingers = 60 * time.Second

// Models are the chips that can be kept, by the name that pyOCD has for them.
var Models = map[string]Model{NRF51.Name: NRF51, STM32F412.Name: STM32F412}

// A State is what a chip keeps without power, besides its flash.
type State struct {
	Model  string          `json:"model"`  // of the chip
	Serial string          `json:"serial"` // of the probe
	Chip   int             `json:"chip"`   // counts the chips that have been on the board: swap puts another one there
	Erases []int           `json:"erases"` // by sector
	Stuck  map[int]bool    `json:"stuck,omitempty"`
	Weak   map[uint32]byte `json:"weak,omitempty"`

	Unstable map[uint32]byte `json:"unstable,omitempty"` // by offset in flash: bits that read by chance
}

// An Address says where a running keeper is reached.
type Address struct {
	PID       int    `json:"pid"`
	Bitbang   string `json:"bitbang"`   // host:port of remote_bitbang
	Remote    string `json:"remote"`    // host:port of the remote probe protocol
	BusPirate string `json:"buspirate"` // a terminal
	UART      string `json:"uart"`      // a terminal
}

// A Request is a line to the keeper's control socket.
type Request struct {
	Do     string  `json:"do"` // status, erase, swap, down, save, faults
	Faults *Faults `json:"faults,omitempty"`
}

// Faults are what is to go wrong, for tests. The zero value is a good probe.
type Faults struct {
	UnplugAfter int `json:"unplug_after,omitempty"` // transfers until the probe vanishes, once; 0: never
	// transfers until the probe stops answering, until the next faults request
	HangAfter int             `json:"hang_after,omitempty"`
	Stuck     map[int]bool    `json:"stuck,omitempty"` // sectors that no longer erase
	Weak      map[uint32]byte `json:"weak,omitempty"`  // by offset in flash: bits that stay 1
	Cut       *Cut            `json:"cut,omitempty"`   // of the power of board and probe, once
	// by offset in flash: bits that become 0 by themselves, once
	Fall      map[uint32]byte `json:"fall,omitempty"`
	FallAfter int             `json:"fall_after,omitempty"` // transfers until then; 0: at once
	// each so many accesses WAIT is answered first, three times; 0: never
	Waits int `json:"waits,omitempty"`
}

// An Answer is the keeper's line.
type Answer struct {
	Error     string  `json:"error,omitempty"`
	State     State   `json:"state"`
	Address   Address `json:"address"`
	Busy      bool    `json:"busy"`      // a client has the probe
	Transfers int64   `json:"transfers"` // of the debug port since the keeper began, or since the last faults request
}

// Keep is the keeper's executable: it keeps the chip that its arguments name until it has had no client for a while.
func Keep(args []string) error {
	flags := flag.NewFlagSet(Program, flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "%s keeps one emulated chip. Package emulated starts it; nobody types its arguments.\n",
			Program)
	}
	protocol := flags.Int("protocol", 0, "")
	stays := flags.Duration("stays", lingers, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *protocol != keeperProtocol || flags.NArg() != 1 {
		return fmt.Errorf("this keeper speaks protocol %d, and was started for %d with %d folders: install the one of "+
			"this boardsmith",
			keeperProtocol, *protocol, flags.NArg())
	}
	lingers = *stays
	return keep(flags.Arg(0))
}

// Find returns the path of the keeper's executable: what $BOARDSMITH_KEEPER names, else the one beside this executable,
// else the one on PATH. Where there is none, errors.Is(err, exec.ErrNotFound).
func Find() (string, error) {
	if named := os.Getenv(programEnv); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s: %w", programEnv, err)
		}
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), Program)); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(Program)
}

// Up makes sure that the emulated chip in dir (a folder of its own; made if need be) has its keeper, and returns where.
// find returns the path of the keeper's executable, and is called only if no keeper runs; its error is returned as it
// is.
func Up(ctx context.Context, find func() (string, error), dir, model string) (Answer, error) {
	if _, ok := Models[model]; !ok {
		return Answer{}, fmt.Errorf("there is no emulated chip %q", model)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Answer{}, err
	}
	if err := firstState(dir, model); err != nil {
		return Answer{}, err
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, firstAnswers)
	defer cancel()
	var ended <-chan error // of the keeper that was started here; nil: none runs
	program := ""
	for {
		if a, err := Ask(ctx, dir, Request{Do: "status"}); err == nil {
			return a, nil
		}
		if ended == nil {
			var err error
			if program == "" {
				if program, err = find(); err != nil {
					return Answer{}, err
				}
			}
			if ended, err = startKeeper(program, dir); err != nil {
				return Answer{}, err
			}
		}
		select {
		case err := <-ended:
			if err != nil {
				return Answer{}, fmt.Errorf("the emulated chip does not start: %w%s", err, lastWords(dir))
			}
			ended = nil // another's keeper is there: it begins, or ends
		case <-ctx.Done():
			if caller.Err() != nil {
				return Answer{}, failure.Stopped(caller, "start of the emulated chip")
			}
			return Answer{}, fmt.Errorf("the emulated chip does not start: no answer in %v%s", firstAnswers, lastWords(dir))
		case <-time.After(asksEvery):
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(asksEvery):
		}
	}
}

// lastWords are the end of what keepers said.
func lastWords(dir string) string {
	log, _ := os.ReadFile(filepath.Join(dir, logName))
	if len(log) == 0 {
		return ""
	}
	return "\n" + string(log[max(0, len(log)-1000):])
}

func firstState(dir, model string) error {
	name := filepath.Join(dir, stateName)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeJSON(name, State{Model: model, Serial: newSerial(dir)})
}

// startKeeper starts the keeper's executable in a session of its own. The channel gets how it ended: nil if another
// keeper was there already.
func startKeeper(program, dir string) (<-chan error, error) {
	// it empties it when it has the chip
	log, err := os.OpenFile(filepath.Join(dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, "-protocol", strconv.Itoa(keeperProtocol), "-stays", lingers.String(), dir)
	cmd.Dir = dir
	cmd.Stderr = log
	ownSession(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}

// Ask sends one request to the keeper of the chip in dir, which must run: Up.
func Ask(ctx context.Context, dir string, q Request) (Answer, error) {
	a, err := ask(ctx, dir, q)
	if err != nil && ctx.Err() != nil {
		err = failure.Stopped(ctx, "%s of the emulated chip", q.Do)
	}
	return a, err
}

func ask(ctx context.Context, dir string, q Request) (Answer, error) {
	var d net.Dialer
	conn, err := dialShort(ctx, &d, filepath.Join(dir, controlName))
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	if t, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(t)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return Answer{}, err
	}
	var a Answer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return Answer{}, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// Down ends the keeper of the chip in dir, if there is one, and waits until it has saved what it kept.
func Down(ctx context.Context, dir string) error {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, firstAnswers)
	defer cancel()
	if _, err := Ask(ctx, dir, Request{Do: "down"}); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, addressName)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-ctx.Done():
			if caller.Err() != nil {
				return failure.Stopped(caller, "end of the emulated chip")
			}
			return fmt.Errorf("the keeper did not end in %v", firstAnswers)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// dialShort connects to a socket whose path may be longer than a socket's name can be, through the folder's descriptor.
func dialShort(ctx context.Context, d *net.Dialer, path string) (net.Conn, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

func writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicwriter.WriteFile(name, append(b, '\n'), 0o644)
}

// A keeper is the process's state.
type keeper struct {
	dir     string
	chip    *Chip
	log     hclog.Logger
	address Address
	clients atomic.Int64
	since   atomic.Int64 // when the last client left, Unix nanoseconds
	done    chan struct{}
	once    sync.Once

	mu    sync.Mutex // of what follows; taken before the chip's
	state State
	saved []byte // the state as it is on disk
	owes  bool   // the flash on disk is not the chip's
}

func keep(dir string) error {
	lock := flock.New(filepath.Join(dir, "lock"))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return err // another keeper is there
	}
	defer lock.Close()
	if err := os.Truncate(filepath.Join(dir, logName), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // what earlier keepers said
	}
	k := &keeper{dir: dir, log: hclog.New(&hclog.LoggerOptions{Output: os.Stderr}), done: make(chan struct{})}
	b, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &k.state); err != nil {
		return fmt.Errorf("%s: %w", stateName, err)
	}
	if err := k.powerUp(); err != nil {
		return err
	}
	defer func() { _ = k.chip.Close() }()
	closers, err := k.open()
	for _, c := range closers {
		defer c.Close()
	}
	if err != nil {
		return err
	}
	defer os.Remove(filepath.Join(dir, addressName))
	k.left()
	k.wait()
	return k.save()
}

// powerUp starts the chip with the flash that it has.
func (k *keeper) powerUp() error {
	model, ok := Models[k.state.Model]
	if !ok {
		return fmt.Errorf("there is no emulated chip %q", k.state.Model)
	}
	flash, err := os.ReadFile(filepath.Join(k.dir, flashName))
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

// open makes the front ends and serves them.
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
	for _, f := range []struct {
		path  *string
		serve func(*os.File)
	}{{&k.address.BusPirate, k.busPirate}, {&k.address.UART, k.serveUART}} {
		ours, theirs, err := pty.Open()
		if err != nil {
			return closers, err
		}
		closers = append(closers, ours)
		_, err = term.MakeRaw(int(theirs.Fd()))
		*f.path = theirs.Name()
		theirs.Close() // a terminal with no one on its other side reports that to ours
		if err != nil {
			return closers, err
		}
		go f.serve(ours)
	}
	k.address.PID = os.Getpid()
	if err := writeJSON(filepath.Join(k.dir, addressName), k.address); err != nil {
		return closers, err
	}
	go k.control(control)
	return closers, nil
}

func (k *keeper) listenControl() (net.Listener, error) {
	if err := os.Chdir(k.dir); err != nil { // a socket's name has about 100 characters at most
		return nil, err
	}
	if err := os.Remove(controlName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // of a keeper that was killed: the lock is ours
	}
	return net.Listen("unix", controlName)
}

func (k *keeper) accept(l net.Listener, serve func(io.ReadWriter) error) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			k.clients.Add(1)
			defer k.left()
			defer k.clients.Add(-1)
			defer conn.Close()
			if err := serve(conn); err != nil {
				k.log.Debug("client", "ended", err)
			}
			k.saveNow()
		}()
	}
}

func (k *keeper) left() { k.since.Store(time.Now().UnixNano()) }

// busPirate serves one program after the other.
func (k *keeper) busPirate(f *os.File) {
	for k.awaitClient(f) {
		k.clients.Add(1)
		if err := k.chip.serveBusPirate(f); errors.Is(err, errUnplugged) {
			k.log.Info("unplugged")
		}
		k.clients.Add(-1)
		k.left()
		k.saveNow()
	}
}

// awaitClient waits until somebody has the terminal's other side open.
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

// wait returns when the keeper is to end: told so, by a signal, or alone for a while.
func (k *keeper) wait() {
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
			if k.clients.Load() == 0 && time.Since(time.Unix(0, k.since.Load())) > lingers {
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
