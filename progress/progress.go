// Package progress tells how far a step is: generating, building, flashing, opening.
package progress

// An Event says how far a step is.
type Event struct {
	Step   string // generate, build, flash, erase, power, open
	Detail string // what is being done, in a few words
	Done   int    // of Total
	Total  int    // 0: not known
}

// A Func is told as steps go on, from any goroutine. A nil one is nobody.
type Func func(Event)

// Tell tells f, if there is one.
func (f Func) Tell(e Event) {
	if f != nil {
		f(e)
	}
}
