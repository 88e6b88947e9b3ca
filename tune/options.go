package tune

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/project"
)

// Options configure a run. The zero value measures three samples of at least a millisecond.
type Options struct {
	Builder   *project.Builder // compiles; nil: a new one
	Template  string           // of the firmware; "": the board's own
	Libraries []string         // whose functions candidates may call, as in project.Spec
	// Memory has options of boards by the board's name; those of "" are for all boards without their own. Only ArenaKiB,
	// UploadKiB, StackBytes and Place may be set, and Place only for arena, packet and stack: candidates lie in the memory
	// for uploaded code. Where ArenaKiB and UploadKiB are 0, the arena is as large as the candidates' arguments and
	// workspace need, and the memory for a candidate is at most 64 KiB and a quarter of the RAM.
	Memory map[string]boards.Options

	Samples   int           // 0: 3
	MinSample time.Duration // minimum length of a sample; 0: 1 ms
	GiveUp    float64       // a candidate this many times slower than the best so far is timed once; 0: never

	BuildTimeout time.Duration // of one candidate; 0: 60 s
	CallTimeout  time.Duration // of one call of a candidate; its whole measurement has ten times as long; 0: 10 s
	StepTimeout  time.Duration // of each other operation of a board; 0: 30 s

	// Reference is measured at the start, after every Every candidates and after each recovery of a board; nil: none.
	Reference     *Candidate
	Every         int     // 0: 100
	Drift         float64 // accepted change of the reference's time, as a fraction of it; 0: 0.05
	MaxRecoveries int     // of a board in a row, before it is given up; 0: 3

	// FlashBatch is the maximum number of candidates in one firmware, if they do not fit into RAM. 0: 8; negative: they
	// fail with class does-not-fit.
	FlashBatch int

	Retry bool // measures candidates again whose failure an earlier run has stored

	// Remotes are boards of other computers, besides those that OpenRun names.
	Remotes []Remote

	OnEvent func(Event) // called for each event, from any goroutine; may be nil

	// replace returns what a test has in place of the device that a word of OpenRun's boards names.
	replace func(word string, p place) place
}

// An Event is a change of a run's state.
type Event struct {
	Board  string  // the place; "" if the event concerns no place
	Text   string  // short description
	Result *Result // of a candidate that is finished; nil otherwise
	Err    error   // the cause; nil if nothing went wrong
}

func (o *Options) emit(e Event) {
	if o.OnEvent != nil {
		o.OnEvent(e)
	}
}

const callTimeout = 10 * time.Second // the default

// withDefaults returns the options with each default in place of its zero value.
func (o Options) withDefaults() Options {
	setDefault(&o.Samples, 3)
	setDefault(&o.MinSample, time.Millisecond)
	setDefault(&o.BuildTimeout, time.Minute)
	setDefault(&o.CallTimeout, callTimeout)
	setDefault(&o.StepTimeout, 30*time.Second)
	setDefault(&o.Every, 100)
	setDefault(&o.Drift, 0.05)
	setDefault(&o.MaxRecoveries, 3)
	if o.FlashBatch == 0 {
		o.FlashBatch = 8
	}

	// a copy: the caller's map does not change
	o.Memory = maps.Clone(o.Memory)
	maps.DeleteFunc(o.Memory, func(name string, m boards.Options) bool {
		return name == "" && m == (boards.Options{})
	})
	if len(o.Memory) == 0 {
		o.Memory = nil
	}
	return o
}

func setDefault[T int | float64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// budget limits one call on the device: of a candidate, or as many as a sample of it takes. The last batch that the
// device tries for a sample's length is less than twice as long, and one call.
func (o *Options) budget() time.Duration { return o.CallTimeout + 2*o.MinSample }

// measureTimeout limits a candidate's whole measurement.
func (o *Options) measureTimeout() time.Duration { return 10*o.CallTimeout + o.StepTimeout }

// flashTimeout limits steps that may write flash.
func (o *Options) flashTimeout() time.Duration { return 10 * o.StepTimeout }

// firmwareTimeout limits a build of firmware.
func (o *Options) firmwareTimeout() time.Duration { return 10 * o.BuildTimeout }

// memoryOptions are the options of boards that Options.Memory may set.
var memoryOptions = []string{"arena_kib", "upload_kib", "stack_bytes", "place"}

// memory returns the options for a kind of board. The error is of class config for options that change no memory.
func (o *Options) memory(kind string) (boards.Options, error) {
	m, ok := o.Memory[kind]
	if !ok {
		m = o.Memory[""]
	}

	others := slices.DeleteFunc(m.Set(), func(option string) bool { return slices.Contains(memoryOptions, option) })
	if len(others) > 0 {
		return m, failure.New(failure.Config, "candidates are measured with "+strings.Join(memoryOptions, ", ")+" alone",
			"%s: no effect on candidates", strings.Join(others, ", "))
	}
	return m, m.CheckLoadedPlace()
}

// words returns the boards of a run: words of OpenRun, and the kinds of boards of other computers.
func (o *Options) words(boards []string) []string {
	all := slices.Clone(boards)
	for _, r := range o.Remotes {
		all = append(all, r.Board)
	}
	return all
}

// prepare checks the options for the boards of a folder, which it creates. It returns them with defaults and with
// absolute paths, and the folder's absolute path.
func (o Options) prepare(dir string, words []string) (Options, string, error) {
	o = o.withDefaults()
	if err := o.checkMemory(words); err != nil {
		return o, "", err
	}

	if o.Builder == nil {
		o.Builder = &project.Builder{}
	}
	spec := o.Builder.Absolute(project.Spec{Template: o.Template, Libraries: o.Libraries})
	o.Template, o.Libraries = spec.Template, spec.Libraries
	dir = abspath.Of(dir)
	return o, dir, os.MkdirAll(dir, 0o755)
}

// checkMemory returns an error for options that do not apply to candidates, or of a board that is not in words.
func (o *Options) checkMemory(words []string) error {
	var kinds []string
	for _, word := range words {
		board, _ := splitWord(word)
		if kind, _ := boards.Locate(board, o.path()); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}

	for kind := range o.Memory {
		if kind != "" && !slices.Contains(kinds, kind) {
			return failure.Errorf(failure.Config, "options of board %q, but the run's boards are %s", kind,
				strings.Join(kinds, ", "))
		}
		if _, err := o.memory(kind); err != nil {
			return err
		}
	}
	return nil
}

// path returns the folders of boards.
func (o *Options) path() []string {
	if o.Builder == nil {
		return nil
	}
	return o.Builder.Path
}

// splitWord splits a word of OpenRun's boards into the board's name and the device, "" for any.
func splitWord(word string) (board, device string) {
	board, device, _ = strings.Cut(word, "=")
	return board, device
}

// A Remote is a key of TVM's tracker, at which mage serve offers boards of other computers. A run uses all of them that
// the tracker hands out, also those that come later. If a board goes, its candidate is measured on another one.
type Remote struct {
	Tracker  string // host:port
	Key      string
	Board    string // kind of the boards: its name, or the path of its file
	Priority int    // of the run among the clients that wait for a board of this key; the highest comes first
}

func (r Remote) String() string { return fmt.Sprintf("key %s at tracker %s", r.Key, r.Tracker) }
