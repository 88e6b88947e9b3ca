//go:build !windows

package flasher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/zephyrtest"
)

// wrapped puts a shell script before a tool: TOOL in it is the tool's path.
func wrapped(t *testing.T, tool, script string) func(string) (string, error) {
	t.Helper()
	path, err := testkit.FindTool(tool)
	if err != nil {
		t.Skipf("%s is not installed", tool)
	}
	wrapper := filepath.Join(t.TempDir(), tool)
	text := "#!/bin/sh\n" + strings.ReplaceAll(script, "TOOL", command.Quote(path)) + "\n"
	testkit.WriteProgram(t, wrapper, text)
	return func(name string) (string, error) {
		if name == tool {
			return wrapper, nil
		}
		return testkit.FindTool(name)
	}
}

// A step that was not done is an error even if a wrapper makes the exit status 0. Output besides marks, and repeated
// marks, are ignored.
func TestExitStatusOfWrapper(t *testing.T) {
	t.Parallel()
	onBoard(t, 0, func(t *testing.T, b *rig, tool string) {
		b.conf.Find = wrapped(t, tool, `echo '0000042 W sector E of bank C was slow, see /srv/lab E left/notes C [x]'
TOOL "$@" 2>&1 | tee /dev/stderr`)
		var steps []string
		b.conf.Step = func(s string) { steps = append(steps, s) }
		p := created(t, tool, b.conf)
		job := Job{Restart: true}
		for i := range 3 {
			job.Erase, job.Write = append(job.Erase, b.sector(i)), append(job.Write, b.pattern(i, 0))
		}
		job.Verify = job.Write
		ctx := t.Context()
		must(t, p.Do(ctx, job))
		wantEqual(t, strings.Count(strings.Join(steps, " "), "verified"), 1, steps)
		for i := range 3 {
			job.Write[i] = b.pattern(i, 7)
		}
		job.Verify = job.Write
		whole := b.ask("status", nil).Transfers
		b.ask("faults", &chipkeeper.Faults{UnplugAfter: int(whole / 2)})
		err := p.Do(ctx, job)
		if c := failure.Of(err); err == nil || c != failure.Flash && c != failure.Verify {
			t.Errorf("unplugged after %d of %d transfers: class %v: %v", whole/2, whole, c, err)
		}
		all := slices.Concat(job.Write[0].Data, job.Write[1].Data, job.Write[2].Data)
		if bytes.Equal(b.flash()[:len(all)], all) {
			t.Error("the flash was not interrupted: the test tests nothing")
		}
		differs := Segment{job.Write[0].Addr, b.flash()[:b.size]}
		differs.Data[100] ^= 1
		wantError(t, p.Do(ctx, Job{Verify: []Segment{differs}}), failure.Verify, fmt.Sprintf("%08x", differs.Addr+100))
		b.ask("faults", &chipkeeper.Faults{UnplugAfter: 100})
		wantError(t, last(p.(flashReader).Read(ctx, []Range{{b.base, 4 * b.size}})), failure.Flash)
	})
}

// Erasing is not called for sectors whose erasing cannot have begun.
func TestErasingsThatBegan(t *testing.T) {
	says := func(lines ...string) string {
		text := "#!/bin/sh\n"
		for _, l := range lines {
			text += strings.Replace(l, "say ", "echo boardsmith: ", 1) + "\n"
		}
		return text
	}
	const ready = "say " + compared
	job := Job{Erase: []boards.Sector{{Addr: 0x0, Size: 64}, {Addr: 0x40, Size: 64}, {Addr: 0x80, Size: 64}}}
	for _, c := range []struct {
		name string
		tool string // a script; "" means that there is none
		want []uint64
	}{
		{"missing", "", nil},
		{"no probe", says("exit 1"), nil},
		{"the first fails", says("say connected", ready, "exit 1"), []uint64{0}},
		{"the second fails", says("say connected", ready, "say erased 0x0", "exit 1"), []uint64{0, 0x40}},
		{"it stops without a word", says("say connected", ready, "say erased 0x0", "exit 0"), []uint64{0, 0x40}},
		{"the sectors differ", says("say connected", "exit 1"), nil},
		{"it hangs", says("say connected", ready, "exec sleep 60"), []uint64{0, 0x40, 0x80}},
		{
			"all", says("say connected", ready, "say erased 0x0", "say erased 0x40", "say erased 0x80", "say finished"),
			[]uint64{0, 0x40, 0x80},
		},
	} {
		path := filepath.Join(t.TempDir(), "tool")
		testkit.WriteProgram(t, path, c.tool)
		for _, programmer := range []string{"openocd", "pyocd"} {
			t.Run(c.name+"/"+programmer, func(t *testing.T) {
				t.Parallel()
				conf := Config{Flash: boards.Flash{Chip: "nrf51"}}
				if strings.Contains(c.tool, "sleep") {
					conf.limit = 2 * time.Second
				}
				conf.Find = func(string) (string, error) {
					if c.tool == "" {
						return "", failure.Errorf(failure.ToolMissing, "none")
					}
					return path, nil
				}
				var got []uint64
				reporting := job
				reporting.Erasing = func(addr uint64) { got = append(got, addr) }
				err := created(t, programmer, conf).Do(t.Context(), reporting)
				if (err == nil) != (c.name == "all") || !slices.Equal(got, c.want) {
					t.Errorf("reported %#x, want %#x: %v", got, c.want, err)
				}
			})
		}
	}
}

// A tool that selects probes by serial is not started if two attached probes have the same; one that selects by USB
// path is.
func TestSharedSerial(t *testing.T) {
	t.Parallel()
	build := zephyrtest.Build(t, "pyocd", map[string][]string{"pyocd": {"--target=nrf52840"}}, "")
	stlink, dap := []string{"interface/stlink.cfg"}, []string{"interface/cmsis-dap.cfg"}
	ctx := t.Context()
	for _, c := range []struct {
		programmer string
		scripts    []string
		path       string
		refused    bool
	}{
		{"pyocd", nil, "1-2", true},
		{"west", nil, "1-2", true},
		{"openocd", dap, "1-2", true},
		{"openocd", stlink, "", true},
		{"openocd", stlink, "1-2", false},
	} {
		conf := Config{
			Build: build, Probe: Probe{Serial: "S1", Shared: true, USBPath: c.path},
			Flash: boards.Flash{Scripts: c.scripts, Chip: "nrf52840"},
			Find:  func(string) (string, error) { return "/bin/false", nil },
		}
		p := created(t, c.programmer, conf)
		_, readErr := p.(flashReader).Read(ctx, []Range{{0, 64}})
		for name, err := range map[string]error{"do": p.Do(ctx, Job{}), "read": readErr} {
			if refused := failure.Of(err) == failure.Config &&
				strings.Contains(err.Error(), `also has the serial "S1"`); refused != c.refused || err == nil {
				t.Errorf("%s, %v, path %q, %s: %v", c.programmer, c.scripts, c.path, name, err)
			}
		}
		if server, ok := p.(debugServer); ok {
			err := server.Serve(ctx, false, 3333, nil)
			wantEqual(t, failure.Of(err) == failure.Config, c.refused, c.programmer)
		}
	}
}

// A gdb server that is not ready in time is ended, before Serve returns.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	used := func(context.Context) error { return errors.New("used") }
	hangs := server{name: gdbServer, command: shell("exec sleep 600"), ready: "ready"}
	wantError(t, hangs.serve(ctx, 10*time.Millisecond, used), failure.Timeout, "hangs")
	must(t, ctx.Err())
}

// TestServerPortTaken: a server that cannot listen is not used, also if it goes on, as OpenOCD does.
func TestServerPortTaken(t *testing.T) {
	t.Parallel()
	const taken = "echo \"Error: couldn't bind gdb to socket on port 3333: Address already in use\" >&2; "
	for _, end := range []string{"echo ready >&2; exec sleep 600", "exit 1"} {
		used := func(context.Context) error { return errors.New("used") }
		busy := server{name: gdbServer, command: shell(taken + end), ready: "ready"}
		wantError(t, busy.serve(t.Context(), time.Hour, used), failure.Config, "another program listens")
	}
}

// TestServerEnds: a server that ends while it is used, as OpenOCD does when its probe is gone, ends the use, and the
// error has the server's own words.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	for script, text := range map[string]string{
		"echo ready >&2; echo probe gone >&2; exit 1": "probe gone", "echo ready; exit 0": "",
	} {
		s := server{name: "RTT server", command: shell(script), ready: "ready"}
		ctx := testkit.Context(t)
		wantError(t, s.serveWatched(ctx, time.Hour, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}), failure.Transport, text)
		must(t, ctx.Err())
	}
}

// TestTimeLimits computes the limits of jobs as docs/devices.md states them.
func TestTimeLimits(t *testing.T) {
	job := Job{
		Erase:  []boards.Sector{{Addr: 0, Size: 4096}, {Addr: 4096, Size: 4096}},
		Write:  []Segment{{Data: make([]byte, 3<<10)}},
		Verify: []Segment{{Data: make([]byte, 7<<10)}},
	}
	if got, want := (Config{}).timeout(job), (30+2*5+3+7)*time.Second; got != want {
		t.Errorf("a job may take %v, not %v", got, want)
	}
	if got, want := (Config{}).readTimeout([]Range{{Size: 5 << 10}}), (30+5)*time.Second; got != want {
		t.Errorf("reading may take %v, not %v", got, want)
	}
	wantEqual(t, (Config{limit: time.Second}).timeout(job), time.Second, "a job may take")
}
