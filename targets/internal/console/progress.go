// This file shows the progress of a step.

package console

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/text/width"
)

// A Progress shows the progress of a step: nothing in its first second, then a bar on a terminal, else an
// occasional line.
type Progress struct {
	c     *Console
	step  string
	total int // steps; 0 if unknown
	start time.Time
	quit  chan struct{}
	ended sync.WaitGroup

	// guarded by c.mu
	lines      func() []string // in place of a bar; nil: none
	drawnLines int             // on the terminal
	done       int
	drawn      int // pictures
	nextAt     time.Duration
}

// The first plain line comes after quiet, later ones at growing intervals up to quietest.
const (
	quiet    = time.Second
	quietest = 30 * time.Second
)

// Start begins a progress of total steps, 0 if unknown. It ends with End, or with the target.
func (c *Console) Start(step string, total int) *Progress {
	c.endProgress()

	p := &Progress{c: c, step: step, total: total, start: time.Now(), quit: make(chan struct{}), nextAt: quiet}

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
func (p *Progress) Show(step string, done, total int) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.step, p.done, p.total = step, done, total
}

// ShowLines shows lines in place of a bar on a terminal, else only the first of them from time to time. lines is called
// from another goroutine for each picture, and must not call the Console.
func (p *Progress) ShowLines(lines func() []string) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.lines = lines
}

// Update calls Show of the current progress, if any.
func (c *Console) Update(step string, done, total int) {
	c.mu.Lock()
	p := c.bar
	c.mu.Unlock()
	if p != nil {
		p.Show(step, done, total)
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

	// Without the lock: watch takes it, and End waits for watch.
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
	if p.c.bar != p || p.c.left || spent < quiet {
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
		fmt.Fprintf(p.c.notes, "boardsmith: %s: %d of %d, %.0f s\n", p.step, p.done, p.total, spent.Seconds())
		return
	}
	fmt.Fprintf(p.c.notes, "boardsmith: %s: %.0f s\n", p.step, spent.Seconds())
}

// draw draws over what it drew before.
func (p *Progress) draw(spent time.Duration) {
	columns, rows := p.c.size()

	var lines []string
	if p.lines != nil {
		lines = p.lines()
	} else {
		lines = []string{p.bar(spent, columns)}
	}
	// The cursor is below, and the top line stays free: to erase from there is to clear the screen, which some terminals
	// keep a copy of.
	if room := max(1, rows-2); len(lines) > room {
		lines = append(lines[:room-1:room-1], fmt.Sprintf("… %d lines more", len(lines)-room+1))
	}

	text := p.erasure()
	for _, line := range lines {
		text += cut(line, columns) + "\n"
	}

	p.drawnLines = len(lines)
	p.drawn++
	_, _ = io.WriteString(p.c.notes, text) // ignore errors of drawing
}

// barWidth is the length of a bar on a terminal that has room for it, in columns; narrowest the least that is shown.
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
		return turn + " " + cut(p.step, columns-len("- ")-len(numbers)) + numbers
	}

	done := max(0, min(p.done, p.total))
	percent := fmt.Sprintf(" %3d%%", 100*done/p.total)

	step := cut(p.step, columns-len(percent)-len(numbers))
	long := min(barWidth, columns-widthOf(step)-len(percent)-len(" ||")-len(numbers))

	if long < narrowest {
		return step + percent + numbers
	}

	filled := long * done / p.total
	bar := strings.Repeat("█", filled) + strings.Repeat(" ", long-filled)
	return step + percent + " |" + bar + "|" + numbers
}

// cut returns text in at most n columns, but at least one, with a question mark for what cannot be printed.
func cut(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)

	if widthOf(text) <= max(1, n) {
		return text
	}

	used := len("-")
	for i, r := range text {
		if used += widthOf(string(r)); used > n {
			return text[:i] + "…"
		}
	}
	return "…"
}

// widthOf returns the columns that text takes on a terminal.
func widthOf(text string) (columns int) {
	for _, r := range text {
		switch kind := width.LookupRune(r).Kind(); {
		case unicode.Is(unicode.Mn, r): // joins the one before
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			columns += 2
		default:
			columns++
		}
	}
	return columns
}

// erasure returns what erases the lines that draw has drawn, from the terminal's last line on.
func (p *Progress) erasure() string {
	if p.drawnLines == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\x1b[J", p.drawnLines)
}
