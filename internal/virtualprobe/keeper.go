// This file keeps an emulated chip between commands, as a board on a desk keeps its flash. One process per chip owns
// the emulator, the probe's front ends and the serial line. It ends some time after its last client has disconnected.

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
	"github.com/hashicorp/go-hclog"
	"github.com/moby/sys/atomicwriter"
	"golang.org/x/term"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
)

// Program is the name of the keeper's executable, cmd/boardsmith-keeper.
const Program = "boardsmith-keeper"

// programEnv names the variable with the path of the keeper's executable, if that is neither beside this one nor on
// PATH.
const programEnv = "BOARDSMITH_KEEPER"

// keeperProtocol is the version of the keeper's arguments, requests and answers, which this package and the executable
// must have in common.
const keeperProtocol = 1

const (
	stateName    = "chip.json"
	flashName    = "flash.bin"
	addressName  = "address.json" // exists while the keeper runs
	controlName  = "control"
	logName      = "keeper.log"
	saveEvery    = 500 * time.Millisecond
	firstAnswers = 90 * time.Second // limit for a keeper's start; one that fails reports it before
	asksEvery    = 10 * time.Millisecond
	awaitStep    = 15 * time.Millisecond
)

// lingers is the time for which a keeper runs after its last client.
const lingers = 60 * time.Second

// Models are the supported chips, by pyOCD's names.
var Models = map[string]Model{NRF51.Name: NRF51, STM32F412.Name: STM32F412}

// A State is the part of a chip that outlasts a loss of power, except its flash.
type State struct {
	Model  string          `json:"model"`  // of the chip
	Serial string          `json:"serial"` // of the probe
	Chip   int             `json:"chip"`   // number of the chip on the board; swap increments it
	Erases []int           `json:"erases"` // by sector
	Stuck  map[int]bool    `json:"stuck,omitempty"`
	Weak   map[uint32]byte `json:"weak,omitempty"`

	Unstable map[uint32]byte `json:"unstable,omitempty"` // by offset in flash: bits that read randomly
}

// An Address has the addresses of a running keeper.
type Address struct {
	PID     int    `json:"pid"`
	Bitbang string `json:"bitbang"` // host:port of remote_bitbang
	Remote  string `json:"remote"`  // host:port of the remote probe protocol
	UART    string `json:"uart"`    // a terminal
}

// A Request is a line to the keeper's control socket.
type Request struct {
	Do     string  `json:"do"` // status, hold, erase, swap, down, save, faults
	Faults *Faults `json:"faults,omitempty"`
}

// Faults are the faults to inject, for tests. The zero value is a probe without faults.
type Faults struct {
	UnplugAfter int `json:"unplug_after,omitempty"` // transfers until the probe is unplugged, once; 0: never
	// transfers until the probe stops answering, until the next faults request
	HangAfter int             `json:"hang_after,omitempty"`
	Stuck     map[int]bool    `json:"stuck,omitempty"` // sectors that no longer erase
	Weak      map[uint32]byte `json:"weak,omitempty"`  // by offset in flash: bits that stay 1
	Cut       *Cut            `json:"cut,omitempty"`   // power loss of board and probe, once
	// by offset in flash: bits that become 0 by themselves, once
	Fall      map[uint32]byte `json:"fall,omitempty"`
	FallAfter int             `json:"fall_after,omitempty"` // transfers until then; 0: at once
	// number of accesses between those that are answered with WAIT three times; 0: none is
	Waits int `json:"waits,omitempty"`
}

// An Answer is the keeper's answer, one line.
type Answer struct {
	Error   string  `json:"error,omitempty"`
	State   State   `json:"state"`
	Address Address `json:"address"`
	Busy    bool    `json:"busy"`    // a client has the probe
	Clients int64   `json:"clients"` // of the probe and the UART, and those that hold the chip
	// transfers of the debug port since the keeper started or since the last faults request
	Transfers int64 `json:"transfers"`
}

// Keep is the keeper's main function: it keeps the chip that its arguments name until there has been no client for some
// time.
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
	return keep(flags.Arg(0), *stays)
}

// WhereToInstall begins the advice to install one of the programs of the boardsmith that a module requires: elsewhere,
// Go does not find it.
const WhereToInstall = "in the folder of the go.mod that requires boardsmith: "

// install is the advice to install the keeper. The module's vendor folder, if there is one, lacks the keeper.
const install = WhereToInstall + "go install -mod=readonly github.com/boardsmith/boardsmith/cmd/" + Program

// Find returns the path of the keeper's executable: the value of $BOARDSMITH_KEEPER, else the one beside this
// executable, else the one on PATH, else last, if that is an executable. Otherwise: *failure.MissingToolError.
func Find(last string) (string, error) {
	if named := os.Getenv(programEnv); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s: %w", programEnv, err)
		}
		return abspath.Of(path), nil
	}

	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), Program)); err == nil {
			return path, nil
		}
	}

	for _, name := range []string{Program, last} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", &failure.MissingToolError{Tool: Program, Install: install}
}

// Up starts the keeper of the emulated chip in dir unless it runs, and returns its address. Each chip has a folder of
// its own, which Up creates if necessary. find returns the path of the keeper's executable; it is called only if no
// keeper runs, and its error is returned unchanged.
func Up(ctx context.Context, find func() (string, error), dir, model string) (Answer, error) {
	return upFor(ctx, find, dir, model, lingers)
}

// upFor is Up; a keeper that it starts runs for the given time after its last client.
func upFor(ctx context.Context, find func() (string, error), dir, model string, stays time.Duration) (Answer, error) {
	dir = abspath.Of(dir)
	if _, ok := Models[model]; !ok {
		return Answer{}, fmt.Errorf("there is no emulated chip %q", model)
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Answer{}, err
	}
	if err := firstState(dir, model); err != nil {
		return Answer{}, err
	}

	// Only the end of the caller's context is Stopped: the limit here is a failure.
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, firstAnswers)
	defer cancel()
	var ended <-chan error // receives the end of the keeper started here; nil: none was started
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
			if ended, err = startKeeper(abspath.Of(program), dir, stays); err != nil {
				return Answer{}, err
			}
		}

		select {
		case err := <-ended:
			if err != nil {
				return Answer{}, fmt.Errorf("the emulated chip does not start: %w%s", err, lastWords(dir))
			}
			ended = nil // another process started a keeper, which is starting or ending
		case <-ctx.Done():
			if caller.Err() != nil {
				return Answer{}, failure.Stopped(caller, "start of the emulated chip")
			}
			return Answer{}, fmt.Errorf("the emulated chip does not start: no answer in %v%s", firstAnswers, lastWords(dir))
		case <-time.After(asksEvery):
			continue
		}

		// The other keeper gets time before it is asked.
		select {
		case <-ctx.Done():
		case <-time.After(asksEvery):
		}
	}
}

// lastWords returns the end of the keeper's log.
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
	return writeJSON(name, State{Model: model})
}

// startKeeper starts the keeper's executable in a session of its own. The channel receives its result: nil if another
// keeper was already running.
func startKeeper(program, dir string, stays time.Duration) (<-chan error, error) {
	// the keeper empties its log once it owns the chip
	log, err := os.OpenFile(filepath.Join(dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()

	cmd := exec.Command(program, "-protocol", strconv.Itoa(keeperProtocol), "-stays", stays.String(), dir)
	cmd.Dir = dir
	if temp := os.Getenv("TMPDIR"); temp != "" {
		cmd.Env = append(os.Environ(), "TMPDIR="+abspath.Of(temp)) // the keeper runs in another folder
	}
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
	return askFor(ctx, dir, q, firstAnswers)
}

// askFor is Ask, for a keeper that answers within a time.
func askFor(ctx context.Context, dir string, q Request, within time.Duration) (Answer, error) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()

	a, conn, err := dialAndAsk(limited, dir, q)
	if conn != nil {
		conn.Close()
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return a, fmt.Errorf("the keeper of the emulated chip did not answer %s in %v: %w", q.Do, within, err)
	}
	if err != nil && ctx.Err() != nil {
		err = failure.Stopped(ctx, "%s of the emulated chip", q.Do)
	}
	return a, err
}

// Hold keeps the keeper of the chip in dir from ending for lack of clients, until the connection is closed.
func Hold(ctx context.Context, dir string) (io.Closer, error) {
	limited, cancel := context.WithTimeout(ctx, firstAnswers)
	defer cancel()
	_, conn, err := dialAndAsk(limited, dir, Request{Do: "hold"})
	if err != nil && conn != nil {
		conn.Close()
	}
	if err != nil && ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "hold of the emulated chip")
	}
	return conn, err
}

// dialAndAsk sends a request on a new connection, which the caller closes if it is not nil.
func dialAndAsk(ctx context.Context, dir string, q Request) (a Answer, conn net.Conn, err error) {
	var d net.Dialer
	if conn, err = dialShort(ctx, &d, filepath.Join(dir, controlName)); err != nil {
		return Answer{}, nil, err
	}

	// Encoder and decoder do not end with ctx: closing the connection ends them.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return Answer{}, conn, err
	}
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return Answer{}, conn, err
	}

	if a.Error != "" {
		return a, conn, errors.New(a.Error)
	}
	return a, conn, nil
}

// Down ends the keeper of the chip in dir, if one runs, and waits until it has saved its state.
func Down(ctx context.Context, dir string) error {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, firstAnswers)
	defer cancel()

	if _, err := Ask(ctx, dir, Request{Do: "down"}); err != nil {
		return err
	}
	for {
		// The keeper removes this file after it has saved.
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

// dialShort connects to a socket through the folder's descriptor, because its path may be longer than a socket's
// address allows.
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

	mu    sync.Mutex // protects the following fields; locked before the chip's lock
	state State
	saved []byte // the state on disk
	owes  bool   // the flash on disk differs from the chip's
}

func keep(dir string, stays time.Duration) error {
	lock, err := filelock.Open(filepath.Join(dir, "lock"))
	if err != nil || lock == nil {
		return err // another keeper runs
	}
	defer lock.Close()
	if err := os.Truncate(filepath.Join(dir, logName), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // the log of earlier keepers
	}

	k := &keeper{dir: dir, log: hclog.New(&hclog.LoggerOptions{Output: os.Stderr}), done: make(chan struct{})}
	b, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &k.state); err != nil {
		return fmt.Errorf("%s: %w", stateName, err)
	}
	k.state.Serial = SerialOf(dir)

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

	defer os.Remove(filepath.Join(dir, addressName))

	// The wait for the first client begins.
	k.left()
	k.wait(stays)
	return k.save()
}

// powerUp starts the chip with its saved flash.
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
	if err := writeJSON(filepath.Join(k.dir, addressName), k.address); err != nil {
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
	if err := os.Remove(controlName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // left by a killed keeper: this process holds the lock
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
