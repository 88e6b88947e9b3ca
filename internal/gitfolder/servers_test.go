package gitfolder

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
)

// patience is far more than a store with short limits needs.
const patience = 20 * time.Second

// An answerer is where a server writes its answer, and the context that ends when the client has gone.
type answerer struct {
	http.ResponseWriter
	gone context.Context
}

func (a *answerer) flush() { a.ResponseWriter.(http.Flusher).Flush() }

// answers serves answers that are changed on the way: of the references, or of the pack.
func answers(t *testing.T, r *repository, pack bool, change func(w *answerer, body []byte)) string {
	t.Helper()
	return serve(t, filepath.Dir(r.dir), func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if (req.Method == http.MethodPost) != pack {
				h.ServeHTTP(w, req)
				return
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			for name := range rec.Header() {
				w.Header().Set(name, rec.Header().Get(name))
			}
			change(&answerer{w, req.Context()}, rec.Body.Bytes())
		})
	}).URL + "/kiln.git"
}

// TestBadServers: a server that hangs, resets, sends too much or something else is an error within the limits, of class
// timeout if time ran out, and nothing of the fetch remains: the store fetches again.
func TestBadServers(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.commit("main", entry{name: "a.txt", text: strings.Repeat("one\n", 1000)})
	hang := func(w *answerer, body []byte) {
		_, _ = w.Write(body)
		w.flush()
		<-w.gone.Done()
	}
	reset := func(w *answerer, body []byte) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body[:len(body)-30])
		w.flush()
		c, _, err := w.ResponseWriter.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}
	short := func(w *answerer, body []byte) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)+1000))
		_, _ = w.Write(body)
	}
	endless := func(w *answerer, body []byte) {
		_, _ = w.Write(body[:len(body)-4])
		for {
			if _, err := io.WriteString(w, "0009\x02more"); err != nil {
				return
			}
		}
	}
	slow := func(w *answerer, body []byte) {
		for i := range body {
			_, _ = w.Write(body[i : i+1])
			w.flush()
			select {
			case <-w.gone.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	flipped := func(w *answerer, body []byte) {
		body[len(body)-60] ^= 1
		_, _ = w.Write(body)
	}
	more := func(w *answerer, body []byte) { // the number of objects is a lie
		i := bytes.Index(body, []byte("PACK"))
		binary.BigEndian.PutUint32(body[i+8:], 1000)
		_, _ = w.Write(body)
	}
	empty := func(w *answerer, body []byte) { _, _ = w.Write(body[:0]) }
	half := func(then func(*answerer, []byte)) func(*answerer, []byte) {
		return func(w *answerer, body []byte) { then(w, body[:len(body)/2]) }
	}
	for name, c := range map[string]struct {
		pack   bool
		change func(*answerer, []byte)
		class  failure.Class
	}{
		"references, hangs":       {false, half(hang), failure.Timeout},
		"references, reset":       {false, reset, failure.Network},
		"references, short":       {false, half(short), failure.Network},
		"references, empty":       {false, empty, failure.Config},
		"references, slow":        {false, slow, failure.Timeout},
		"pack, hangs":             {true, half(hang), failure.Timeout},
		"pack, hangs at the end":  {true, func(w *answerer, b []byte) { hang(w, b[:len(b)-4]) }, failure.Timeout},
		"pack, hangs before":      {true, func(w *answerer, b []byte) { hang(w, nil) }, failure.Timeout},
		"pack, reset":             {true, reset, failure.Network},
		"pack, short":             {true, half(short), failure.Network},
		"pack, endless":           {true, endless, failure.Timeout},
		"pack, damaged":           {true, flipped, failure.Config},
		"pack, number of objects": {true, more, failure.Config},
		"pack, empty":             {true, empty, failure.Config},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &Store{Dir: t.TempDir(), Pins: filepath.Join(t.TempDir(), "lock.json"), MaxBytes: 1 << 20}
			if c.class == failure.Timeout {
				store.Timeout = 700 * time.Millisecond
			}
			var good atomic.Bool
			url := answers(t, r, c.pack, func(w *answerer, body []byte) {
				if !good.Load() {
					c.change(w, body)
					return
				}
				_, _ = w.Write(body)
			})
			_, err := open1(t, store, url+"@main")
			wantStep(t, store, err, c.class, url)
			if _, err := os.Stat(store.Pins); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the lock file was written: %v", err)
			}
			good.Store(true)
			store.Timeout = 0
			opened(t, store, url+"@main")
		})
	}
}

// TestTooLarge: the limit covers what is sent, what it unpacks to, and each file.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	zeros := r.commit("zeros", entry{name: "a", text: strings.Repeat("\x00", 1<<20)}) // packed: 1 KB
	twice := r.commit("twice", entry{name: "a", text: strings.Repeat("x", 150<<10)},
		entry{name: "b", text: strings.Repeat("x", 150<<10)}) // one object
	noise := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	random := r.commit("random", entry{name: "a", text: string(noise)})
	half := r.commit("half", entry{name: "a", text: string(noise[:150<<10])}) // once in the pack, once in its file
	for _, commit := range []string{zeros, twice, random, half} {
		store := &Store{Dir: t.TempDir(), MaxBytes: 256 << 10}
		_, err := open1(t, store, r.url()+"@"+commit)
		if !errors.Is(err, errTooMuch) {
			t.Error(err)
		}
		wantStep(t, store, err, failure.Config)
	}
	opened(t, &Store{Dir: t.TempDir(), MaxBytes: 1 << 20}, r.url()+"@"+twice)
}

// TestFilling: what is too large is stopped while it arrives.
func TestFilling(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	err := filling(t.Context(), dir, 1<<20, func(ctx context.Context) error {
		testkit.WriteFile(t, filepath.Join(dir, "pack"), string(make([]byte, 1<<20+1)))
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, errTooMuch) {
		t.Error(err)
	}
	synctest.Test(t, func(t *testing.T) { // ends when its goroutines have
		must(t, filling(t.Context(), dir, 1<<30, func(context.Context) error { return nil }))
	})
}

// TestWithin: a client that does not end with its context is left behind.
func TestWithin(t *testing.T) {
	t.Parallel()
	stuck := make(chan error)
	defer close(stuck)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errSlow)
	if err := within(ctx, func(context.Context) error { return <-stuck }); !errors.Is(err, errSlow) {
		t.Error(err)
	}
}

// TestOneCommit: a server that gives single commits sends no history, and says which commits it does not have.
func TestOneCommit(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	first := r.write("one")
	second := r.write("two")
	third := r.write("three")
	testkit.WriteFile(t, filepath.Join(r.dir, "config"), "[core]\n\tbare = true\n[uploadpack]\n"+
		"\tallowReachableSHA1InWant = true\n")
	for commit, before := range map[string]string{second: first, third: second} {
		store := r.objects(commit)
		if store.HasEncodedObject(plumbing.NewHash(before)) == nil {
			t.Errorf("%s came with what was before", commit)
		}
		must(t, store.Close())
	}
	missing := strings.Repeat("0123456789", 4)
	_, err := open1(t, newStore(t), r.url()+"@"+missing)
	wantError(t, err, "", "no commit "+missing)
}

// TestKilled: nothing that a killed process has fetched is used, and the next fetch removes it.
func TestKilled(t *testing.T) {
	if url := os.Getenv("GITFOLDER_TEST_URL"); url != "" {
		_, err := open1(t, &Store{Dir: os.Getenv("GITFOLDER_TEST_DIR")}, url)
		t.Fatal(err)
	}
	t.Parallel()
	r := newRepository(t)
	r.write("one")
	reached := make(chan bool, 1)
	url := answers(t, r, true, func(w *answerer, body []byte) {
		_, _ = w.Write(body[:len(body)/2])
		w.flush()
		reached <- true
		<-w.gone.Done()
	})
	store := newStore(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "GITFOLDER_TEST_URL="+url+"@main", "GITFOLDER_TEST_DIR="+store.Dir)
	must(t, cmd.Start())
	select {
	case <-reached:
	case <-time.After(patience):
		t.Error("the process asked for nothing")
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if left := leftovers(t, store); len(left) != 1 || !strings.HasSuffix(left[0], temporarySuffix) {
		t.Errorf("the process was killed too early: it left %q", left)
	}
	f := opened(t, store, r.url()+"@main") // another URL
	wantText(t, f, "one")
	if left := leftovers(t, store); len(left) != 1 || left[0] != filepath.Base(filepath.Dir(f.Path)) {
		t.Errorf("left %q", left)
	}
}

// TestCredentials: git's credential helper is asked if the server wants a password, which no file gets.
func TestCredentials(t *testing.T) {
	r := newRepository(t)
	r.write("one")
	s := serve(t, filepath.Dir(r.dir), func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			name, password, _ := req.BasicAuth()
			if name != "me" || password != "s3cret" {
				w.Header().Set("WWW-Authenticate", "Basic")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, req)
		})
	})
	config := filepath.Join(t.TempDir(), "gitconfig")
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("GIT_ASKPASS", "")
	t.Setenv("SSH_ASKPASS", "")
	for password, want := range map[string]string{
		"s3cret": "", "wrong": "refused git's user name or password", "": "git has none",
	} {
		text := "[credential]\n\thelper = \"!f() { echo username=me; echo password=" + password + "; }; f\"\n"
		if password == "" {
			text = ""
		}
		testkit.WriteFile(t, config, text)
		store := newStore(t)
		f, err := open1(t, store, s.URL+"/kiln.git@main")
		if want != "" {
			wantStep(t, store, err, "", want)
			continue
		}
		must(t, err)
		for name, text := range content(t, filepath.Dir(filepath.Dir(f.Path))) {
			if strings.Contains(text, password) {
				t.Errorf("%s has the password", name)
			}
		}
	}
}

// TestCredentialQuestion: no part of a URL can ask git for the password of another server.
func TestCredentialQuestion(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://h.example/a/kiln.git":     "protocol=https\nhost=h.example\npath=a/kiln.git\n\n",
		"http://a%40b@h.example:81/kiln":   "protocol=http\nhost=h.example:81\npath=kiln\nusername=a@b\n\n",
		"http://me%0ahost=t@h.example/k":   "",
		"http://h.example/k%0ahost=t":      "",
		"http://h.example/k%00":            "",
		"http:///k":                        "",
		"ssh://h.example/k":                "",
		"http://[::1%25a%0ahost=t]/k":      "",
		"http://me@h.example/k\nhost=t/k":  "",
		"http://me%c2%85host=t@h.exampl/k": "",
	} {
		got, ok := credentialQuestion(url)
		if got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", url, got, ok)
		}
	}
}

// TestNoProcessLeft: no git upload-pack that hangs, and no process of a credential helper, outlives the fetch.
func TestNoProcessLeft(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	if _, err := exec.LookPath("ps"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	pid := filepath.Join(dir, "pid")
	for name, script := range map[string]string{
		"git":             "sleep 1000 &\necho $! >PID.new\nmv PID.new PID\nwait\n",
		"git-upload-pack": "echo $$ >PID.new\nmv PID.new PID\nexec sleep 1000\n",
	} {
		script = "#!/bin/sh\n" + strings.ReplaceAll(script, "PID", pid)
		testkit.WriteProgram(t, filepath.Join(dir, name), script)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer locked.Close()
	for _, url := range []string{"file:///kiln.git", locked.URL + "/kiln.git"} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := newStore(t).Open(ctx, Ref{URL: url, Revision: "main"})
			done <- err
		}()
		var text []byte
		for end := time.Now().Add(patience); text == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
			text, _ = os.ReadFile(pid)
		}
		cancel()
		wantError(t, <-done, failure.Interrupted)
		must(t, os.Remove(pid))
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		must(t, err)

		// What was killed is gone once the system has ended it.
		end := time.Now().Add(patience)
		for runs(n) && time.Now().Before(end) {
			time.Sleep(time.Millisecond)
		}
		if runs(n) {
			t.Errorf("%s: a process is left", url)
		}
	}
	_, err := (&Store{Dir: t.TempDir(), Timeout: 200 * time.Millisecond}).Open(t.Context(),
		Ref{URL: locked.URL + "/kiln.git", Revision: "main"})
	wantError(t, err, failure.Timeout)
}

// TestRefusalUnread: a server that ends before it has the whole request is asked again.
func TestRefusalUnread(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	r := newRepository(t)
	commit := r.write("one")
	dir := t.TempDir()
	script := strings.ReplaceAll(`#!/bin/sh
echo once >>DIR/asked
[ $(wc -l <DIR/asked) != 2 ] && exec git upload-pack "$@"
exec <&-
git upload-pack --advertise-refs "$@"
`, "DIR", dir)
	testkit.WriteProgram(t, filepath.Join(dir, "git-upload-pack"), script)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	must(t, r.objects(commit).Close())
	testkit.Equal(t, "asked", string(testkit.ReadFile(t, filepath.Join(dir, "asked"))), strings.Repeat("once\n", 3))
}

// runs reports whether a process still runs: it is there, and no zombie that nobody has asked for yet.
func runs(pid int) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

func TestContexts(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { silent.Close() })
	for _, scheme := range []string{"http", "ssh"} {
		r := Ref{URL: scheme + "://" + silent.Addr().String() + "/kiln", Revision: "main"}
		call := failuretest.Calls{
			"Store.Open": func(ctx context.Context) error {
				_, err := newStore(t).Open(ctx, r)
				return err
			},
			"Store.Update": func(ctx context.Context) error {
				_, _, err := newStore(t).Update(ctx, r)
				return err
			},
		}
		failuretest.Ended(t, call)
		if scheme == "http" || os.Getenv("SSH_AUTH_SOCK") != "" { // else it fails at once
			failuretest.Waiting(t, call)
		}
	}
	stuck := newStore(t)
	unlock, err := stuck.lock(t.Context(), key("http://h/k"))
	must(t, err)
	defer unlock()
	failuretest.Waiting(t, failuretest.Calls{"Store.Open": func(ctx context.Context) error {
		_, err := stuck.Open(ctx, Ref{URL: "http://h/k", Revision: "main"})
		return err
	}})
}
