package projectapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestBase85 holds the vectors of project_api.md §4, made by Python.
func TestBase85(t *testing.T) {
	t.Parallel()
	for data, text := range map[string]string{
		"": "", "\x00": "00", "\xfe": "{r", "\xff": "{{", "\x01\x02": "0Rj", "\x01\x02\x03": "0RjU",
		"\x01\x02\x03\x04": "0RjUA", "\xff\xff\xff\xff": "|NsC0", "\xfe\xff\xfd\x03\x00": "{{Q_000",
		"\xfe\xff\xfd\x03\x00\x00\x00\x00\x00\x02\x66\x77": "{{Q_00000000L%r",
	} {
		testkit.Equal(t, data, string(appendBase85(nil, []byte(data))), text)
		got, err := decodeBase85(text)
		must(t, err)
		testkit.Equal(t, text, string(got), data)
	}
	for _, text := range []string{"0", "000000", "|NsC1", "~~~~~", "00 00", "00\"00", "\xff0000", "00000\n"} {
		if got, err := decodeBase85(text); err == nil {
			t.Errorf("%q is %x", text, got)
		}
	}
}

func FuzzBase85(f *testing.F) {
	f.Add("0RjUA", []byte{0, 1, 255})
	f.Fuzz(func(t *testing.T, text string, data []byte) {
		back, err := decodeBase85(string(appendBase85(nil, data)))
		if err != nil || !bytes.Equal(back, data) {
			t.Fatalf("%x came back as %x, %v", data, back, err)
		}
		if raw, err := decodeBase85(text); err == nil && len(text) != len(appendBase85(nil, raw)) {
			t.Fatalf("%q has %d bytes", text, len(raw))
		}
	})
}

// converse sends lines to a server of echo and returns its replies, and how it ended.
func converse(t *testing.T, lines ...string) (replies []string, err error) {
	t.Helper()
	var out bytes.Buffer
	ctx := testkit.Context(t)
	// A server cancels what is under way when its requests end, so the end comes after the last reply.
	r, w := io.Pipe()
	replied := make(chan struct{}, len(lines))
	go func() {
		for _, line := range lines {
			if _, err := io.WriteString(w, line+"\n"); err != nil {
				return
			}
			select {
			case <-replied:
			case <-ctx.Done():
			}
		}
		_ = w.Close()
	}()
	err = serveMethods(ctx, r, writerFunc(func(p []byte) (int, error) {
		replied <- struct{}{}
		return out.Write(p)
	}), &echo{})
	_ = r.Close()
	for s := bufio.NewScanner(&out); s.Scan(); {
		replies = append(replies, s.Text())
	}
	return replies, err
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestRequests holds the rules of project_api.md §2, one by one.
func TestRequests(t *testing.T) {
	t.Parallel()
	const next = `{"jsonrpc":"2.0","method":"close_transport","params":{},"id":9}`
	for _, c := range []struct {
		request string
		want    string // part of the reply; "" means that there is none
		ends    bool   // the server, with an error
	}{
		{`{"jsonrpc":"2.0","method":"close_transport","params":{},"id":1}`, `{"jsonrpc":"2.0","id":1,"result":null}`, false},
		{`{"jsonrpc": "2.0", "method": "flash", "params": {"options": {}}, "id": "a"}`, `"id":"a","result":null`, false},
		{`{"jsonrpc":"2.0","method":"flash","params":{"options":{}},"id":null}`, `"id":null,"result":null`, false},
		{`not JSON`, "", true},
		{`[]`, `"id":null,"error":{"code":-32600`, true},
		{`{"jsonrpc":"1.0","method":"flash","params":{"options":{}},"id":1}`, `"id":null,"error":{"code":-32600`, true},
		{`{"jsonrpc":"2.0","method":1,"params":{},"id":1}`, `"error":{"code":-32600`, true},
		{`{"jsonrpc":"2.0","method":"a b","params":{},"id":1}`, `"error":{"code":-32600`, true},
		{`{"jsonrpc":"2.0","method":"flash","params":[],"id":1}`, `"error":{"code":-32600`, true},
		{`{"jsonrpc":"2.0","method":"flash","id":1}`, `"error":{"code":-32600`, true},
		{`{"jsonrpc":"2.0","method":"flash","params":{"options":{}},"id":1.5}`, `"error":{"code":-32600`, true},
		{`{"jsonrpc":"2.0","method":"flash","params":{"options":{}}}`, `"error":{"code":-32600`, true},
		{
			`{"jsonrpc":"2.0","method":"nope","params":{},"id":3}`,
			`"id":3,"error":{"code":-32601,"message":"nope: no such method","data":null}`, false,
		},
		{
			`{"jsonrpc":"2.0","method":"flash","params":{},"id":3}`,
			`"error":{"code":-32602,"message":"method flash: parameter options not given"`, false,
		},
		{`{"jsonrpc":"2.0","method":"flash","params":{"options":[]},"id":3}`, `"error":{"code":-32602`, false},
		{`{"jsonrpc":"2.0","method":"flash","params":{"options":null},"id":3}`, `"error":{"code":-32602`, false},
		{
			`{"jsonrpc":"2.0","method":"flash","params":{"options":{},"b":1,"a":2},"id":3}`,
			`"error":{"code":-32602,"message":"flash: extra parameters: a, b"`, false,
		},
		{
			`{"jsonrpc":"2.0","method":"read_transport","params":{"n":1,"timeout_sec":0},"id":3}`,
			`"error":{"code":-32000,"message":"TransportClosedError","data":{"traceback":`, false,
		},
		{
			`{"jsonrpc":"2.0","method":"write_transport","params":{"data":"\u0001","timeout_sec":null},"id":3}`,
			`"error":{"code":-32000,"message":"write_transport: invalid base-85 text"`, false,
		},
		{
			`{"jsonrpc":"2.0","method":"server_info_query","params":{"tvm_version":"0.8.0"},"id":3}`,
			`"message":"UnsupportedTVMVersionError"`, false,
		},
		{
			`{"jsonrpc":"2.0","method":"server_info_query","params":{"tvm_version":"0.14.0"},"id":3}`,
			`"result":{"platform_name":"echo","is_template":false,"model_library_format_path":"","project_options":[` +
				`{"name":"verbose","choices":null,"default":false,"type":"bool","required":null,"optional":["build"],` +
				`"help":"More output"}],"protocol_version":1}`, false,
		},
		{
			`{"jsonrpc":"2.0","method":"open_transport","params":{"options":{}},"id":3}`,
			`"result":{"timeouts":{"session_start_retry_timeout_sec":1.5,"session_start_timeout_sec":3,` +
				`"session_established_timeout_sec":0}}`, false,
		},
	} {
		replies, err := converse(t, c.request, next)
		testkit.WantErrorIf(t, c.ends, err, "")
		if c.want == "" && len(replies) != 0 || c.want != "" && (len(replies) == 0 || !strings.Contains(replies[0], c.want)) {
			t.Errorf("%s: replies\n%s\nwant\n%s", c.request, strings.Join(replies, "\n"), c.want)
		}
		if !c.ends && len(replies) != 2 {
			t.Errorf("%s: %d replies, want another after it", c.request, len(replies))
		}
		for _, reply := range replies {
			if !json.Valid([]byte(reply)) {
				t.Errorf("%s: reply %s", c.request, reply)
			}
		}
	}
}

// FuzzServe checks that a server answers every line with at most one line of JSON, and ends without a panic.
func FuzzServe(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","method":"read_transport","params":{"n":1,"timeout_sec":0},"id":3}`)
	f.Add(`{"jsonrpc":"2.0","method":"open_transport","params":{"options":{"verbose":"true"}},"id":3}`)
	f.Add(`{"jsonrpc":"2.0","method":"flash","params":{"options":{}},"id":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "verbose") || strings.Contains(text, "\n") {
			t.Skip("with verbose, build waits; a request is one line")
		}
		answer, err := serve(t.Context(), []byte(text), &echo{})
		if answer == nil {
			if err == nil || json.Valid([]byte(text)) {
				t.Fatalf("no answer to JSON: %v", err)
			}
			return
		}
		var b bytes.Buffer
		if err := send(&b, answer); err != nil || strings.Count(b.String(), "\n") != 1 || !json.Valid(b.Bytes()) {
			t.Fatalf("answer %q, %v", b.String(), err)
		}
	})
}

// TestEndCancels: a client that has gone cancels the method under way.
func TestEndCancels(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveMethods(t.Context(), r, io.Discard, &echo{}) }()
	request := `{"jsonrpc":"2.0","method":"build","params":{"options":{"verbose":true}},"id":1}` + "\n"
	_, err := io.WriteString(w, request)
	must(t, err)
	_ = w.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
	case <-testkit.Context(t).Done():
		t.Fatal("the build was not cancelled")
	}
}

// TestBrokenPipes: a server whose replies nobody reads, whose requests are too long, or whose context ends, ends.
func TestBrokenPipes(t *testing.T) {
	t.Parallel()
	request := `{"jsonrpc":"2.0","method":"flash","params":{"options":{}},"id":1}` + "\n"
	broken := writerFunc(func([]byte) (int, error) { return 0, io.ErrClosedPipe })
	wantError(t, serveMethods(t.Context(), strings.NewReader(request), broken,
		&echo{}), "", "does not read replies")
	long := io.LimitReader(neverending{}, maxLine+1)
	wantError(t, serveMethods(t.Context(), long, io.Discard, &echo{}), "", "longer than")
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serveMethods(ctx, r, io.Discard, &echo{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	_ = r.Close()
}

type neverending struct{}

func (neverending) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestValues: options arrive as JSON's own types from Python's API, and as strings from tvmc.
func TestValues(t *testing.T) {
	t.Parallel()
	var v values
	text := `{"a":"true","b":false,"c":"4096","d":4096,"e":null,"f":"x","g":1,"h":[1],"i":1.5,"j":4096.0,"k":""}`
	must(t, json.Unmarshal([]byte(text), &v))
	type result struct {
		text    string
		n       int
		b       bool
		invalid string // of text, int, bool: a letter each
	}
	for name, want := range map[string]result{
		"a": {"true", 0, true, "i"}, "b": {"false", 0, false, "i"}, "c": {"4096", 4096, false, "b"},
		"d": {"4096", 4096, false, "b"}, "e": {}, "f": {"x", 0, false, "ib"}, "g": {"1", 1, true, ""},
		"h": {"", 0, false, "tib"}, "i": {"1.5", 0, false, "ib"}, "j": {"4096.0", 4096, false, "b"}, "k": {}, "z": {},
	} {
		var got result
		var errs [3]error
		got.text, errs[0] = v.Text(name)
		got.n, errs[1] = v.Int(name)
		got.b, errs[2] = v.Bool(name)
		for i, err := range errs {
			if err != nil {
				got.invalid += string("tib"[i])
				wantError(t, err, "", "option "+name)
			}
		}
		testkit.Equal(t, name, got, want)
	}
}
