package console

import (
	"bytes"
	"context"
	"fmt"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// screen returns the lines that a terminal shows of what was printed, and fails the test for one that does not fit.
func screen(t *testing.T, printed string, columns int) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(printed) {
		for {
			up := 0
			if n, _ := fmt.Sscanf(line, "\x1b[%dA", &up); n == 0 {
				break
			}
			_, line, _ = strings.Cut(line, "\x1b[J")
			lines = lines[:len(lines)-up]
		}
		if line == "" {
			continue
		}
		text, ended := strings.CutSuffix(line, "\n")
		if !ended || strings.ContainsAny(text, "\x1b\r") || widthOf(text) > columns {
			t.Fatalf("%q is not a line of %d columns", line, columns)
		}
		lines = append(lines, text)
	}
	return lines
}

// TestBarCancelled: what others print below the bar of a cancelled target stays.
func TestBarCancelled(t *testing.T) {
	_, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM) // starts Go's own goroutine, outside the bubble
	defer stop()
	synctest.Test(t, func(t *testing.T) {
		var printed bytes.Buffer
		c := New(testkit.Environment(), &printed, &printed)
		c.terminal, c.size = true, func() (int, int) { return 40, 5 }
		ctx, cancel := context.WithCancel(t.Context())
		_ = c.Do(ctx, "build", func(ctx context.Context) error {
			c.Start("build", 0)
			time.Sleep(2 * quiet)
			synctest.Wait()
			_, _ = printed.WriteString("cancelling\n") // by mage; nothing draws now
			cancel()
			synctest.Wait()
			time.Sleep(quiet)
			return ctx.Err()
		})
		got := screen(t, printed.String(), 40)
		want := []string{"cancelling", "boardsmith: error: interrupted"}
		if len(got) != 3 || !strings.Contains(got[0], "build [2s]") || !slices.Equal(got[1:], want) {
			t.Errorf("the terminal shows %q", got)
		}
	})
}

// TestBar: a terminal shows one picture of a step in progress, whatever it changes to, in lines that fit, and nothing
// of it when the step ends.
func TestBar(t *testing.T) {
	const columns = 40
	synctest.Test(t, func(t *testing.T) {
		var printed bytes.Buffer
		c := New(testkit.Environment(), &printed, &printed)
		c.terminal, c.size = true, func() (int, int) { return columns, 5 }
		p := c.Start("short", 3)
		shows := func(want ...string) {
			t.Helper()
			time.Sleep(200 * time.Millisecond) // two pictures
			synctest.Wait()
			c.mu.Lock()
			got := screen(t, printed.String(), columns)
			c.mu.Unlock()
			matches := func(line, want string) bool { return regexp.MustCompile("^" + want + "$").MatchString(line) }
			if !slices.EqualFunc(got, want, matches) {
				t.Errorf("the terminal shows %q, want %q", got, want)
			}
		}
		shows()
		time.Sleep(quiet)
		shows(`short   0% \| {22}\| \[1s\]`)
		p.Show("the same step with much to say", 2, 4) // no room for a bar
		shows(`the same step with much to say  50% \[1s\]`)
		p.Show("build: src/a_file_with_quite_a_long_name.c", 1, 4)
		shows(`build: src/a_file_with_quite_…  25% \[1s\]`)
		p.Show("build: src/漢字漢字漢字漢字漢字漢字.c", 1, 4)
		shows(`build: src/漢字漢字漢字漢字漢…  25% \[2s\]`)
		p.Show("build: a\tb\x1b[2J\n", 1, 4)
		shows(`build: a\?b\?\[2J\?  25% \|█+ +\| \[\ds\]`)
		p.Show("build", 7, 7)
		shows(`build 100% \|█{22}\| \[2s\]`)
		p.Show("build", 1, 7) // the next one, of as many steps
		shows(`build  14% \|█{3} {19}\| \[2s\]`)
		p.Show("how long it takes nobody knows, nor can anybody", 0, 0)
		shows(`[⠀-⣿] how long it takes nobody knows, … \[\ds\]`)
		c.Notef("a line between")
		shows(`boardsmith: a line between`, `[⠀-⣿] how long it takes nobody knows, … \[\ds\]`)
		p.ShowLines(func() []string { return []string{"tune", "  host " + strings.Repeat("long ", 9)} })
		shows(`boardsmith: a line between`, `tune`, `  host long long long long long long lo…`)
		c.Printf("a result")
		p.ShowLines(func() []string { return []string{"tune"} })
		shows(`boardsmith: a line between`, `a result`, `tune`)
		p.ShowLines(func() []string { return strings.Fields("1 2 3 4 5") })
		shows(`boardsmith: a line between`, `a result`, `1`, `2`, `… 3 lines more`) // the top line stays free
		p.End()
		shows(`boardsmith: a line between`, `a result`)
	})
}
