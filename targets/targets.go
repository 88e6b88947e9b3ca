// Package targets holds boardsmith's mage targets: what people type. A magefile has them all by one line,
//
//	//mage:import
//	_ "github.com/boardsmith/boardsmith/targets"
//
// as boardsmith's own magefile does. Inputs come from the environment, from PROJECT's project.json and from a
// boardsmith.json; docs/inputs.md lists them.
//
// A target parses, calls and prints. What it calls lies in project, boards and executor; hints, exit codes and JSON
// lines are made here and nowhere else.
package targets

import (
	"context"

	"github.com/magefile/mage/mg"
)

// Demo builds the bundled digit reader for this computer and lets it read its test set.
func Demo(ctx context.Context) error { return do(ctx, "demo", (*session).demo) }

// Generate makes or renews the firmware project of BOARD and MODEL in PROJECT.
func Generate(ctx context.Context) error { return do(ctx, "generate", (*session).generate) }

// Build compiles the project's firmware, generating the project first where there is none.
func Build(ctx context.Context) error { return do(ctx, "build", (*session).build) }

// Flash makes the board hold the built firmware, writing only what differs, and verifies it.
func Flash(ctx context.Context) error { return do(ctx, "flash", (*session).flash) }

// Erase erases the whole flash of the board but what its file reserves, and verifies that.
func Erase(ctx context.Context) error { return do(ctx, "erase", (*session).erase) }

// Run runs the model on the board with INPUT, prints outputs and times, and writes OUTPUT.
func Run(ctx context.Context) error { return do(ctx, "run", (*session).run) }

// Size prints how much memory each part of the built firmware takes.
func Size(ctx context.Context) error { return do(ctx, "size", (*session).size) }

// Devices lists probes, serial ports and emulated boards; SAVE=1 asks them for their chips and writes bench.json.
func Devices(ctx context.Context) error { return do(ctx, "devices", (*session).devices) }

// Wear shows how often each sector of each board's flash was erased, beside what it is rated for.
func Wear(ctx context.Context) error { return do(ctx, "wear", (*session).wear) }

// Monitor shows the board's logs and all traffic until Ctrl-C; OUTPUT records it.
func Monitor(ctx context.Context) error { return do(ctx, "monitor", (*session).monitor) }

// Debug starts the probe's gdb server, and gdb on the built firmware.
func Debug(ctx context.Context) error { return do(ctx, "debug", (*session).debug) }

// Virtual holds the targets about boards whose chip and probe are emulated.
type Virtual mg.Namespace

// Up starts the emulated chip of BOARD, which otherwise starts when it is used.
func (Virtual) Up(ctx context.Context) error { return doVirtual(ctx, "up") }

// Down ends the emulated chip of BOARD; what its flash holds is kept.
func (Virtual) Down(ctx context.Context) error { return doVirtual(ctx, "down") }

// Erase erases the whole flash of the emulated chip of BOARD, as another tool would.
func (Virtual) Erase(ctx context.Context) error { return doVirtual(ctx, "erase") }

// Swap puts another, new chip on the emulated BOARD, behind the same probe.
func (Virtual) Swap(ctx context.Context) error { return doVirtual(ctx, "swap") }

func doVirtual(ctx context.Context, what string) error {
	return do(ctx, "virtual:"+what, func(s *session, ctx context.Context) error { return s.virtual(ctx, what) })
}

// Cache holds the targets about what was built before, and is kept.
type Cache mg.Namespace

// List lists the entries, the one used last first.
func (Cache) List(ctx context.Context) error { return do(ctx, "cache:list", (*session).cacheList) }

// Verify reads all entries and removes those that are damaged.
func (Cache) Verify(ctx context.Context) error {
	return do(ctx, "cache:verify", (*session).cacheVerify)
}

// Gc removes what was not used for longest, until the rest takes at most CACHE_MIB.
func (Cache) Gc(ctx context.Context) error { return do(ctx, "cache:gc", (*session).cacheGC) }

// Clean removes the project PROJECT.
func Clean(ctx context.Context) error { return do(ctx, "clean", (*session).clean) }

// Boards lists the boards that BOARD can name.
func Boards(ctx context.Context) error { return do(ctx, "boards", (*session).boards) }

// Board holds the targets about one board.
type Board mg.Namespace

// Show prints a board with all it inherits, the file that set each field, and its options.
func (Board) Show(ctx context.Context, name string) error {
	return do(ctx, "board:show", func(s *session, ctx context.Context) error { return s.boardShow(name) })
}

// Check validates a board by name or file, without hardware: it loads, its parts exist, and the sample builds for it.
func (Board) Check(ctx context.Context, nameOrFile string) error {
	return do(ctx, "board:check", func(s *session, ctx context.Context) error { return s.boardCheck(ctx, nameOrFile) })
}

// Doctor lists the tools that are here and what is missing, and changes nothing.
func Doctor(ctx context.Context) error { return do(ctx, "doctor", (*session).doctor) }

// Setup installs the tools that are missing (Debian, Ubuntu), or says what to install.
func Setup(ctx context.Context) error { return do(ctx, "setup", (*session).setup) }

// Test runs all checks: lint, Go and C tests, the examples; at most 15 minutes.
func Test(ctx context.Context) error { return do(ctx, "test", (*session).test) }

// TEST holds the longer tests. Its name is in capitals because a package cannot have both a function and a type
// called Test; mage shows and takes them as test:full, test:soak and test:debian.
type TEST mg.Namespace

// Full runs the tests with ten times as many cases, then every fuzz target for FUZZTIME, other releases of Debian, and benchmarks; writes docs/report.
func (TEST) Full(ctx context.Context) error { return do(ctx, "test:full", (*session).testFull) }

// Soak runs all tests with every case that the others draw from, and every fuzz target for FUZZTIME; it has no limit.
func (TEST) Soak(ctx context.Context) error { return do(ctx, "test:soak", (*session).testSoak) }

// Debian runs the demo and the tests in a bare Debian 12 and a bare Debian 13 that it makes (as root, by debootstrap).
func (TEST) Debian(ctx context.Context) error { return do(ctx, "test:debian", (*session).testDebian) }

// Lint checks the sources: vet, staticcheck, gofumpt, cppcheck with MISRA.
func Lint(ctx context.Context) error { return do(ctx, "lint", (*session).lint) }

// Bench measures speed and prints it beside the targets.
func Bench(ctx context.Context) error { return do(ctx, "bench", (*session).bench) }
