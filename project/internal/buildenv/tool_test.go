package buildenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

func cacheSum(text string) string { return cachekey.Digest([]byte(text)) }

// TestRun: a run's lines name the shown folder, and a failure has its class, its message and the command to repeat it.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var lines, noted []string
	var log strings.Builder
	collect := func(script string) error {
		r := Run{
			Dir: dir, Shown: "/shown", Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"A=b c"},
			Log: hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Debug}),
		}
		var mu sync.Mutex
		lines, noted = nil, nil
		r.Line = func(s string) { lines = append(lines, s) }
		r.Noted = func(s string) { mu.Lock(); noted = append(noted, s); mu.Unlock() }
		return r.Do(t.Context())
	}
	must(t, collect(`echo "$PWD/x $A"; echo why >&2`))
	if !reflect.DeepEqual(lines, []string{"/shown/x b c"}) || len(noted) != 2 ||
		!strings.Contains(log.String(), `out="/shown/x b c"`) {
		t.Errorf("%q, %q, %s", lines, noted, log.String())
	}
	err := collect("echo 'a.c:3:1: error: no semicolon' >&2; exit 2")
	failed := new(ToolError)
	if !errors.As(err, &failed) || failed.Class != failure.Compile || failed.Tool != "sh" ||
		failed.Command != "cd "+dir+" && A='b c' /bin/sh -c 'echo '\\''a.c:3:1: error: no semicolon'\\'' >&2; exit 2'" ||
		err.Error() != "sh: exit status 2\na.c:3:1: error: no semicolon" ||
		failure.Next(err) != "to see it again: "+failed.Command || failure.Of(err) != failure.Compile {
		t.Errorf("%+v: %v; %s", failed, err, failure.Next(err))
	}
	err = collect("echo lost >&2; exit 2")
	if !errors.As(err, &failed) || err.Error() != "sh: exit status 2\nlost" {
		t.Errorf("%+v: %v", failed, err)
	}
	err = collect("echo 'cc: fatal error: error writing to /tmp/x.s: No space left on device' >&2; exit 1")
	wantError(t, err, failure.Host, ": No space left on device")
	err = collect(`i=0; while [ $i -lt 600 ]; do echo 0123456789 >&2; i=$((i+1)); done; exit 2`)
	if !errors.As(err, &failed) || len(failed.Tail) != 4096 {
		t.Errorf("a tail of %d bytes", len(failed.Tail))
	}
	ended := testkit.Ended(t)
	r := Run{Dir: dir, Path: "/bin/sh", Args: []string{"-c", "sleep 60"}, Log: hclog.NewNullLogger()}
	if err := r.Do(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	held, err := os.Create(filepath.Join(dir, "held"))
	must(t, err)
	defer held.Close()
	open := Run{Dir: dir, Path: "/bin/sh", Args: []string{"-c", "pwd; echo lock >&3"}, Log: hclog.NewNullLogger()}
	open.Held = held
	open.Line = func(s string) { lines = []string{s} }
	must(t, open.Do(t.Context()))
	if text, err := os.ReadFile(held.Name()); err != nil || string(text) != "lock\n" || lines[0] != dir {
		t.Errorf("%q, %v, %q", text, err, lines)
	}
	r.Limit = 50 * time.Millisecond
	if err := r.Do(t.Context()); !errors.As(err, &failed) {
		t.Error(err)
	}
}

// TestNextStep: the next step after a tool's failure is that of the computer's fault, or the advice of the message.
func TestNextStep(t *testing.T) {
	t.Parallel()
	host := failure.New(failure.Host, "free some space", "no space left")
	for want, e := range map[string]*ToolError{
		"free some space":       {Class: failure.Host, Err: host, Command: "make"},
		"to see it again: make": {Class: failure.Link, Err: errors.New("exit status 1"), Command: "make"},
		"":                      {Class: failure.Link, Err: errors.New("exit status 1")},
	} {
		if got := e.NextStep(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestIdentify: a compiler is identified by what it prints and by its file, once for each state of the file.
func TestIdentify(t *testing.T) {
	t.Parallel()
	script := "#!/bin/sh\necho run >>LOG\n" +
		"case $1 in --version) echo 'gcc 12.2'; echo more;; *) echo arm-none-eabi;; esac\n"
	dir := tree(t, nil)
	log := filepath.Join(dir, "log")
	script = strings.ReplaceAll(script, "LOG", log)
	cc := filepath.Join(dir, "cc")
	testkit.WriteProgram(t, cc, script)
	tools := &Tools{}
	want := Identity{Name: "gcc", Version: "gcc 12.2", Target: "arm-none-eabi", SHA256: cacheSum(script)}
	for range 2 {
		if got, err := tools.Identify(t.Context(), "gcc", cc); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if text, err := os.ReadFile(log); err != nil || string(text) != "run\nrun\n" {
		t.Errorf("%q, %v", text, err)
	}
	words := []string{"gcc", "gcc 12.2", "arm-none-eabi", cacheSum(script)}
	if got := want.Words(); !reflect.DeepEqual(got, words) {
		t.Errorf("%q", got)
	}
	script += "# changed\n"
	testkit.WriteProgram(t, cc, script)
	if got, err := tools.Identify(t.Context(), "gcc", cc); err != nil || got.SHA256 != cacheSum(script) {
		t.Errorf("%+v, %v", got, err)
	}
	_, err := tools.Identify(t.Context(), "gcc", filepath.Join(dir, "none"))
	if err == nil || !strings.HasPrefix(err.Error(), "gcc -") {
		t.Error(err)
	}
}

// TestOtherTools: a program is the one that the build command runs; without a version it is its file, and one that only
// starts others has no part.
func TestOtherTools(t *testing.T) {
	mute := "#!/bin/sh\nexit 1\n"
	dir := tree(t, map[string]string{
		"a": "#!/bin/sh\necho a 1\n", "mute": mute, "quiet": "#!/bin/sh\n", "starter": mute,
		"own/a": "#!/bin/sh\necho of the builder\n",
	})
	t.Setenv("PATH", dir+":/bin:/usr/bin")
	of := &templatefile.Description{Tools: []templatefile.Tool{
		{Name: "a"}, {Name: "mute"}, {Name: "quiet"}, {Name: "starter", Starter: true},
	}}
	e := Env{Template: of, Tools: &Tools{}, Programs: []string{filepath.Join(dir, "own")}}
	got, err := e.OtherTools(t.Context())
	want := []Identity{
		{Name: "a", Version: "of the builder"},
		{Name: "mute", Version: "SHA-256 " + cacheSum(mute)},
		{Name: "quiet", Version: "SHA-256 " + cacheSum("#!/bin/sh\n")},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	ended := testkit.Ended(t)
	if _, err := (Env{Template: of, Tools: &Tools{}}).OtherTools(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	of.Tools = append(of.Tools, templatefile.Tool{Name: "no-such-tool", Starter: true})
	missing := new(failure.MissingToolError)
	if _, err := e.OtherTools(t.Context()); !errors.As(err, &missing) {
		t.Error(err)
	}
}

// TestLibraries: a compiler's folders and libraries are those of its linker command; the first folder that has a
// library counts.
func TestLibraries(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"one/libm.a": "m1", "two/libm.a": "m2", "two/libc.a": "c", "two/libnano.a": "n",
		"wrong": "#!/bin/sh\necho 'cc: error: unrecognized command-line option -x' >&2; exit 1\n",
	})
	cc := filepath.Join(dir, "cc")
	testkit.WriteProgram(t, cc, "#!/bin/sh\necho \"$@\" >>"+dir+"/asked\n"+
		"echo ' /usr/lib/collect2 -L"+dir+"/one \"-L"+dir+"/two\" a.o -lc -lnano -lm' >&2\n")
	b := &boards.Board{CFlags: []string{"-mcpu=x"}, LDFlags: []string{"--specs=y"}}
	b.Toolchain.CC = "cc"
	tools := &Tools{}
	if all, err := tools.Libraries(t.Context(), cc, b); all != nil || err != nil {
		t.Errorf("of a process: %v, %v", all, err)
	}
	b.Memory = []boards.Region{{}}
	want := []Identity{
		{Name: "libc.a", Version: "SHA-256 " + cacheSum("c")},
		{Name: "libm.a", Version: "SHA-256 " + cacheSum("m1")},
		{Name: "libnano.a", Version: "SHA-256 " + cacheSum("n")},
	}
	for range 2 {
		if all, err := tools.Libraries(t.Context(), cc, b); err != nil || !reflect.DeepEqual(all, want) {
			t.Errorf("%+v, %v", all, err)
		}
	}
	testkit.WriteFile(t, filepath.Join(dir, "one", "libm.a"), "replaced")
	all, err := tools.Libraries(t.Context(), cc, b)
	must(t, err)
	if all[1].Version != "SHA-256 "+cacheSum("replaced") {
		t.Errorf("a replaced library: %+v", all)
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil || string(asked) != "-mcpu=x --specs=y -### /dev/null\n" {
		t.Errorf("%q, %v", asked, err)
	}
	lacks := filepath.Join(dir, "lacks")
	testkit.WriteProgram(t, lacks, "#!/bin/sh\nif [ -e "+dir+"/installed ]; then echo ' -L"+dir+"/two' >&2; "+
		"else echo 'cc: fatal error: cannot read spec file: No such file' >&2; exit 1; fi\n")
	if all, err := tools.Libraries(t.Context(), lacks, b); all != nil || err != nil {
		t.Errorf("without a library: %v, %v", all, err)
	}
	writeFile(t, filepath.Join(dir, "installed"), "")
	if all, err := tools.Libraries(t.Context(), lacks, b); err != nil || len(all) != 2 || all[0] != want[0] {
		t.Errorf("once it is installed: %v, %v", all, err)
	}
	ended := testkit.Ended(t)
	_, err = (&Tools{}).Libraries(ended, cc, b)
	if !errors.Is(err, context.Canceled) || failure.Of(err) == failure.Config {
		t.Error(err)
	}
	_, err = tools.Libraries(t.Context(), filepath.Join(dir, "wrong"), b)
	wantError(t, err, failure.Config, "cc: ", "unrecognized command-line option")
}

// TestOnce: callers at once share one answer, and a failure is not kept.
func TestOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tree(t, map[string]string{"x": ""}), "x")
	tools, asked := &Tools{}, 0
	fail := errors.New("no")
	ask := func() (int, error) { asked++; return asked, nil }
	if _, err := Once(t.Context(), tools, path, "q", func() (int, error) { return 0, fail }); !errors.Is(err, fail) {
		t.Error(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if v, err := Once(t.Context(), tools, path, "q", ask); v != 1 || err != nil {
				t.Errorf("%d, %v", v, err)
			}
		})
	}
	all.Wait()
	if v, err := Once(t.Context(), tools, path, "another", ask); v != 2 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	for n := range 2 { // of what has no file, nothing is kept
		if v, err := Once(t.Context(), tools, path+"x", "q", ask); v != 3+n || err != nil {
			t.Errorf("%d, %v", v, err)
		}
	}
	began, end := make(chan bool), make(chan bool)
	go func() {
		_, _ = Once(context.Background(), tools, path, "slow", func() (int, error) { close(began); <-end; return 7, nil })
	}()
	<-began
	ended := testkit.Ended(t)
	if _, err := Once(ended, tools, path, "slow", ask); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(end)
	if v, err := Once(t.Context(), tools, path, "slow", ask); v != 7 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
}

// TestTokens: jobs wait for one of the tokens, and more are taken only if they are free.
func TestTokens(t *testing.T) {
	t.Parallel()
	tools := &Tools{}
	first, err := tools.TakeJob(t.Context(), 3)
	must(t, err)
	second, err := tools.TakeJob(t.Context(), 99)
	must(t, err)
	n, more := tools.TakeMore(5)
	if n != 1 {
		t.Errorf("%d more of 3", n)
	}
	ended, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := tools.TakeJob(ended, 3); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	more()
	second()
	if n, more = tools.TakeMore(1); n != 1 {
		t.Errorf("%d", n)
	}
	more()
	if n, more = tools.TakeMore(5); n != 2 {
		t.Errorf("%d", n)
	}
	more()
	first()
	if n, _ = tools.TakeMore(5); n != 3 {
		t.Errorf("%d", n)
	}
}

// TestExplainSymbol: a linker's error about what the C library needs names the source that calls it.
func TestExplainSymbol(t *testing.T) {
	t.Parallel()
	folder := fstest.MapFS{
		"other.map": {Data: []byte("nothing\n")},
		"a.map": {Data: []byte("Archive member included to satisfy reference by file (symbol)\n\n" +
			"/lib/libc.a(lib_a-printf.o)\n                              build/model/lib1.o (printf)\n" +
			"/lib/libc.a(lib_a-sbrkr.o)\n                              /lib/libc.a(lib_a-printf.o) (_sbrk_r)\n" +
			"/lib/libc.a(lib_a-getpid.o)\n                              build/model/lib1.o (_getpid_r)\n\n")},
	}
	source := func(object string) string { return "source of " + object }
	tail := func(function, symbol string) error {
		return &ToolError{Tool: "make", Err: errors.New("exit status 2"), Tail: []byte("ld: /lib/libc.a(x.o): in function `" +
			function + "':\nx.c:(.text+0xc): undefined reference to `" + symbol + "'\n")}
	}
	for _, c := range []struct {
		err        error
		want, next string
	}{
		{
			tail("_sbrk_r", "_sbrk"), "source of build/model/lib1.o calls printf, but firmware has no standard streams: make",
			"use TVMLogf, whose lines the host prints, or remove the call",
		},
		{
			tail("_getpid_r", "_getpid"), "source of build/model/lib1.o calls _getpid_r, but firmware has no _getpid: make",
			"remove the call",
		},
		{tail("unknown", "_sbrk"), "make: exit status 2", ""},
		{
			tail("f", "__aeabi_read_tp"), "a variable is of a thread, but firmware has no threads: make",
			"make it a static variable",
		},
		{errors.New("else"), "else", ""},
	} {
		got := ExplainSymbol(c.err, folder, source)
		if !strings.HasPrefix(got.Error(), c.want) || !strings.HasPrefix(failure.Next(got), c.next) ||
			!errors.Is(got, c.err) {
			t.Errorf("%v; %s", got, failure.Next(got))
		}
	}
}
