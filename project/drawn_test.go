package project

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
)

// Full says whether everything is to be tried that a plain run draws from.
func Full() bool { return os.Getenv("BOARDSMITH_FULL") != "" }

// Drawn returns n of all, drawn by SEED for this purpose, in all's order; everything where the full test is asked for.
func Drawn[T any](t *testing.T, purpose string, all []T, n int) []T {
	t.Helper()
	if Full() || n >= len(all) {
		return all
	}
	seed := uint64(1)
	if s := os.Getenv("SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("SEED=%q: %v", s, err)
		}
	}
	t.Logf("%d of %d, drawn by SEED=%d", n, len(all), seed)
	h := fnv.New64()
	_, _ = h.Write([]byte(purpose)) // never fails
	taken := map[int]bool{}
	for _, i := range rand.New(rand.NewPCG(seed, h.Sum64())).Perm(len(all))[:n] {
		taken[i] = true
	}
	var some []T
	for i, x := range all {
		if taken[i] {
			some = append(some, x)
		}
	}
	return some
}

// NewEnough says whether the board's emulator, where it is installed, has its machine already. Tests of all emulated boards
// leave out one of which it does not, with the reason in their log.
func NewEnough(t *testing.T, b *boards.Board) bool {
	t.Helper()
	_, emulator, err := MissingTools(t.Context(), b)
	must(t, err)
	if len(emulator) > 0 && emulator[0].Needs != "" {
		t.Logf("without board %s: %v: %s", b.Name, emulator[0], emulator[0].NextStep())
		return false
	}
	return true
}
