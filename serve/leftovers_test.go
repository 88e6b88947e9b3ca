//go:build linux

package serve_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/serve"
)

// operator returns an archive with an operator of TVM 0.21 or later, of C.
func operator(t *testing.T, body string) []byte {
	t.Helper()
	text := `#include "tvm/ffi/c_api.h"
void* __tvm_ffi__library_ctx = NULL;
int32_t __tvm_ffi_main(void* self, void* args, int32_t num_args, void* result) {
  ` + body + `
  return 0;
}
`
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Name: "lib0.c", Mode: 0o644, Size: int64(len(text))}))
	must(t, last(w.Write([]byte(text))))
	must(t, w.Close())
	return b.Bytes()
}

// leftovers are what sessions must not leave.
type leftovers struct{ processes, files, goroutines, descriptors int }

func countLeftovers(t *testing.T, folder string) (n leftovers) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	must(t, err)
	for _, name := range tasks {
		children, _ := os.ReadFile(name) // the thread may have ended
		n.processes += len(strings.Fields(string(children)))
	}
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	n.descriptors = len(open)
	must(t, filepath.WalkDir(folder, func(_ string, _ fs.DirEntry, err error) error {
		n.files++
		return err
	}))
	n.goroutines = runtime.NumGoroutine()
	return n
}

// TestSessions: many sessions with a board leave nothing, and after each the board is free at once, however it ends.
func TestSessions(t *testing.T) {
	names, sessions := []string{"host"}, 50
	if drawn.InFull() {
		names, sessions = []string{"host", "mps2_an386"}, 1000
	}
	archives := map[string][]byte{
		"good": operator(t, ""), "endless": operator(t, "for (volatile int i = 0;; i++) {}"),
		"fault": operator(t, "__builtin_trap();"),
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			address := serveAt(t, openBoard(t, name, dir), "127.0.0.1", serve.Options{Folder: dir})
			var before leftovers
			memory := ""
			fastest := time.Hour // of the sessions after a client that was killed in a call: a busy computer delays some
			for n := range sessions {
				if n == 20 {
					before = countLeftovers(t, dir)
				}
				took, free := useBoard(t, address, archives, n)
				if n%5 == 3 {
					fastest = min(fastest, took)
				}
				if n > 0 && free != memory {
					t.Fatalf("session %d: the memory for code is %s, before %s", n, free, memory)
				}
				memory = free
			}
			after := countLeftovers(t, dir)
			const noise = 10 // of the session that ends now
			if after.processes > before.processes || after.files > before.files+noise ||
				after.goroutines > before.goroutines+noise || after.descriptors > before.descriptors+noise {
				t.Errorf("%d sessions: %+v, after 20: %+v", sessions, after, before)
			}
			if fastest > 2*time.Second {
				t.Errorf("the board of a client that is killed in a call is free after %v", fastest)
			}
		})
	}
}

// TestModulesOfSession: a function of a module is never another module's, however many were loaded after it. Modules
// that the client frees make room; without room, all are unlinked, and an error says so.
func TestModulesOfSession(t *testing.T) {
	c := beginSession(t, serveAt(t, openBoard(t, "host", t.TempDir()), "127.0.0.1", serve.Options{}))
	get := c.lookUp("tvm.rpc.server.ModuleGetFunction")
	load := func(n int) (m, f string) {
		t.Helper()
		body := fmt.Sprintf(`TVMFFIErrorSetRaisedFromCStr("E", "operator %d"); return -1;`, n)
		m, err := c.loadModule(operator(t, body))
		must(t, err)
		f, err = result(c.call(get, args(module(m), text("main"), number(1))))
		must(t, err)
		return m, f
	}
	check := func(f, want string) {
		t.Helper()
		wantError(t, last(result(c.call(f, args()))), "", want)
	}
	const modules = 9 // more than a device holds
	m, first := load(0)
	for n := range modules {
		other, f := load(n + 1)
		check(f, fmt.Sprintf("operator %d", n+1))
		for _, h := range []string{other, f} {
			c.request("0a000000" + args("04000000 "+h))
		}
		check(first, "operator 0")
	}
	for n := range modules {
		load(n + 1)
	}
	check(first, "the module was unlinked: a later one did not fit beside it")
	wantError(t, last(result(c.call(get, args(module(m), text("main"), number(1))))), "")
}

// useBoard is a session that ends in one of several ways. It returns when the board was free, and its free memory.
func useBoard(t *testing.T, address string, archives map[string][]byte, n int) (took time.Duration, memory string) {
	t.Helper()
	begun := time.Now()
	c := beginSession(t, address)
	defer c.Close()
	took = time.Since(begun)
	memory = c.call(c.lookUp("boardsmith.memory"), args())
	switch n % 5 {
	case 0, 1:
		must(t, c.measure(archives["good"]))
		if n%5 == 0 {
			c.send(shutdown)
		}
	case 2:
		e, err := c.load(archives["endless"])
		must(t, err)
		c.send("03000000" + e + args())
		time.Sleep(10 * time.Millisecond)
	case 3:
		wantError(t, c.measure(archives["fault"]), "", "the board stopped")
	case 4:
		for range n % 4 {
			c.request(alloc)
		}
		c.send(alloc)
	}
	return took, memory
}
