//go:build !windows

package flasher

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
)

// wrapped puts a shell script before a tool: TOOL in it is the tool's path.
func wrapped(t *testing.T, tool, script string) func(string) (string, error) {
	t.Helper()
	path, err := findTool(tool)
	if err != nil {
		t.Skipf("%s is not installed", tool)
	}
	wrapper := filepath.Join(t.TempDir(), tool)
	text := "#!/bin/sh\n" + strings.ReplaceAll(script, "TOOL", command.Quote(path)) + "\n"
	if err := os.WriteFile(wrapper, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return func(name string) (string, error) {
		if name == tool {
			return wrapper, nil
		}
		return findTool(name)
	}
}

// A tool behind a wrapper whose exit status is always 0: what it did not do is an error all the same.
func TestExitStatusOfWrapper(t *testing.T) {
	onMicrobit(t, func(t *testing.T, b *bench, tool string) {
		b.conf.Find, b.conf.Timeout = wrapped(t, tool, `TOOL "$@" 2>&1 | tee log`), 30*time.Second
		p := programmers[b.conf.Flash.Runner](b.conf)
		job := Job{Restart: true}
		for i := range 3 {
			job.Erase, job.Write = append(job.Erase, b.sector(i)), append(job.Write, b.pattern(i, 0))
		}
		job.Verify = job.Write
		if err := p.Do(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			job.Write[i] = b.pattern(i, 7)
		}
		job.Verify = job.Write
		whole := b.ask(virtualprobe.Request{Do: "status"}).Transfers
		b.ask(virtualprobe.Request{Do: "faults", Faults: &virtualprobe.Faults{UnplugAfter: int(whole / 2)}})
		err := p.Do(t.Context(), job)
		if c := failure.Of(err); err == nil || c != failure.Flash && c != failure.Verify {
			t.Errorf("unplugged after %d of %d transfers: class %v: %v", whole/2, whole, c, err)
		}
		t.Logf("unplugged after %d of %d transfers: %v", whole/2, whole, err)
		all := slices.Concat(job.Write[0].Data, job.Write[1].Data, job.Write[2].Data)
		if bytes.Equal(b.flash()[:len(all)], all) {
			t.Error("the flash was not cut short: the test tests nothing")
		}
		differs := Segment{job.Write[0].Addr, b.flash()[:b.size]}
		differs.Data[100] ^= 1
		var d *VerifyError
		if err := p.Do(t.Context(), Job{Verify: []Segment{differs}}); !errors.As(err, &d) || d.Addr != differs.Addr+100 {
			t.Errorf("a difference: %v", err)
		}
		b.ask(virtualprobe.Request{Do: "faults", Faults: &virtualprobe.Faults{UnplugAfter: 100}})
		if _, err := p.Read(t.Context(), []Range{{b.base, 4 * b.size}}); failure.Of(err) != failure.Flash {
			t.Errorf("reading: %v", err)
		}
	})
}

// What a tool logs besides its marks decides nothing, nor do marks that come twice.
func TestOtherLines(t *testing.T) {
	onMicrobit(t, func(t *testing.T, b *bench, tool string) {
		b.conf.Find = wrapped(t, tool, `echo '0000042 W sector E of bank C was slow, see /srv/lab E left/notes C [x]'
TOOL "$@" 2>&1 | tee /dev/stderr`)
		var steps []string
		b.conf.Step = func(s string) { steps = append(steps, s) }
		job := Job{Erase: []Sector{b.sector(0)}, Write: []Segment{b.pattern(0, 3)}, Verify: []Segment{b.pattern(0, 3)}}
		if err := programmers[b.conf.Flash.Runner](b.conf).Do(t.Context(), job); err != nil {
			t.Error(err)
		}
		if n := strings.Count(strings.Join(steps, " "), "verified"); n != 1 {
			t.Errorf("steps: %q", steps)
		}
	})
}
