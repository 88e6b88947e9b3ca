// Package develop contains the targets of boardsmith's own repository that package targets does not have: lint, the
// tests and speed. Only that repository's magefile imports it. It needs that repository's sources and tools. A user's
// repository cannot import it and has none of its targets.
//
// It checks boardsmith and does not use boardsmith's functions: of the other packages, it imports only those that run
// commands and print.
package develop

import (
	"context"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/boardsmith/boardsmith/targets/internal/console"
)

// Test runs boardsmith's own Go and C tests and examples; about 10 minutes on two cores.
func Test(ctx context.Context) error { return do(ctx, "test", (*repository).test) }

// TEST contains the longer tests. Its name is in capitals because a package cannot have both a function and a type with
// the name Test; mage shows and accepts them as test:full and test:soak.
type TEST mg.Namespace

// Full runs boardsmith's own tests with six times as many cases, and all other checks. These are lint, every fuzz
// target for FUZZTIME, other releases of Debian, and benchmarks.
func (TEST) Full(ctx context.Context) error { return do(ctx, "test:full", (*repository).testFull) }

// Soak runs boardsmith's own tests with all cases, without a limit, and fuzzes for FUZZTIME.
func (TEST) Soak(ctx context.Context) error { return do(ctx, "test:soak", (*repository).testSoak) }

// Lint checks boardsmith's own sources by compilers, linters and formatters. These are vet for three systems,
// staticcheck, deadcode, gofumpt, cppcheck and clang-format.
func Lint(ctx context.Context) error { return do(ctx, "lint", (*repository).lint) }

// Bench measures boardsmith's own speed and prints it next to its goals.
func Bench(ctx context.Context) error { return do(ctx, "bench", (*repository).bench) }

// Figures measures boardsmith's own runtime, firmware and builds, and writes docs/figures.md.
func Figures(ctx context.Context) error { return do(ctx, "figures", (*repository).figures) }

// A repository is boardsmith's own, in the console's working folder.
type repository struct {
	*console.Console
	vars fuzzInputs
	tally
}

func do(ctx context.Context, step string, f func(*repository, context.Context) error) error {
	r := &repository{Console: console.Current()}
	return r.Do(ctx, step, func(ctx context.Context) error {
		if err := r.Read(&r.vars); err != nil {
			return err
		}
		return f(r, ctx)
	})
}

// testInputs are the variables of test.
type testInputs struct {
	Seed  string `var:"SEED" default:"1"`
	Check bool   `var:"CHECK"`
}

// fuzzInputs are the variables of the longer tests.
type fuzzInputs struct {
	testInputs
	FuzzTime time.Duration `var:"FUZZTIME"`
}

func init() {
	console.Declare("test", testInputs{})
	console.Declare("test:full", fuzzInputs{})
	console.Declare("test:soak", fuzzInputs{})
}
