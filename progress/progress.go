// Package progress reports the progress of a step: generating, building, flashing, opening.
package progress

// An Event is the progress of a step.
type Event struct {
	Step   string // generate, build, flash, erase, power, open
	Detail string // what is being done, in a few words
	Done   int    // of Total
	Total  int    // 0: not known
}

// A Func receives the events of steps, from any goroutine. A nil Func receives none.
type Func func(Event)

// Tell calls f unless it is nil.
func (f Func) Tell(e Event) {
	if f != nil {
		f(e)
	}
}
