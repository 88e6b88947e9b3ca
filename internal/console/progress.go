// This file shows that a step takes time.

package console

import (
	"fmt"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A Progress shows that a step takes time: nothing in its first second, then a bar on a terminal, else a plain line
// now and then.
type Progress struct {
	c     *Console
	what  string
	total int // steps; 0 where it is not known
	start time.Time
	quit  chan struct{}
	ended sync.WaitGroup

	// guarded by c.mu
	done   int
	drawn  *progressbar.ProgressBar
	nextAt time.Duration
}

// The first plain line comes after a second, then ever more rarely up to one in quietest.
const (
	quiet    = time.Second
	quietest = 30 * time.Second
)

// Start begins a progress of total steps, 0 if they cannot be counted. It ends with End, or with the target.
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

// Show says what is being done, as step done of total; total is 0 where that is not known.
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

// Update is Show of the progress that was begun last; it does nothing if that has ended.
func (c *Console) Update(what string, done, total int) {
	c.mu.Lock()
	p := c.bar
	c.mu.Unlock()
	if p != nil {
		p.Show(what, done, total)
	}
}

// End takes the bar away. It may be called twice.
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
	if p.total > 0 {
		fmt.Fprintf(p.c.notes, "boardsmith: %s: %d of %d, %.0f s\n", p.what, p.done, p.total, spent.Seconds())
		return
	}
	fmt.Fprintf(p.c.notes, "boardsmith: %s: %.0f s\n", p.what, spent.Seconds())
}

func (p *Progress) draw() {
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
		_ = p.drawn.Set(p.done) // a bar that cannot be drawn is no failure of the step
		return
	}
	_ = p.drawn.Add(1)
}
