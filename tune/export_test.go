package tune

// A Place is what a test may put in the place of a device.
type Place = place

// Replacing sets what replaces the devices of a run.
func (o Options) Replacing(f func(Place) Place) Options {
	o.replace = func(_ string, p place) place { return f(p) }
	return o
}

// Fastest is Run.Fastest of results without a run.
var Fastest = fastest

// ReadCandidate gives tests access to what Reproduce measures again.
var ReadCandidate = readCandidate
