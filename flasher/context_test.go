//go:build unix

package flasher

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/zephyrtest"
)

// TestContexts ends the contexts of programmers before a call and while the tool hangs.
func TestContexts(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Flash: boards.Flash{Chip: "nrf51", Scripts: []string{"target/nrf51.cfg"}},
		Probe: Probe{Emulated: &Emulated{"localhost:1", "localhost:2"}},
		Find:  func(string) (string, error) { return tool, nil }, Log: hclog.NewNullLogger(),
	}
	job := Job{
		Erase: []boards.Sector{{Size: 1024}}, Write: []Segment{{Data: []byte{1}}},
		Verify: []Segment{{Data: []byte{1}}},
	}
	withRunner := c
	withRunner.Build = zephyrtest.Build(t, "nrfjprog", map[string][]string{"nrfjprog": nil}, "")
	for _, name := range []string{"openocd", "pyocd"} {
		p := created(t, name, c)
		calls := failuretest.Calls{
			"Programmer.Do": func(ctx context.Context) error { return p.Do(ctx, job) },
			"Reader.Read":   func(ctx context.Context) error { _, err := p.(Reader).Read(ctx, []Range{{0, 16}}); return err },
			"Inspector.Inspect": func(ctx context.Context) error {
				_, _, err := p.(Inspector).Inspect(ctx, []Range{{0, 16}})
				return err
			},
			"DebugServer.Serve": func(ctx context.Context) error {
				return p.(DebugServer).Serve(ctx, AfterReset, 1, func(context.Context) error { return nil })
			},
		}
		if s, ok := p.(RTTServer); ok {
			calls["RTTServer.ServeRTT"] = func(ctx context.Context) error {
				return s.ServeRTT(ctx, 1, []Range{{0, 16}}, func(context.Context) error { return nil })
			}
		} else {
			calls["RTTServer.ServeRTT"] = calls["DebugServer.Serve"] // only OpenOCD serves RTT
		}
		calls["MissingScripts"] = func(ctx context.Context) error {
			_, err := MissingScripts(ctx, tool, []string{"a.cfg"})
			return err
		}
		failuretest.Ended(t, calls)
		failuretest.Waiting(t, calls)
		runner := created(t, "west", withRunner)
		calls["Programmer.Do"] = func(ctx context.Context) error { return runner.Do(ctx, job) }
		failuretest.Waiting(t, calls)
	}
}

// With only Flash set in Config, a programmer finds its tool on PATH and logs nothing.
func TestZeroConfig(t *testing.T) {
	dir := t.TempDir()
	output := "#!/bin/sh\necho '" + mark + "connected'\n"
	for _, name := range []string{"openocd", "pyocd"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(output), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, name := range []string{"openocd", "pyocd"} {
		p, err := New(name, Config{Flash: boards.Flash{Chip: "nrf51"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Do(t.Context(), Job{Restart: true}); err == nil {
			t.Errorf("%s: no error for a tool that did nothing", name)
		}
		if p.Commands(Job{}) == nil {
			t.Errorf("%s has no commands", name)
		}
	}
}

// TestFailedFolder: the command in the error can be repeated for a while; other folders are removed.
func TestFailedFolder(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	old, inUse := filepath.Join(tmp, folderName+"1"), filepath.Join(tmp, folderName+"2")
	longAgo := time.Now().Add(-2 * failedFolderLife)
	for _, name := range []string{filepath.Join(old, failedMark), filepath.Join(inUse, "openocd.cfg")} {
		if err := os.Mkdir(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{name, filepath.Dir(name)} {
			if err := os.Chtimes(path, longAgo, longAgo); err != nil {
				t.Fatal(err)
			}
		}
	}
	tool := filepath.Join(tmp, "tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\nls segment0.bin\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := New("openocd", Config{
		Flash: boards.Flash{Chip: "nrf51"},
		Find:  func(string) (string, error) { return tool, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	job := Job{Verify: []Segment{{0, []byte{1, 2, 3, 4}}}}
	err = p.Do(t.Context(), job)
	repeat, ok := strings.CutPrefix(failure.Next(err), "to see its whole output: ")
	if output, _ := exec.Command("sh", "-c", repeat).Output(); !ok || string(output) != "segment0.bin\n" {
		t.Errorf("%s printed %q", repeat, output)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the folder of an earlier run was not removed")
	}
	if _, err := os.Stat(inUse); err != nil {
		t.Errorf("the folder of a current run: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	p, err = New("openocd", Config{
		Flash: boards.Flash{Chip: "nrf51"},
		Find:  func(string) (string, error) { cancel(); return tool, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Do(ctx, job) // it is stopped
	if folders, _ := filepath.Glob(filepath.Join(tmp, folderName+"*")); len(folders) != 2 {
		t.Errorf("folders %q, want those of the failed and of the current run", folders)
	}
}
