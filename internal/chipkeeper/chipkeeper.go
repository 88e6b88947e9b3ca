// Package chipkeeper starts and asks the keepers of emulated chips. A keeper is a process that keeps one chip between
// commands, as a board on a desk keeps its flash: it owns the emulator, the probe's front ends and the serial line, and
// ends some time after its last client has disconnected.
//
// It has no emulated chips: the keeper's own side is below device/emulated.
package chipkeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
)

// Program is the name of the keeper's executable, cmd/boardsmith-keeper.
const Program = "boardsmith-keeper"

// programEnv names the variable with the path of the keeper's executable, if that is neither beside this one nor on
// PATH.
const programEnv = "BOARDSMITH_KEEPER"

// Protocol is the version of the keeper's arguments, requests and answers, which this package and the executable must
// have in common.
const Protocol = 1

// The files in a chip's folder.
const (
	StateFile     = "chip.json"
	FlashFile     = "flash.bin"
	AddressFile   = "address.json" // exists while the keeper runs
	ControlSocket = "control"
	LogFile       = "keeper.log"
)

// Stays is the time for which a keeper runs after its last client, unless a test needs another.
const Stays = 60 * time.Second

const (
	firstAnswers = 90 * time.Second // limit for a keeper's start; one that fails reports it before
	asksEvery    = 10 * time.Millisecond
)

// The names of the emulated chips, as in pyOCD.
const (
	NRF51     = "nrf51"
	STM32F412 = "stm32f412xe"
)

// Chips are the emulated chips.
var Chips = []string{NRF51, STM32F412}

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

// A Cut is a loss of power inside an erase or inside the programming of a word, once. It leaves the cells partly
// changed: some bits as before, some as intended, and some that read differently each time.
type Cut struct {
	Erase bool `json:"erase"` // in an erase, else in programming
	// number of the erase of a sector, or of the programmed word, from now: 1 is the next one
	After int    `json:"after"`
	Seed  uint64 `json:"seed,omitempty"` // seed of the resulting bits and of the progress
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
// keeper runs, and its error is returned unchanged. A keeper that Up starts runs for the given time after its last
// client: Stays.
func Up(ctx context.Context, find func() (string, error), dir, model string, stays time.Duration) (Answer, error) {
	dir = abspath.Of(dir)
	if !slices.Contains(Chips, model) {
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
	log, _ := os.ReadFile(filepath.Join(dir, LogFile))
	if len(log) == 0 {
		return ""
	}
	return "\n" + string(log[max(0, len(log)-1000):])
}

func firstState(dir, model string) error {
	name := filepath.Join(dir, StateFile)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return WriteJSON(name, State{Model: model})
}

// startKeeper starts the keeper's executable in a session of its own. The channel receives its result: nil if another
// keeper was already running.
func startKeeper(program, dir string, stays time.Duration) (<-chan error, error) {
	// the keeper empties its log once it owns the chip
	log, err := os.OpenFile(filepath.Join(dir, LogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()

	cmd := exec.Command(program, "-protocol", strconv.Itoa(Protocol), "-stays", stays.String(), dir)
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
	if conn, err = dialShort(ctx, &d, filepath.Join(dir, ControlSocket)); err != nil {
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
		if _, err := os.Stat(filepath.Join(dir, AddressFile)); errors.Is(err, fs.ErrNotExist) {
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

// SerialOf returns the serial number of the probe of the chip in dir, whether the chip runs or not.
func SerialOf(dir string) string { return "EMULATED-" + strings.ToUpper(filepath.Base(dir)) }

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

// WriteJSON writes a file of the chip's folder.
func WriteJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicwriter.WriteFile(name, append(b, '\n'), 0o644)
}
