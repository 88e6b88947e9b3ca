// Package targets holds the mage targets for users. A magefile imports them all with one line,
//
//	//mage:import
//	_ "github.com/boardsmith/boardsmith/targets"
//
// as boardsmith's own magefile does, which also imports those that check boardsmith itself. Inputs come from the
// environment, from PROJECT's project.json and from a boardsmith.json; docs/command-line.md lists them.
//
// A target parses inputs, calls project, device, boards or executor, and prints. Package internal/cli/console prints,
// and converts errors to text, JSON lines and exit codes.
package targets

import (
	"context"

	"github.com/magefile/mage/mg"
)

// Demo builds the bundled digit reader for this computer and lets it read its test set.
func Demo(ctx context.Context) error { return do(ctx, "demo", (*invocation).demo) }

// Generate makes or renews the firmware project of BOARD and MODEL in PROJECT. OPTIONS, APP, TEMPLATE, LIBRARIES, PLACE
// and FIXED_INPUT choose what is in it; FORCE=1 replaces edited files, DRYRUN=1 lists the steps: docs/command-line.md.
func Generate(ctx context.Context) error { return do(ctx, "generate", (*invocation).generate) }

// Build compiles the project's firmware; it generates the project first if there is none. BOARD, MODEL and the other
// inputs of generate choose the project; VERBOSE=1 shows the compiler's output, DRYRUN=1 lists the steps:
// docs/command-line.md.
func Build(ctx context.Context) error { return do(ctx, "build", (*invocation).build) }

// Flash makes the board hold the built firmware, writing only what differs, and verifies it. DEVICE names one of
// several boards, WAIT waits for it, IMAGE is an earlier firmware, FORCE=1 writes all, DRYRUN=1 lists the steps:
// docs/devices.md.
func Flash(ctx context.Context) error { return do(ctx, "flash", (*invocation).flash) }

// Erase erases the whole flash of the board but what its file reserves, and verifies that.
func Erase(ctx context.Context) error { return do(ctx, "erase", (*invocation).erase) }

// Run runs the model on the board with INPUT, prints outputs and times, and writes OUTPUT. REPEAT is the number of
// times, TIMEOUT limits a call, LOAD=ram leaves the firmware as it is, DEVICE names one of several boards:
// docs/command-line.md.
func Run(ctx context.Context) error { return do(ctx, "run", (*invocation).run) }

// Validate runs all inputs in INPUT on the board, as standalone firmware by default, and compares the outputs with
// EXPECT and LABELS: docs/release.md. COMPARE says how equal they must be, ACCURACY how many labels must be right;
// OUTPUT is a report as JSON.
func Validate(ctx context.Context) error { return do(ctx, "validate", (*invocation).validate) }

// Release writes the built firmware, standalone by default, to the folder OUTPUT, with its sizes, digests, licences and
// bill of materials: docs/release.md. APP=library releases the model's C and library; FORCE=1 replaces another release.
func Release(ctx context.Context) error { return do(ctx, "release", (*invocation).release) }

// Tune finds the fastest of the operators in CANDIDATES, of the configurations of SPACE, or of the flags for MODEL, on
// the boards of BOARD: docs/tuning.md. OUTPUT is the run's folder, TRIALS and PROPOSER choose configurations, EXPECT
// has the right outputs, CONFIRM measures the fastest again in flash.
func Tune(ctx context.Context) error { return do(ctx, "tune", (*invocation).tune) }

// Report writes the tuning runs in RUN as an HTML page to OUTPUT, and as a table to CSV.
func Report(ctx context.Context) error { return do(ctx, "report", (*invocation).report) }

// Reproduce measures the candidate ID of the tuning run RUN once more.
func Reproduce(ctx context.Context) error { return do(ctx, "reproduce", (*invocation).reproduce) }

// Size prints how much memory each part of the built firmware takes.
func Size(ctx context.Context) error { return do(ctx, "size", (*invocation).size) }

// Devices lists probes, serial ports and emulated boards; SAVE=1 asks them for their chips and writes desk.json.
func Devices(ctx context.Context) error { return do(ctx, "devices", (*invocation).devices) }

// Wear shows how often each sector of each board's flash was erased, beside what it is rated for.
func Wear(ctx context.Context) error { return do(ctx, "wear", (*invocation).wear) }

// Monitor shows the board's logs and all traffic until Ctrl-C, or is a console of firmware that prints text:
// docs/devices.md. BAUD, RESET=1, TIMESTAMPS=1 and LOG configure it; OUTPUT records every byte.
func Monitor(ctx context.Context) error { return do(ctx, "monitor", (*invocation).monitor) }

// Debug starts the gdb server of the probe or emulator, and gdb on the built firmware. ATTACH=1 leaves the board as it
// is, SERVE=1 starts only the server: docs/devices.md.
func Debug(ctx context.Context) error { return do(ctx, "debug", (*invocation).debug) }

// Emulated holds the targets about boards whose chip and probe are emulated.
type Emulated mg.Namespace

// Up starts the emulated chip of BOARD, which otherwise starts when it is used.
func (Emulated) Up(ctx context.Context) error { return doEmulated(ctx, "up", emulatedUp) }

// Down ends the emulated chip of BOARD; what its flash holds is kept.
func (Emulated) Down(ctx context.Context) error {
	return do(ctx, "emulated:down", (*invocation).emulatedDown)
}

// Erase erases the whole flash of the emulated chip of BOARD, as another tool would.
func (Emulated) Erase(ctx context.Context) error { return doEmulated(ctx, "erase", emulatedErase) }

// Swap puts another, new chip on the emulated BOARD, behind the same probe.
func (Emulated) Swap(ctx context.Context) error { return doEmulated(ctx, "swap", emulatedSwap) }

func doEmulated(ctx context.Context, name string, a emulatedAction) error {
	return do(ctx, "emulated:"+name, func(v *invocation, ctx context.Context) error { return v.emulated(ctx, a) })
}

// Cache holds the targets about what was built before, and is kept.
type Cache mg.Namespace

// List lists the entries, the one used last first.
func (Cache) List(ctx context.Context) error { return do(ctx, "cache:list", (*invocation).cacheList) }

// Verify reads all entries and removes those that are damaged.
func (Cache) Verify(ctx context.Context) error {
	return do(ctx, "cache:verify", (*invocation).cacheVerify)
}

// Gc removes what was not used for longest, until the rest takes at most CACHE_MIB.
func (Cache) Gc(ctx context.Context) error { return do(ctx, "cache:gc", (*invocation).cacheGC) }

// Clean removes the project PROJECT.
func Clean(ctx context.Context) error { return do(ctx, "clean", (*invocation).clean) }

// Boards lists the boards that BOARD can name.
func Boards(ctx context.Context) error { return do(ctx, "boards", (*invocation).boards) }

// Board holds the targets about one board.
type Board mg.Namespace

// Show prints a board with all it inherits, the file that set each field, and its options.
func (Board) Show(ctx context.Context, name string) error {
	return do(ctx, "board:show", func(v *invocation, ctx context.Context) error { return v.boardShow(ctx, name) })
}

// Check validates a board by name or file, without hardware: it loads, its parts exist, and the sample builds for it.
func (Board) Check(ctx context.Context, nameOrFile string) error {
	return do(ctx, "board:check", func(v *invocation, ctx context.Context) error { return v.boardCheck(ctx, nameOrFile) })
}

// New makes the file of a new board from that of the board FROM.
func (Board) New(ctx context.Context, name string) error {
	return do(ctx, "board:new", func(v *invocation, ctx context.Context) error { return v.boardNew(ctx, name) })
}

// SVD compares the registers, bits and interrupts that a board's C uses with the chip manufacturer's file SVD, without
// hardware; EXCEPT names macros that may differ, VERBOSE=1 shows all that was compared.
func (Board) SVD(ctx context.Context, name string) error {
	return do(ctx, "board:svd", func(v *invocation, ctx context.Context) error { return v.boardSVD(ctx, name) })
}

// Accept tests BOARD on the board itself and writes a page of what was found to OUTPUT; SHORT=1 repeats less.
func (Board) Accept(ctx context.Context) error {
	return do(ctx, "board:accept", (*invocation).boardAccept)
}

// Template holds the targets about one template.
type Template mg.Namespace

// New copies the shipped template FROM to a new folder.
func (Template) New(ctx context.Context, folder string) error {
	return do(ctx, "template:new", func(v *invocation, _ context.Context) error { return v.templateNew(folder) })
}

// Check checks, without hardware, that a template by name or folder agrees with its template.json, for BOARD.
func (Template) Check(ctx context.Context, nameOrFolder string) error {
	return do(ctx, "template:check", func(v *invocation, ctx context.Context) error {
		return v.templateCheck(ctx, nameOrFolder)
	})
}

// Export writes a template folder for TVM's Python: projects of it are for BOARD, by TEMPLATE.
func (Template) Export(ctx context.Context, folder string) error {
	return do(ctx, "template:export", func(v *invocation, ctx context.Context) error {
		return v.templateExport(ctx, folder)
	})
}

// Schemas writes a JSON Schema for each kind of file that you write, for your editor, to a folder.
func Schemas(ctx context.Context, folder string) error {
	return do(ctx, "schemas", func(v *invocation, _ context.Context) error { return v.schemas(folder) })
}

// Embed writes the C with which your own firmware runs the models in MODEL (archives, separated by commas), to FOLDER;
// with BOARD also a library of them.
func Embed(ctx context.Context, folder string) error {
	return do(ctx, "embed", func(v *invocation, ctx context.Context) error { return v.embed(ctx, folder) })
}

// Doctor lists the tools that are here and what is missing, and changes nothing.
func Doctor(ctx context.Context) error { return do(ctx, "doctor", (*invocation).doctor) }

// Setup installs the tools that are missing (Debian, Ubuntu), or names what to install.
func Setup(ctx context.Context) error { return do(ctx, "setup", (*invocation).setup) }
