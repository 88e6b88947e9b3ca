// Package projectapi speaks TVM's Project API, protocol version 1, on two pipes: as the server that TVM's Python starts
// in a folder, and as the client of somebody else's server.
//
// It is not a tuner, and no part of TVM: what the methods do is in packages project and device. docs/formats/
// project_api.md has the protocol.
package projectapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// protocolVersion is the version of the Project API.
const protocolVersion = 1

// info describes a server's folder.
type info struct {
	Platform string   `json:"platform_name"`
	Template bool     `json:"is_template"`               // else a generated project
	Archive  string   `json:"model_library_format_path"` // path of a generated project's archive; "" of a template
	Options  []option `json:"project_options"`
	Protocol int      `json:"protocol_version"`
}

// An option describes one of the values that methods take besides their parameters.
type option struct {
	Name     string   `json:"name"`
	Choices  []string `json:"choices"`  // nil: any value of the type
	Default  any      `json:"default"`  // nil: none
	Type     string   `json:"type"`     // str, bool or int
	Required []string `json:"required"` // methods that need a value
	Optional []string `json:"optional"` // methods that accept one
	Help     string   `json:"help"`
}

// values are the options of one call, by name. A value is null, a string, a bool, or a number.
type values map[string]json.RawMessage

// The error of Values has class config and names the option.
func (v values) invalid(name, want string) error {
	return failure.Errorf(failure.Config, "option %s: %s is not %s", name, v[name], want)
}

// given reports whether an option has a value.
func (v values) given(name string) bool { return len(v[name]) > 0 && string(v[name]) != "null" }

// Text returns a value as text, and "" if there is none.
func (v values) Text(name string) (string, error) {
	if !v.given(name) {
		return "", nil
	}

	var s string
	if json.Unmarshal(v[name], &s) == nil {
		return s, nil
	}
	if c := v[name][0]; c == '{' || c == '[' {
		return "", v.invalid(name, "one value")
	}
	return string(v[name]), nil
}

// Words returns the words of a list, or of a text that separates them by blanks or commas.
func (v values) Words(name string) (words []string, err error) {
	if v.given(name) && json.Unmarshal(v[name], &words) == nil {
		return words, nil
	}
	s, err := v.Text(name)
	return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' }), err
}

// Int returns a number, also one that is written as a string, and 0 if there is none.
func (v values) Int(name string) (int, error) {
	s, err := v.Text(name)
	if err != nil || s == "" {
		return 0, err
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, v.invalid(name, "an integer")
	}
	return int(f), nil
}

// Bool returns a truth value, also a string or the numbers 0 and 1, and false if there is none.
func (v values) Bool(name string) (bool, error) {
	s, err := v.Text(name)
	if err != nil || s == "" {
		return false, err
	}
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, v.invalid(name, "true or false")
	}
	return b, nil
}

// A generation is the input of generate_project.
type generation struct {
	Archive string // path of an uncompressed tar in the Model Library Format
	CRT     string // TVM's own runtime, which is not used
	Dir     string // does not exist yet
}

// timeouts are those of a session on the transport, in seconds. Zero means without limit.
type timeouts struct {
	StartRetry  float64 `json:"session_start_retry_timeout_sec"` // until the host asks again for a session
	Start       float64 `json:"session_start_timeout_sec"`
	Established float64 `json:"session_established_timeout_sec"` // for each reply
}

// methods are the Project API's. One goroutine calls them, one after the other. The error that a client gets as a class
// of its own is one that wraps errTimeout, errClosed or errVersion; each other is a ServerError with the error's text.
type methods interface {
	Info(tvm string) (info, error)
	Generate(ctx context.Context, g generation, v values) error
	Build(ctx context.Context, v values) error
	Flash(ctx context.Context, v values) error
	Open(ctx context.Context, v values) (timeouts, error)
	CloseTransport() error
	// Read waits until ctx ends for at least one byte. It may return more than n. The bytes are valid until the next Read.
	Read(ctx context.Context, n int) ([]byte, error)
	// Write sends all of data or returns an error.
	Write(ctx context.Context, data []byte) error
}

// Errors that have a class of their own in TVM's Python.
var (
	errTimeout = errors.New("IoTimeoutError")
	errClosed  = errors.New("TransportClosedError")
	errVersion = errors.New("UnsupportedTVMVersionError")
)

// The codes of errors that a server sends. TVM's client accepts two more, and no others.
const (
	codeServer  = -32000
	codeRequest = -32600
	codeMethod  = -32601
	codeParams  = -32602
)

// limit returns a context for a timeout of the protocol: nil is none, 0 does not wait.
func limit(ctx context.Context, seconds *float64) (context.Context, context.CancelFunc) {
	if seconds == nil {
		return context.WithCancel(ctx)
	}

	// A link may need a moment to hand out what has arrived.
	d := time.Duration(min(max(*seconds, 0.001), 1e9) * float64(time.Second))
	return context.WithTimeout(ctx, d)
}
