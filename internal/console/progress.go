// This file shows the progress of a step.

package console

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// A Progress shows the progress of a step: nothing in its first second, then a bar on a terminal, else an
// occasional line.
type Progress struct {
	c     *Console
	what  string
	total int // steps; 0 if unknown
	start time.Time
	quit  chan struct{}
	ended sync.WaitGroup

	// guarded by c.mu
	lines  func() []string // in place of a bar; nil: none
	shown  int             // lines on the terminal
	done   int
	drawn  int // pictures
	nextAt time.Duration
}

// The first plain line comes after quiet, later ones at growing intervals up to quietest.
const (
	quiet    = time.Second
	quietest = 30 * time.Second
)

// Start begins a progress of total steps, 0 if unknown. It ends with End, or with the target.
func (c *Console) Start(what string, total int) *Progress {
	c.endProgress()
	p := &Progress{c: c, what: what, total: total, start: time.Now(), quit: make(chan struct{}), nextAt: quiet}
	c.mu.Lock()
	c.bar = p
	c.mu.Unlock()
	p.ended.Add(1)
	go p.watch()
	return p
}

func (c *Console) endProgress() {
	c.mu.Lock()
	p := c.bar
	c.mu.Unlock()
	if p != nil {
		p.End()
	}
}

// Add counts n steps as done.
func (p *Progress) Add(n int) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.done += n
}

// Show sets what is being done, and that it is step done of total; total is 0 if unknown.
func (p *Progress) Show(what string, done, total int) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.what, p.done, p.total = what, done, total
}

// ShowLines shows lines in place of a bar on a terminal, else only the first of them from time to time. lines is called
// from another goroutine for each picture, and must not call the Console.
func (p *Progress) ShowLines(lines func() []string) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.lines = lines
}

// Update calls Show of the current progress, if any.
func (c *Console) Update(what string, done, total int) {
	c.mu.Lock()
	p := c.bar
	c.mu.Unlock()
	if p != nil {
		p.Show(what, done, total)
	}
}

// End removes the bar. It may be called twice.
func (p *Progress) End() {
	p.c.mu.Lock()
	if p.c.bar != p {
		p.c.mu.Unlock()
		return
	}
	p.c.clearBar()
	p.c.bar = nil
	p.c.mu.Unlock()
	close(p.quit)
	p.ended.Wait()
}

func (p *Progress) watch() {
	defer p.ended.Done()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-tick.C:
			p.print()
		}
	}
}

func (p *Progress) print() {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	spent := time.Since(p.start)
	if p.c.bar != p || spent < quiet {
		return
	}
	if p.c.terminal {
		p.draw(spent)
		return
	}
	if spent < p.nextAt {
		return
	}
	p.nextAt = spent + min(quietest, spent)
	if p.lines != nil {
		fmt.Fprintf(p.c.notes, "boardsmith: %s\n", p.lines()[0])
		return
	}
	if p.total > 0 {
		fmt.Fprintf(p.c.notes, "boardsmith: %s: %d of %d, %.0f s\n", p.what, p.done, p.total, spent.Seconds())
		return
	}
	fmt.Fprintf(p.c.notes, "boardsmith: %s: %.0f s\n", p.what, spent.Seconds())
}

// draw draws over what it drew before.
func (p *Progress) draw(spent time.Duration) {
	columns := p.c.columns()
	var lines []string
	if p.lines != nil {
		lines = p.lines()
	} else {
		lines = []string{p.bar(spent, columns)}
	}
	text := p.erasure()
	for _, line := range lines {
		text += cut(line, columns) + "\n"
	}
	p.shown = len(lines)
	p.drawn++
	_, _ = io.WriteString(p.c.notes, text) // ignore errors of drawing
}

// barWidth is the width of a bar on a terminal that has room for it, in columns; narrowest the least that is shown.
const (
	barWidth  = 30
	narrowest = 5
)

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// bar returns the line of a step in progress; what the step does is cut before its numbers are.
func (p *Progress) bar(spent time.Duration, columns int) string {
	numbers := fmt.Sprintf(" [%v]", spent.Truncate(time.Second))
	if p.total <= 0 {
		turn := string(spinner[p.drawn%len(spinner)])
		return turn + " " + cut(p.what, columns-len("- ")-len(numbers)) + numbers
	}
	done := max(0, min(p.done, p.total))
	percent := fmt.Sprintf(" %3d%%", 100*done/p.total)
	what := cut(p.what, columns-len(percent)-len(numbers))
	width := min(barWidth, columns-len([]rune(what))-len(percent)-len(" ||")-len(numbers))
	if width < narrowest {
		return what + percent + numbers
	}
	filled := width * done / p.total
	bar := strings.Repeat("█", filled) + strings.Repeat(" ", width-filled)
	return what + percent + " |" + bar + "|" + numbers
}

// cut returns text in at most n columns, but at least one.
func cut(text string, n int) string {
	if all := []rune(text); len(all) > max(1, n) {
		return string(all[:max(1, n)-1]) + "…"
	}
	return text
}

// erasure returns what erases the lines that draw has drawn, from the terminal's last line on.
func (p *Progress) erasure() string {
	if p.shown == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\x1b[J", p.shown)
}
