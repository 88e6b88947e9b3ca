// This file shows the progress of a step.

package console

import (
	"fmt"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
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
	drawn  *progressbar.ProgressBar
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
	if total != p.total {
		p.drawn = nil
	}
	p.what, p.done, p.total = what, done, total
	if p.drawn != nil {
		p.drawn.Describe(what)
	}
}

// ShowLines shows lines in place of a bar on a terminal, else only the first of them from time to time. lines is called
// from another goroutine for each picture, and must not call the Console.
func (p *Progress) ShowLines(lines func() []string) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.c.clearBar()
	p.lines, p.drawn = lines, nil
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
		p.draw()
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

// drawLines draws the lines over those drawn before, each cut to the terminal's width.
func (p *Progress) drawLines() {
	lines := p.lines()
	p.c.clearBar()
	for _, line := range lines {
		if all := []rune(line); len(all) > p.c.columns() {
			line = string(all[:p.c.columns()-1]) + "…"
		}
		fmt.Fprintln(p.c.notes, line)
	}
	p.shown = len(lines)
}

// clearLines erases what drawLines has drawn.
func (p *Progress) clearLines() {
	if p.shown > 0 {
		fmt.Fprintf(p.c.notes, "\x1b[%dA\x1b[J", p.shown)
	}
	p.shown = 0
}

func (p *Progress) draw() {
	if p.lines != nil {
		p.drawLines()
		return
	}
	if p.drawn == nil {
		total := p.total
		if total == 0 {
			total = -1
		}
		p.drawn = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(p.c.notes),
			progressbar.OptionSetDescription(p.what),
			progressbar.OptionSetElapsedTime(true),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSpinnerType(14),
		)
	}
	if p.total > 0 {
		_ = p.drawn.Set(p.done) // ignore errors of drawing
		return
	}
	_ = p.drawn.Add(1)
}
