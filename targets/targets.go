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

// Flash writes the built firmware to the board and verifies it.
func Flash(ctx context.Context) error { return do(ctx, "flash", (*session).flash) }

// Run runs the model on the board with INPUT, prints outputs and times, and writes OUTPUT.
func Run(ctx context.Context) error { return do(ctx, "run", (*session).run) }

// Size prints how much memory each part of the built firmware takes.
func Size(ctx context.Context) error { return do(ctx, "size", (*session).size) }

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

// TEST holds the longer test. Its name is in capitals because a package cannot have both a function and a type
// called Test; mage shows and takes it as test:full.
type TEST mg.Namespace

// Full runs the tests, then every fuzz target for FUZZTIME and the benchmarks, and writes docs/report.
func (TEST) Full(ctx context.Context) error { return do(ctx, "test:full", (*session).testFull) }

// Lint checks the sources: vet, staticcheck, gofumpt, cppcheck with MISRA.
func Lint(ctx context.Context) error { return do(ctx, "lint", (*session).lint) }

// Bench measures speed and prints it beside the targets.
func Bench(ctx context.Context) error { return do(ctx, "bench", (*session).bench) }
