// This file speaks: to people in text, to programs in JSON lines, and while something lasts, of its progress.

package targets

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// An output is where one mage run prints. Results go to stdout; progress, errors and logs go to stderr. With JSON
// lines on stdout the results for people go to stderr too.
type output struct {
	people   io.Writer // what a step found out
	notes    io.Writer // stderr
	json     io.Writer // nil unless JSON=1
	terminal bool      // notes is a terminal
	step     string    // the running target's name

	mu   sync.Mutex // guards notes, bar and lost
	bar  *progress  // nil while nothing lasts
	lost error      // why a result could not be written
}

func newOutput(stdout, stderr io.Writer, lines bool) *output {
	o := &output{people: stdout, notes: stderr}
	if lines {
		o.people, o.json = stderr, stdout
	}
	if f, ok := stderr.(*os.File); ok {
		o.terminal = term.IsTerminal(int(f.Fd()))
	}
	return o
}

// printf prints a line, or lines, of a step's result.
func (o *output) printf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clearBar()
	_, err := fmt.Fprintf(o.people, format+"\n", args...)
	o.lost = cmp.Or(o.lost, err)
}

// notef prints a line on stderr, beginning with the tool's name.
func (o *output) notef(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clearBar()
	fmt.Fprintf(o.notes, "boardsmith: "+format+"\n", args...)
}

// Write passes log lines and the output of tools to stderr, past a progress bar.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clearBar()
	return o.notes.Write(p)
}

// A record is the fields of one JSON line; docs/json-lines.md has them all. line adds v and step.
type record map[string]any

// line prints one JSON line, if they are asked for. Empty texts are left out.
func (o *output) line(r record) {
	if o.json == nil {
		return
	}
	full := record{"v": 1, "step": o.step}
	for k, v := range r {
		if v != "" {
			full[k] = v
		}
	}
	text, err := json.Marshal(full)
	if err != nil {
		panic(err) // a record holds plain values only
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err = o.json.Write(append(text, '\n'))
	o.lost = cmp.Or(o.lost, err)
}

// written is the error of a result that did not reach its reader.
func (o *output) written() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost == nil {
		return nil
	}
	return failure.New(failure.Internal, "send the output where there is room for it", "the result was not written: %w", o.lost)
}

// A progress tells that something lasts: nothing in its first second, then a bar on a terminal, else a plain line
// now and then.
type progress struct {
	o     *output
	what  string
	total int // steps; 0 where it is not known
	start time.Time
	quit  chan struct{}
	ended sync.WaitGroup

	// guarded by o.mu
	done   int
	drawn  *progressbar.ProgressBar
	nextAt time.Duration
}

// The first plain line comes after a second, then ever more rarely up to one in quietest.
const (
	quiet    = time.Second
	quietest = 30 * time.Second
)

// lasts begins a progress of total steps, 0 if they cannot be counted. It ends with end, or with the target.
func (o *output) lasts(what string, total int) *progress {
	o.endProgress()
	p := &progress{o: o, what: what, total: total, start: time.Now(), quit: make(chan struct{}), nextAt: quiet}
	o.mu.Lock()
	o.bar = p
	o.mu.Unlock()
	p.ended.Add(1)
	go p.watch()
	return p
}

func (o *output) endProgress() {
	o.mu.Lock()
	p := o.bar
	o.mu.Unlock()
	if p != nil {
		p.end()
	}
}

// add counts n steps as done.
func (p *progress) add(n int) {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	p.done += n
}

// now says what is being done, as step done of total; total is 0 where that is not known.
func (p *progress) now(what string, done, total int) {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	if total != p.total {
		p.drawn = nil
	}
	p.what, p.done, p.total = what, done, total
	if p.drawn != nil {
		p.drawn.Describe(what)
	}
}

// end takes the bar away. It may be called twice.
func (p *progress) end() {
	p.o.mu.Lock()
	if p.o.bar != p {
		p.o.mu.Unlock()
		return
	}
	p.o.clearBar()
	p.o.bar = nil
	p.o.mu.Unlock()
	close(p.quit)
	p.ended.Wait()
}

func (p *progress) watch() {
	defer p.ended.Done()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-tick.C:
			p.show()
		}
	}
}

func (p *progress) show() {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	spent := time.Since(p.start)
	if p.o.bar != p || spent < quiet {
		return
	}
	if p.o.terminal {
		p.draw()
		return
	}
	if spent < p.nextAt {
		return
	}
	p.nextAt = spent + min(quietest, spent)
	if p.total > 0 {
		fmt.Fprintf(p.o.notes, "boardsmith: %s: %d of %d, %.0f s\n", p.what, p.done, p.total, spent.Seconds())
		return
	}
	fmt.Fprintf(p.o.notes, "boardsmith: %s: %.0f s\n", p.what, spent.Seconds())
}

func (p *progress) draw() {
	if p.drawn == nil {
		total := p.total
		if total == 0 {
			total = -1
		}
		p.drawn = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(p.o.notes),
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

// clearBar takes the bar off the line that is about to be printed on. o.mu is held.
func (o *output) clearBar() {
	if o.bar != nil && o.bar.drawn != nil {
		_ = o.bar.drawn.Clear()
	}
}
