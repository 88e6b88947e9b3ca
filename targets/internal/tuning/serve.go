// This file offers boards to TVM's tuners on the network.

package tuning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/serve"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/tune"
)

// ServeInputs are the variables of serve.
type ServeInputs struct {
	inputs.OnBoard
	inputs.OfFirmware
	inputs.OfCall
	inputs.Dry
	Output  string `var:"OUTPUT"`
	Tracker string `var:"TRACKER"`
	Key     string `var:"KEY"`
	Listen  string `var:"LISTEN" default:"127.0.0.1:0"`
	Allow   string `var:"ALLOW"`
}

// Serve offers each board of BOARD as a TVM RPC server, and at TRACKER, until ctx ends.
func (t *Job) Serve(ctx context.Context, v ServeInputs) (err error) {
	all, err := t.servedBoards(v)
	if err != nil {
		return err
	}

	if t.DryRun {
		return t.Would("serve %s at %s", t.In.Board, all[0].listen)
	}

	t.bar = t.Start("serve: building firmware", 0)
	defer func() {
		for _, b := range all {
			err = errors.Join(err, b.close())
		}
	}()

	// All boards listen before the first is announced, so that an error ends the command without clients.
	for _, b := range all {
		if err := b.open(ctx, t); err != nil {
			return err
		}
	}

	for _, b := range all {
		address := b.listener.Addr().String()
		t.Notef("%s: %s, key %q", b.word, address, b.options.Key)
		t.JSONLine(jsonlines.Serve{Status: jsonlines.StatusRunning, Board: b.word, Address: address, Key: b.options.Key})
	}

	t.warnOpen(all)
	t.bar.ShowLines(func() []string { return servedLines(all) })
	if err := serveAll(ctx, all); ctx.Err() == nil {
		return err
	}
	return nil // the user has ended it, which is the usual end
}

// warnOpen prints who can run code on the boards, and on this computer.
func (t *Job) warnOpen(all []*served) {
	who := "every program of this computer"
	if a, ok := all[0].listener.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		who = "everyone who reaches these ports"
		if all[0].options.Allow != nil {
			who = "every program of the networks in ALLOW"
		}
	}

	t.Notef("serve: TVM's protocol has neither passwords nor encryption: %s can run code on the boards. Ctrl-C ends it",
		who)

	for _, b := range all {
		if b.isProcess {
			t.Notef("%s: clients' code runs as a program of this computer, with all rights of this account", b.word)
		}
	}
}

// isProcess reports whether a board is a process of this computer. As root it needs FORCE.
func (t *Job) isProcess(word string, root bool) (bool, error) {
	name, _, _ := strings.Cut(word, "=")
	b, err := boards.Find(name, t.In.Path)
	if err != nil {
		return false, err
	}

	if b.Link.IsProcess() && root && !t.In.Force {
		return true, failure.New(failure.Config, "serve it as another account; "+nextstep.Option("Desk.Reflash", "true")+
			" serves it as root", "board %s: clients would run code as root", word)
	}
	return b.Link.IsProcess(), nil
}

// serveAll serves the boards until ctx ends or one of them fails.
func serveAll(ctx context.Context, all []*served) error {
	// The end of one board ends the others, so that the command does not go on with a part of them.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(all))

	var group sync.WaitGroup
	for i, b := range all {
		group.Go(func() {
			defer cancel()
			errs[i] = serve.Serve(ctx, b.listener, b.board, b.options)
		})
	}

	group.Wait()
	return errors.Join(errs...)
}

// A served is one board of the target.
type served struct {
	word     string // as in BOARD
	dir      string // of its firmware
	listen   string
	options  serve.Options
	board    serve.Place
	listener net.Listener

	isProcess bool // of this computer

	mu       sync.Mutex
	state    string
	client   string
	failed   int         // requests
	measured []time.Time // in the last minute
	total    int
}

// servedBoards reads the boards and their addresses from the environment.
func (t *Job) servedBoards(v ServeInputs) (all []*served, err error) {
	words := strings.Split(t.In.Board, ",")
	keys := make([]string, len(words))
	if v.Key != "" {
		keys = strings.Split(v.Key, ",")
	}

	if len(keys) != len(words) {
		return nil, failure.New(failure.Config, "separate the keys by commas, in the order of BOARD",
			"KEY has %d keys for %d boards", len(keys), len(words))
	}

	host, port, err := listenAddress(v.Listen)
	if err != nil {
		return nil, err
	}

	allow, err := networks(v.Allow)
	if err != nil {
		return nil, err
	}
	if err := t.checkTracker(v.Tracker, host); err != nil {
		return nil, err
	}

	offered := map[string]int{} // boards of each name
	for i, word := range words {
		name := boardfile.FileName(word)
		if offered[name]++; offered[name] > 1 { // a process or an emulated board may be named several times
			name += fmt.Sprintf(",%d", offered[name])
		}
		if v.Tracker != "" {
			keys[i] = cmp.Or(keys[i], keyOf(word))
		}

		folder := cmp.Or(t.In.Output, filepath.Join("build", "serve"))
		b := &served{word: word, dir: filepath.Join(folder, name), state: "idle"}
		if b.isProcess, err = t.isProcess(word, os.Geteuid() == 0); err != nil {
			return nil, err
		}
		b.listen = net.JoinHostPort(host, strconv.Itoa(port))
		// Several boards listen on neighbouring ports; with port 0 each gets a free one.
		if port > 0 {
			port++
		}

		b.options = serve.Options{
			Key: keys[i], Tracker: v.Tracker, Allow: allow, SessionTimeout: v.Timeout, // boardsmith.json has that of a call
			OnEvent: func(e serve.Event) {
				switch {
				case e.Err != nil:
					t.Notef("%s: %s: %v", b.word, cmp.Or(e.Client, e.Text), e.Err)
				case strings.HasPrefix(e.Text, "joined "):
					t.Notef("%s: %s", b.word, e.Text)
				}
				b.add(e)
			},
		}

		if err := b.options.Check(); err != nil {
			return nil, fmt.Errorf("board %s: %w", word, err)
		}

		all = append(all, b)
	}
	return all, nil
}

// checkTracker returns an error if the tracker's address is none. It notes that clients of another computer's tracker
// do not reach boards that are offered at host, an address of this computer alone.
func (t *Job) checkTracker(tracker, host string) error {
	if tracker == "" {
		return nil
	}

	at, err := trackerHost(tracker)
	if err != nil {
		return err
	}

	if isLoopback(host) && !isLoopback(at) {
		t.Notef("the tracker sends clients to this computer, where boards listen on %s only: set LISTEN to an address that "+
			"clients reach", host)
	}
	return nil
}

// trackerHost returns the host of a tracker's address.
func trackerHost(tracker string) (string, error) {
	at, port, err := net.SplitHostPort(tracker)
	number, numberErr := strconv.ParseUint(port, 10, 16)
	if err := cmp.Or(err, numberErr); err != nil || number == 0 || at == "" {
		return "", failure.New(failure.Config, "name the tracker's host and port, as in TRACKER=127.0.0.1:9190",
			"TRACKER=%s is no address", tracker)
	}
	return at, nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)

	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// listenNetwork returns the network of an address to listen on: 0.0.0.0 stands for all addresses of IPv4 alone.
func listenNetwork(address string) string {
	if a, err := netip.ParseAddrPort(address); err == nil && a.Addr().Is4() {
		return "tcp4"
	}
	return "tcp"
}

// listenAddress splits HOST:PORT; a port of several boards is that of the first.
func listenAddress(text string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(text)

	if err == nil {
		port, err = strconv.Atoi(number)
	}

	if err != nil || port < 0 || port > 65535 {
		return "", 0, failure.New(failure.Config, "name an address of this computer and a port, as in LISTEN=127.0.0.1:9090",
			"LISTEN=%s is no address", text)
	}
	return host, port, nil
}

// networks reads networks and addresses, separated by commas; nil: all.
func networks(text string) (all []netip.Prefix, err error) {
	if text == "" {
		return nil, nil
	}
	for _, word := range strings.Split(text, ",") {
		word = strings.TrimSpace(word)

		p, err := netip.ParsePrefix(word)
		// An address is a network of one.
		if a, addressErr := netip.ParseAddr(word); addressErr == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}

		if err != nil {
			return nil, failure.New(failure.Config, "write networks as numbers, separated by commas, as in "+
				"ALLOW=127.0.0.1,192.168.1.0/24", "ALLOW=%s: %q is neither an address nor a network", text, word)
		}

		all = append(all, p)
	}
	return all, nil
}

// open begins to listen and builds the board's firmware.
func (b *served) open(ctx context.Context, t *Job) (err error) {
	// Before the build, which takes long: a port in use is an error at once.
	if b.listener, err = new(net.ListenConfig).Listen(ctx, listenNetwork(b.listen), b.listen); err != nil {
		return failure.New(failure.Config, "choose another address with LISTEN", "board %s: %w", b.word, err)
	}

	b.board, err = tune.OpenBoard(ctx, b.dir, t.Desk, b.word, tune.Options{
		Builder: t.Builder, Template: t.In.Template, Memory: t.memory(), Libraries: t.In.Libraries,
		OnEvent: func(e tune.Event) {
			if e.Err != nil {
				t.Notef("%s: %s: %v", b.word, e.Text, e.Err)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("board %s: %w", b.word, err)
	}
	return nil
}

func (b *served) close() (err error) {
	if b.listener != nil {
		_ = b.listener.Close() // Serve has closed it
	}

	if b.board != nil {
		err = b.board.Close()
	}
	return err
}

// add adds an event. Many goroutines may call it.
func (b *served) add(e serve.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// An error of a client's request leaves the board's state as it is.
	if e.Err != nil && e.Client != "" {
		b.failed++
		return
	}

	switch e.Text {
	case "idle", "session", "loading", "measuring":
		b.state, b.client = e.Text, e.Client
	}

	if e.Text == "measuring" {
		b.total++
		b.measured = append(b.recent(), time.Now())
	}
}

// recent returns the times of the measurements in the last minute. The caller holds b.mu.
func (b *served) recent() []time.Time {
	for len(b.measured) > 0 && time.Since(b.measured[0]) > time.Minute {
		b.measured = b.measured[1:]
	}
	return b.measured
}

// servedLines returns a line for all boards, and one for each if there are several.
func servedLines(all []*served) []string {
	var lines []string
	for _, b := range all {
		lines = append(lines, "serve: "+b.line())
	}

	if len(all) == 1 {
		return lines
	}
	return append([]string{strings.Join(lines, "; ")}, lines...)
}

func (b *served) line() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.state
	if b.client != "" {
		state += " for " + b.client
	}

	text := fmt.Sprintf("%s %s, %d measured, %d a minute", b.word, state, b.total, len(b.recent()))
	if b.failed > 0 {
		text += fmt.Sprintf(", %d requests failed", b.failed)
	}
	return text
}
