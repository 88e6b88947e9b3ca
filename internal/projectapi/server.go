// This file serves the methods: JSON-RPC, one line each way.

package projectapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// maxLine limits a request: its longest part is the data of a write.
const maxLine = 16 << 20

// A request of JSON-RPC.
type request struct {
	Version string                     `json:"jsonrpc"`
	Method  string                     `json:"method"`
	Params  map[string]json.RawMessage `json:"params"`
	ID      json.RawMessage            `json:"id"`
}

// A reply has a result or an error.
type reply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result"`
	Error   *replyError     `json:"-"`
}

type replyError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// MarshalJSON writes the error instead of the result, if there is one: clients test which key is there.
func (r reply) MarshalJSON() ([]byte, error) {
	if r.Error != nil {
		return json.Marshal(struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Error   *replyError     `json:"error"`
		}{r.Version, r.ID, r.Error})
	}

	// A type without methods: MarshalJSON would call itself.
	type plain reply
	return json.Marshal(plain(r))
}

// Serve answers requests from r on w, one after the other, until r ends, and returns nil then. A request under way is
// cancelled when r ends or ctx does. An invalid request is answered and ends the server with an error, as a broken pipe
// does. A last read of r may still be pending after Serve has returned for ctx: close r then. Serve closes what the
// methods have opened.
func Serve(ctx context.Context, r io.Reader, w io.Writer, c Folder) error {
	f := &folder{Folder: c}
	return errors.Join(serveMethods(ctx, r, w, f), f.Close())
}

func serveMethods(ctx context.Context, r io.Reader, w io.Writer, m methods) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	lines := make(chan []byte)
	broken := make(chan error, 1)
	go func() {
		broken <- readLines(ctx, r, lines)
		cancel(errEnd)
	}()

	for {
		select {
		case line := <-lines:
			answer, err := serve(ctx, line, m)
			if answer != nil && send(w, answer) != nil {
				err = failure.Errorf(failure.Transport, "the client does not read replies")
			}
			if err != nil {
				return err
			}
		case err := <-broken:
			return err
		case <-ctx.Done():
			// The reader has ended before ctx: its error, or nil, is there.
			if context.Cause(ctx) == errEnd {
				return <-broken
			}
			return failure.Stopped(ctx, "serve the Project API")
		}
	}
}

var errEnd = errors.New("the client has closed its end")

// readLines sends each line of r, and returns nil at the end.
func readLines(ctx context.Context, r io.Reader, lines chan<- []byte) error {
	b := bufio.NewReaderSize(r, 1<<16)
	var line []byte
	for {
		part, err := b.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return failure.Errorf(failure.Transport, "a request is longer than %d bytes", maxLine)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read a request: %w", err)
		}

		select {
		case lines <- line:
		case <-ctx.Done():
			return nil
		}
		// the receiver keeps the line
		line = nil
	}
}

// send writes an answer as one line.
func send(w io.Writer, answer *reply) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(answer); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

var methodName = regexp.MustCompile(`^[a-zA-Z0-9_]+$`)

// serve answers one request. With an error, the server ends; an answer that is not nil is sent before. A line that is
// not JSON gets no answer, as of TVM's own server.
func serve(ctx context.Context, line []byte, m methods) (*reply, error) {
	if !json.Valid(line) {
		return nil, failure.Errorf(failure.Transport, "a request is not JSON: %.80q", line)
	}
	q, err := parseRequest(line)
	if err != nil {
		e := &replyError{Code: codeRequest, Message: err.Error()}
		return &reply{Version: "2.0", ID: json.RawMessage("null"), Error: e}, err
	}

	answer := &reply{Version: "2.0", ID: q.ID}
	c, ok := calls[q.Method]
	if !ok {
		answer.Error = &replyError{Code: codeMethod, Message: q.Method + ": no such method"}
		return answer, nil
	}
	if wrong := c.wrong(q); wrong != "" {
		answer.Error = &replyError{Code: codeParams, Message: wrong}
		return answer, nil
	}

	answer.Result, err = c.run(ctx, m, q.Params)
	answer.Error = errorOf(err)
	return answer, nil
}

// parseRequest checks what every request has.
func parseRequest(line []byte) (*request, error) {
	invalid := func(why string) error { return failure.Errorf(failure.Transport, "invalid request: %s", why) }
	var q request
	if err := json.Unmarshal(line, &q); err != nil {
		return nil, invalid(err.Error())
	}

	switch id := string(q.ID); {
	case q.Version != "2.0":
		return nil, invalid(`jsonrpc is not "2.0"`)
	case !methodName.MatchString(q.Method):
		return nil, invalid(fmt.Sprintf("method %.80q", q.Method))
	case q.Params == nil:
		return nil, invalid("no params")
	case id == "" || !strings.ContainsAny(id[:1], `"-0123456789n`) || strings.ContainsAny(id, ".eE") && id[0] != '"':
		return nil, invalid("the id is no string, integer or null")
	}
	return &q, nil
}

// errorOf returns what a client gets of a method's error.
func errorOf(err error) *replyError {
	if err == nil {
		return nil
	}
	type traceback struct {
		Traceback string `json:"traceback"`
	}

	for _, class := range []error{errTimeout, errClosed, errVersion} {
		if errors.Is(err, class) {
			return &replyError{Code: codeServer, Message: class.Error(), Data: traceback{err.Error()}}
		}
	}
	return &replyError{Code: codeServer, Message: err.Error(), Data: traceback{advice(err)}}
}

// A call is a method with its parameters, all of which are mandatory.
type call struct {
	params []string
	run    func(ctx context.Context, m methods, params map[string]json.RawMessage) (any, error)
}

// wrong returns what is wrong with the names of a request's parameters, or with their types: "" if nothing.
func (c call) wrong(q *request) string {
	for _, p := range c.params {
		v, ok := q.Params[p]
		if !ok {
			return fmt.Sprintf("method %s: parameter %s not given", q.Method, p)
		}
		// Only timeout_sec may be null.
		if into := parameterTypes[p](); json.Unmarshal(v, into) != nil || (p != "timeout_sec" && string(v) == "null") {
			return fmt.Sprintf("method %s: parameter %s is %.40s", q.Method, p, v)
		}
	}

	extra := slices.DeleteFunc(slices.Sorted(maps.Keys(q.Params)), func(p string) bool {
		return slices.Contains(c.params, p)
	})
	if len(extra) > 0 {
		return fmt.Sprintf("%s: extra parameters: %s", q.Method, strings.Join(extra, ", "))
	}
	return ""
}

func newString() any { return new(string) }

// parameterTypes makes a value of each parameter's type.
var parameterTypes = map[string]func() any{
	"tvm_version": newString, "model_library_format_path": newString, "standalone_crt_dir": newString,
	"project_dir": newString, "data": newString,
	"options":     func() any { return new(values) },
	"n":           func() any { return new(int) },
	"timeout_sec": func() any { return new(*float64) },
}

// value returns a parameter that wrong has accepted.
func value[T any](params map[string]json.RawMessage, name string) (v T) {
	_ = json.Unmarshal(params[name], &v)
	return v
}

var calls = map[string]call{
	"server_info_query": {
		[]string{"tvm_version"},
		func(_ context.Context, m methods, p map[string]json.RawMessage) (any, error) {
			i, err := m.Info(value[string](p, "tvm_version"))
			i.Protocol = protocolVersion
			return i, err
		},
	},
	"generate_project": {
		[]string{"model_library_format_path", "standalone_crt_dir", "project_dir", "options"},
		func(ctx context.Context, m methods, p map[string]json.RawMessage) (any, error) {
			return nil, m.Generate(ctx, generation{
				Archive: value[string](p, "model_library_format_path"), CRT: value[string](p, "standalone_crt_dir"),
				Dir: value[string](p, "project_dir"),
			}, value[values](p, "options"))
		},
	},
	"build": {[]string{"options"}, func(ctx context.Context, m methods, p map[string]json.RawMessage) (any, error) {
		return nil, m.Build(ctx, value[values](p, "options"))
	}},
	"flash": {[]string{"options"}, func(ctx context.Context, m methods, p map[string]json.RawMessage) (any, error) {
		return nil, m.Flash(ctx, value[values](p, "options"))
	}},
	"open_transport": {
		[]string{"options"},
		func(ctx context.Context, m methods, p map[string]json.RawMessage) (any, error) {
			t, err := m.Open(ctx, value[values](p, "options"))
			return map[string]timeouts{"timeouts": t}, err
		},
	},
	"close_transport": {nil, func(_ context.Context, m methods, _ map[string]json.RawMessage) (any, error) {
		return nil, m.CloseTransport()
	}},
	"read_transport": {
		[]string{"n", "timeout_sec"},
		func(ctx context.Context, m methods, p map[string]json.RawMessage) (any, error) {
			ctx, cancel := limit(ctx, value[*float64](p, "timeout_sec"))
			defer cancel()
			data, err := m.Read(ctx, value[int](p, "n"))
			return map[string]string{"data": string(appendBase85(nil, data))}, err
		},
	},
	"write_transport": {
		[]string{"data", "timeout_sec"},
		func(ctx context.Context, m methods, p map[string]json.RawMessage) (any, error) {
			data, err := decodeBase85(value[string](p, "data"))
			if err != nil {
				return nil, failure.Errorf(failure.Transport, "write_transport: %w", err)
			}
			ctx, cancel := limit(ctx, value[*float64](p, "timeout_sec"))
			defer cancel()
			return nil, m.Write(ctx, data)
		},
	},
}
