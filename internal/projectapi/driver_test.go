// This file starts the server of a folder, and calls its methods, as TVM's Python does.

package projectapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/transport"
)

// ClientOptions say how a server is started. The zero value starts Python servers with python3.
type ClientOptions struct {
	Python string       // runs a microtvm_api_server.py; "": python3
	TVM    string       // the version of TVM that the server is told; "": 0.14.0
	Env    []string     // NAME=value, added to a small environment: a Python server needs PYTHONPATH
	Log    hclog.Logger // what the server prints; nil: no log
}

// A Client drives the server of one folder. Its methods may be called from any goroutine; the server runs them one
// after the other. Its options are merged with the server's defaults, as TVM's client does.
type Client struct {
	Info info // the server's answer at the start

	requests io.WriteCloser
	replies  *bufio.Reader
	stop     context.CancelFunc
	ended    chan struct{} // closed when the server's processes have ended
	status   error         // of the server; after ended

	turn   chan struct{} // holds one token: the right to talk
	lastID int
	broken error // of an earlier call, after which nothing can be called; with the token

	closing sync.Once
}

// Start starts the server of a folder and asks it what it is. ctx limits the start only. The caller closes the client.
// Errors: of class config if the folder has no server; *Error; of class transport if the server ends.
func Start(ctx context.Context, dir string, o ClientOptions) (*Client, error) {
	dir = abspath.Of(dir)
	path, args, err := server(dir, o)
	if err != nil {
		return nil, err
	}
	theirs, ours, err := pipes()
	if err != nil {
		return nil, err
	}
	c := &Client{requests: ours[0], replies: bufio.NewReader(ours[1]), ended: make(chan struct{})}
	c.turn = make(chan struct{}, 1)
	c.turn <- struct{}{}
	log := o.Log
	if log == nil {
		log = hclog.NewNullLogger()
	}
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	run := command.Command{
		Path: path, Args: append(args, "--read-fd", "3", "--write-fd", "4"), Dir: dir, Env: o.Env, Files: theirs,
		Out: func(line string) { log.Info(line) }, Err: func(line string) { log.Info(line) },
	}
	go func() {
		defer close(c.ended)
		c.status = run.Run(running)
		closeAll(theirs) // so that a call under way sees the end
	}()
	version := o.TVM
	if version == "" {
		version = "0.14.0"
	}
	if err := c.call(ctx, "server_info_query", map[string]any{"tvm_version": version}, &c.Info); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if c.Info.Protocol != protocolVersion {
		err := failure.Errorf(failure.Config, "the server in %s has protocol version %d, not %d", dir, c.Info.Protocol,
			protocolVersion)
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// server returns how a folder's server is started: docs/formats/project_api.md §1.
func server(dir string, o ClientOptions) (path string, args []string, err error) {
	script := filepath.Join(dir, "microtvm_api_server.py")
	launcher := filepath.Join(dir, "launch_microtvm_api_server.sh")
	if i, err := os.Stat(launcher); err == nil && i.Mode().IsRegular() {
		return launcher, []string{script}, nil
	}
	if i, err := os.Stat(script); err != nil || !i.Mode().IsRegular() {
		return "", nil, failure.Errorf(failure.Config, "%s has neither %s nor %s", dir, filepath.Base(launcher),
			filepath.Base(script))
	}
	python := o.Python
	if python == "" {
		python = "python3"
	}
	path, err = command.Find(python, "")
	return path, []string{script}, err
}

// pipes returns the ends of two pipes: theirs reads requests and writes replies, ours the reverse.
func pipes() (theirs, ours []*os.File, err error) {
	r1, w1, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		closeAll([]*os.File{r1, w1})
		return nil, nil, err
	}
	return []*os.File{r1, w2}, []*os.File{w1, r2}, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Close ends the server: it sees the end of its requests, and is killed after some seconds.
func (c *Client) Close() error {
	c.closing.Do(func() {
		_ = c.requests.Close() // the server may have ended
		select {
		case <-c.ended:
		case <-time.After(5 * time.Second):
		}
		c.stop()
		<-c.ended
	})
	return nil
}

// call calls a method. If ctx ends before the reply, the server is ended: there is no other way to stop a method.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return failure.Stopped(ctx, "%s", method)
	}
	defer func() { c.turn <- struct{}{} }()
	if c.broken != nil {
		return c.broken
	}
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "%s", method)
	}
	c.lastID++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params, "id": c.lastID})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	var answer []byte
	go func() {
		_, err := c.requests.Write(append(line, '\n'))
		if err == nil {
			answer, err = c.readLine()
		}
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		c.stop()
		<-done
		err = failure.Stopped(ctx, "%s", method)
		c.broken = c.ending(method)
		return err
	}
	if err != nil {
		c.broken = c.ending(method)
		return c.broken
	}
	return c.result(method, answer, result)
}

// ending returns the error of calls after the server has ended.
func (c *Client) ending(method string) error {
	select {
	case <-c.ended:
	case <-time.After(time.Second):
	}
	select {
	case <-c.ended:
		if c.status != nil {
			return failure.Errorf(failure.Transport, "%s: %w: the server has ended: %w", method, errClosed, c.status)
		}
	default:
	}
	return failure.Errorf(failure.Transport, "%s: %w: the server does not answer any more", method, errClosed)
}

// readLine reads a reply of limited length.
func (c *Client) readLine() (line []byte, err error) {
	for {
		part, err := c.replies.ReadSlice('\n')
		line = append(line, part...)
		if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxLine {
			return nil, failure.Errorf(failure.Transport, "a reply is longer than %d bytes", maxLine)
		}
	}
}

// result reads a reply. After a reply that is not this call's, no other can be trusted.
func (c *Client) result(method string, answer []byte, result any) error {
	malformed := func(why string) error {
		c.broken = failure.Errorf(failure.Transport, "%s: malformed reply: %s: %.200q", method, why, answer)
		return c.broken
	}
	var r struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   *struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return malformed(err.Error())
	}
	switch {
	case r.Version != "2.0":
		return malformed(`jsonrpc is not "2.0"`)
	case string(r.ID) != strconv.Itoa(c.lastID):
		return malformed(fmt.Sprintf("its id is not %d", c.lastID))
	case r.Error != nil:
		var data struct{ Traceback string }
		if json.Unmarshal(r.Error.Data, &data) != nil {
			data.Traceback = string(bytes.TrimSpace(r.Error.Data))
		}
		return &Error{Method: method, Code: r.Error.Code, Message: r.Error.Message, Traceback: data.Traceback}
	case r.Result == nil:
		return malformed("no result")
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(r.Result, result); err != nil {
		return malformed(err.Error())
	}
	return nil
}

// options adds the server's defaults to what the caller gives, and checks the names.
func (c *Client) options(given map[string]any) (map[string]any, error) {
	all := map[string]any{}
	for _, o := range c.Info.Options {
		all[o.Name] = o.Default
	}
	for name, v := range given {
		if _, ok := all[name]; !ok {
			return nil, failure.Errorf(failure.Config, "the server has no option %s", name)
		}
		all[name] = v
	}
	return all, nil
}

// Generate makes a project in dir, which must not exist, from an uncompressed archive. The paths are made absolute.
// runtime is the folder of TVM's own runtime; "" for servers that have one.
func (c *Client) Generate(ctx context.Context, archive, runtime, dir string, options map[string]any) error {
	all, err := c.options(options)
	if err != nil {
		return err
	}
	return c.call(ctx, "generate_project", map[string]any{
		"model_library_format_path": abspath.Of(archive), "standalone_crt_dir": abspath.Of(runtime),
		"project_dir": abspath.Of(dir), "options": all,
	}, nil)
}

// Build calls build.
func (c *Client) Build(ctx context.Context, options map[string]any) error {
	return c.step(ctx, "build", options)
}

// Flash calls flash.
func (c *Client) Flash(ctx context.Context, options map[string]any) error {
	return c.step(ctx, "flash", options)
}

func (c *Client) step(ctx context.Context, method string, options map[string]any) error {
	all, err := c.options(options)
	if err != nil {
		return err
	}
	return c.call(ctx, method, map[string]any{"options": all}, nil)
}

// Open opens the transport, which the caller closes. The timeouts are the server's advice.
func (c *Client) Open(ctx context.Context, options map[string]any) (transport.Link, timeouts, error) {
	all, err := c.options(options)
	if err != nil {
		return nil, timeouts{}, err
	}
	var answer struct {
		Timeouts timeouts `json:"timeouts"`
	}
	if err := c.call(ctx, "open_transport", map[string]any{"options": all}, &answer); err != nil {
		return nil, timeouts{}, err
	}
	closed, end := context.WithCancel(context.Background())
	return &link{client: c, closed: closed, end: end}, answer.Timeouts, nil
}

// A link is the transport of a server. Between two slices of a read, a write has its turn.
type link struct {
	client *Client
	closed context.Context
	end    context.CancelFunc

	reading sync.Mutex
	rest    []byte // what a read returned beyond what was asked for; with reading
	closing sync.Once
}

// slice is how long one read lets the server wait.
const slice = 0.02 // seconds

// Lossy returns false: what the server reads is complete, as far as it knows.
func (l *link) Lossy() bool { return false }

// Close calls close_transport.
func (l *link) Close() (err error) {
	l.closing.Do(func() {
		l.end()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = l.client.call(ctx, "close_transport", struct{}{}, nil)
	})
	return err
}

// ended returns the error of an operation whose context has ended.
func (l *link) ended(ctx context.Context, what string, start time.Time) error {
	switch {
	case l.closed.Err() != nil:
		return transport.ErrClosed
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failure.Errorf(failure.Timeout, "%s: %w", what, errors.Join(context.DeadlineExceeded, context.Cause(ctx)))
	default:
		return failure.Stopped(ctx, "%s", what)
	}
}

// Read asks the server again and again, a short time each, so that ctx and Close end it without ending the server.
func (l *link) Read(ctx context.Context, p []byte) (int, error) {
	start := time.Now()
	l.reading.Lock()
	defer l.reading.Unlock()
	for len(l.rest) == 0 {
		if l.closed.Err() != nil || ctx.Err() != nil {
			return 0, l.ended(ctx, "read", start)
		}
		if len(p) == 0 {
			return 0, nil
		}
		var answer struct {
			Data string `json:"data"`
		}
		params := map[string]any{"n": min(len(p), 4096), "timeout_sec": slice}
		err := l.client.call(context.WithoutCancel(ctx), "read_transport", params, &answer)
		if errors.Is(err, errTimeout) {
			continue
		}
		if err != nil {
			return 0, l.broken(err)
		}
		if l.rest, err = decodeBase85(answer.Data); err != nil {
			return 0, failure.Errorf(failure.Transport, "read_transport: %w", err)
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// grace is how much later than its own limit a server may answer.
const grace = 5 * time.Second

// Write sends data in one call. A server that does not end it is ended, some seconds after ctx.
func (l *link) Write(ctx context.Context, data []byte) error {
	start := time.Now()
	if l.closed.Err() != nil || ctx.Err() != nil {
		return l.ended(ctx, "write", start)
	}
	params := map[string]any{"data": string(appendBase85(nil, data)), "timeout_sec": nil}
	if end, ok := ctx.Deadline(); ok {
		params["timeout_sec"] = max(time.Until(end).Seconds(), 0)
	}
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	later := func() { time.AfterFunc(grace, cancel) }
	defer context.AfterFunc(ctx, later)()
	defer context.AfterFunc(l.closed, later)()
	err := l.client.call(patient, "write_transport", params, nil)
	if errors.Is(err, errTimeout) {
		return failure.Errorf(failure.Timeout, "write: %w", context.DeadlineExceeded)
	}
	return l.broken(err)
}

// broken returns what users of links expect of a server that has closed its transport.
func (l *link) broken(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, errClosed) || l.closed.Err() != nil {
		return fmt.Errorf("%w: %w", transport.ErrClosed, err)
	}
	return err
}

// An Error is one that a server reports.
type Error struct {
	Method    string
	Code      int
	Message   string
	Traceback string // what the server adds to it, as text
}

// Error returns the message, and what the server adds.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s", e.Method, e.Message)
	if e.Code != codeServer {
		text += fmt.Sprintf(" (JSON-RPC error %d)", e.Code)
	}
	if e.Traceback != "" {
		text += "\n" + e.Traceback
	}
	return text
}

// Is reports whether the message is one of a class: errTimeout, errClosed or errVersion.
func (e *Error) Is(target error) bool {
	return e.Code == codeServer && (target == errTimeout || target == errClosed || target == errVersion) &&
		target.Error() == e.Message
}

// FailureClass returns the class of the method.
func (e *Error) FailureClass() failure.Class {
	switch {
	case e.Is(errTimeout):
		return failure.Timeout
	case e.Is(errVersion):
		return failure.Config
	case e.Code != codeServer:
		return failure.Internal
	case e.Method == "build":
		return failure.Compile
	case e.Method == "flash":
		return failure.Flash
	case e.Method == "generate_project":
		return failure.Config
	default:
		return failure.Transport
	}
}
