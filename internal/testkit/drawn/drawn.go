// Package drawn selects the cases that a test tries. BOARDSMITH_TESTS and SEED control the selection: a plain run draws
// a few cases, a full one ("full") six times as many, and one without a limit ("soak") takes all.
package drawn

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
)

// Variable names how much is tried: empty, Full or Soak.
const (
	Variable = "BOARDSMITH_TESTS"
	Full     = "full"
	Soak     = "soak"
)

// T is what a test's T and B have.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
}

// more is how many times as many cases a full run draws.
const more = 6

func level() string {
	l := os.Getenv(Variable)
	if l != "" && l != Full && l != Soak {
		panic(fmt.Sprintf("%s=%s is neither %s nor %s", Variable, l, Full, Soak))
	}
	return l
}

// InFull reports whether this is a full run or one without a limit.
func InFull() bool { return level() != "" }

// OnlyInFull skips a test in a plain run, in which others guard its rule: it names them.
func OnlyInFull(t T, others string) {
	t.Helper()
	if !InFull() {
		t.Skip("only in a full run: in a plain one, " + others + " guard the same")
	}
}

// InSoak reports whether all cases are tried.
func InSoak() bool { return level() == Soak }

// Count returns how many times to repeat what a plain run does n times, and a run without a limit all times.
func Count(n, all int) int {
	switch level() {
	case Full:
		return min(more*n, all)
	case Soak:
		return all
	}
	return min(n, all)
}

// Of returns a part of all, in all's order: n cases in a plain run. Each purpose draws others.
func Of[E any](t T, purpose string, all []E, n int) []E {
	t.Helper()
	n = Count(n, len(all))
	if n == len(all) {
		return all
	}
	places := Rand(t, purpose).Perm(len(all))[:n]
	t.Logf("%d of %d for %s", n, len(all), purpose)
	slices.Sort(places)
	var some []E
	for _, i := range places {
		some = append(some, all[i])
	}
	return some
}

// Rand returns a source of numbers that depend on the purpose and on SEED, 1 if it is not given.
func Rand(t T, purpose string) *rand.Rand {
	t.Helper()
	seed := uint64(1)
	if s := os.Getenv("SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("SEED=%q: %v", s, err)
		}
	}
	t.Logf("%s is drawn by SEED=%d", purpose, seed)
	h := fnv.New64()
	_, _ = h.Write([]byte(purpose)) // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
