package projectapi

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

// folderOf makes a folder whose server is this test program, as a kind of server.
func folderOf(t *testing.T, kind string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("on Windows a process cannot pass pipes by number")
	}
	dir := t.TempDir()
	launcher(t, dir, kind)
	return dir
}

// launcher writes the script that starts a folder's server.
func launcher(t *testing.T, dir, kind string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexport " + serverVariable + "=" + kind + "\nexec " + self + "\n"
	program(t, filepath.Join(dir, "launch_microtvm_api_server.sh"), script)
}

// program writes an executable script, and the folder for it. Meanwhile this process starts no other: it would inherit
// the file, and a file that is open for writing cannot be run.
func program(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func started(t *testing.T, dir string) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := Start(ctx, dir, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestLink: the transport of a server is a link like others. It runs alone, because the suite counts goroutines.
func TestLink(t *testing.T) {
	dir := folderOf(t, "echo")
	c := started(t, dir)
	transporttest.Run(t, func(t *testing.T) transport.Link {
		l, timeouts, err := c.Open(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if timeouts.StartRetry != 1.5 || timeouts.Start != 3 {
			t.Errorf("timeouts %+v", timeouts)
		}
		return l
	})
}

// TestClientErrors: what a server reports, and one that is not there, ends or cannot be stopped.
func TestClientErrors(t *testing.T) {
	t.Parallel()
	if _, err := Start(t.Context(), t.TempDir(), ClientOptions{}); failure.Of(err) != failure.Config {
		t.Errorf("a folder without a server: %v", err)
	}
	dir := folderOf(t, "echo")
	if _, err := Start(t.Context(), dir, ClientOptions{TVM: "0.8.0"}); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	c := started(t, dir)
	var reported *Error
	err := c.Generate(t.Context(), "a.tar", "", filepath.Join(dir, "p"), nil)
	if !errors.As(err, &reported) || reported.Message != "no template" || reported.Method != "generate_project" {
		t.Errorf("an error of the server: %v", err)
	}
	if err := c.Build(t.Context(), map[string]any{"vrebose": true}); err == nil ||
		!strings.Contains(err.Error(), "no option vrebose") {
		t.Errorf("an unknown option: %v", err)
	}
	if err := c.Build(t.Context(), nil); err != nil {
		t.Errorf("after errors: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Build(ctx, map[string]any{"verbose": true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a build without end: %v", err)
	}
	if err := c.Flash(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after the server was ended: %v", err)
	}
}

// TestBadServers: replies that are no replies are errors, and nothing is believed after them.
func TestBadServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reply, want string }{
		"ends":          {"exit 3", "the server has ended"},
		"not JSON":      {"echo hello", "malformed reply"},
		"other version": {`echo '{"jsonrpc":"1.0","id":1,"result":null}'`, "jsonrpc is not"},
		"other id":      {`echo '{"jsonrpc":"2.0","id":2,"result":null}'`, "its id is not 1"},
		"nothing":       {`echo '{"jsonrpc":"2.0","id":1}'`, "no result"},
		"other type":    {`echo '{"jsonrpc":"2.0","id":1,"result":[1]}'`, "malformed reply"},
		"protocol 2":    {`echo '{"jsonrpc":"2.0","id":1,"result":{"protocol_version":2}}'`, "protocol version 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folderOf(t, "none")
			script := "#!/bin/sh\nread -r line <&3\n" + c.reply + " >&4\nread -r line <&3\n"
			program(t, filepath.Join(dir, "launch_microtvm_api_server.sh"), script)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := Start(ctx, dir, ClientOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error with %q", err, c.want)
			}
		})
	}
}
