// This file starts the server of a folder, and calls its methods, as TVM's Python does.

package projectapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/transport"
)

// A client drives the server of one folder, which runs its methods one after the other. Options are merged with the
// server's defaults, as TVM's client does.
type client struct {
	Info info // the server's answer at the start

	requests *os.File
	replies  *bufio.Reader
	stop     context.CancelFunc
	ended    chan struct{} // closed when the server's processes have ended

	turn   sync.Mutex
	lastID int
}

// started starts the server of a folder (docs/formats/project_api.md §1), and asks it what it is. env is added to a
// small environment. The server ends with the test.
func started(t *testing.T, dir string, env ...string) *client {
	t.Helper()
	path, script := dir+"/launch_microtvm_api_server.sh", dir+"/microtvm_api_server.py"
	if _, err := os.Stat(path); err != nil {
		path = os.Getenv(tvmVariable) // TVM's own server has no launcher
	}
	read, requests, err := os.Pipe()
	must(t, err)
	replies, write, err := os.Pipe()
	must(t, err)
	running, stop := context.WithCancel(context.Background())
	c := &client{requests: requests, replies: bufio.NewReader(replies), stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		_ = command.Command{
			Path: path, Args: []string{script, "--read-fd", "3", "--write-fd", "4"}, Dir: dir, Env: env,
			Files: []*os.File{read, write},
		}.Run(running) // a call fails if the server has ended
		_ = errors.Join(read.Close(), write.Close())
	}()
	t.Cleanup(func() { must(t, c.Close()) })
	must(t, c.call("server_info_query", map[string]any{"tvm_version": "0.14.0"}, &c.Info))
	return c
}

// Close ends the server: it sees the end of its requests, and is killed after some seconds.
func (c *client) Close() error {
	_ = c.requests.Close() // it may be closed
	select {
	case <-c.ended:
	case <-time.After(5 * time.Second):
	}
	c.stop()
	<-c.ended
	return nil
}

// call calls a method.
func (c *client) call(method string, params, result any) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.lastID++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params, "id": c.lastID})
	if err == nil {
		_, err = c.requests.Write(append(line, '\n'))
	}
	if err != nil {
		return err
	}
	answer, err := c.replies.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s: %w: %w", method, errClosed, err)
	}
	var r struct {
		Version    string `json:"jsonrpc"`
		ID, Result json.RawMessage
		Error      *serverError
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return err
	}
	switch {
	case r.Version != "2.0" || string(r.ID) != strconv.Itoa(c.lastID) || r.Error == nil && r.Result == nil:
		return fmt.Errorf("%s: malformed reply: %.200q", method, answer)
	case r.Error != nil:
		return r.Error
	case result == nil:
		return nil
	}
	return json.Unmarshal(r.Result, result)
}

// A serverError is one that a server reports.
type serverError struct {
	Message string
	Data    json.RawMessage // what the server adds: in general a traceback
}

func (e *serverError) Error() string {
	var data struct{ Traceback string }
	if json.Unmarshal(e.Data, &data) != nil {
		data.Traceback = string(e.Data)
	}
	return e.Message + "\n" + data.Traceback
}

// Is reports whether the message is one of a class, such as errTimeout.
func (e *serverError) Is(target error) bool { return e.Message == target.Error() }

// options adds the server's defaults to what the caller gives, and checks the names.
func (c *client) options(given map[string]any) (map[string]any, error) {
	all := map[string]any{}
	for _, o := range c.Info.Options {
		all[o.Name] = o.Default
	}
	for name, v := range given {
		if _, ok := all[name]; !ok {
			return nil, fmt.Errorf("the server has no option %s", name)
		}
		all[name] = v
	}
	return all, nil
}

// Generate makes a project in dir, which must not exist, from an uncompressed archive. runtime is the folder of TVM's
// own runtime; "" for servers that have one.
func (c *client) Generate(archive, runtime, dir string, options map[string]any) error {
	all, err := c.options(options)
	if err != nil {
		return err
	}
	return c.call("generate_project", map[string]any{
		"model_library_format_path": archive, "standalone_crt_dir": runtime, "project_dir": dir, "options": all,
	}, nil)
}

// do calls build or flash.
func (c *client) do(method string, options map[string]any) error {
	all, err := c.options(options)
	if err != nil {
		return err
	}
	return c.call(method, map[string]any{"options": all}, nil)
}

// Open opens the transport, which the caller closes. The timeouts are the server's advice.
func (c *client) Open() (transport.Link, timeouts, error) {
	all, err := c.options(nil)
	if err != nil {
		return nil, timeouts{}, err
	}
	var answer struct{ Timeouts timeouts }
	err = c.call("open_transport", map[string]any{"options": all}, &answer)
	return &link{client: c}, answer.Timeouts, err
}

// A link is the transport of a server.
type link struct {
	client  *client
	rest    []byte // what a read returned beyond what was asked for
	closing sync.Once
}

// Lossy returns false: what the server reads is complete, as far as it knows.
func (l *link) Lossy() bool { return false }

func (l *link) Close() (err error) {
	l.closing.Do(func() { err = l.client.call("close_transport", struct{}{}, nil) })
	return err
}

// Read asks the server again and again, a short time each: ctx ends it, and a write has its turn.
func (l *link) Read(ctx context.Context, p []byte) (int, error) {
	for len(l.rest) == 0 {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		var answer struct{ Data string }
		err := l.client.call("read_transport", map[string]any{"n": min(len(p), 4096), "timeout_sec": 0.02}, &answer)
		switch {
		case errors.Is(err, errTimeout):
			continue
		case errors.Is(err, errClosed):
			return 0, fmt.Errorf("%w: %w", transport.ErrClosed, err)
		case err != nil:
			return 0, err
		}
		if l.rest, err = decodeBase85(answer.Data); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *link) Write(_ context.Context, data []byte) error {
	params := map[string]any{"data": string(appendBase85(nil, data)), "timeout_sec": nil}
	return l.client.call("write_transport", params, nil)
}
