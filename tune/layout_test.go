//go:build linux

package tune_test

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/tune"
)

// TestSmallBoardsNeedNoOptions measures and confirms candidates on boards with little RAM. On stm32vldiscovery, where
// firmware leaves no RAM for a window, only small candidates fit.
func TestSmallBoardsNeedNoOptions(t *testing.T) {
	onOneOf(t, "small boards", []string{"microbit", "sifive_e", "stm32vldiscovery"}, func(t *testing.T, board string) {
		r, _ := opened(t, tune.Options{}, board)
		good, inRAM := matmuls(t)[:4], board != "stm32vldiscovery"
		if !inRAM {
			good = goods(3)
			wantFailure(t, measured(t, r, matmuls(t)[0]), failure.DoesNotFit,
				"; the arena has 3 KiB, and cannot have more: an arena of 4 KiB fits with stack_bytes=")
		}
		for _, result := range measureAll(t, r, good) {
			wantTime(t, result, inRAM)
		}
		if inRAM {
			confirm(t, r, 1)
		}
	})
}

// argument returns a tensor of so many bytes.
func argument(bytes int64) tune.Arg {
	return tune.Arg{DType: ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}, Shape: []int64{bytes}}
}

// TestArenaGrows measures candidates whose arguments or workspace need more than the board's own arena. What no arena
// can hold, or not the one in an option, is the candidate's failure.
func TestArenaGrows(t *testing.T) {
	onOneOf(t, "arena grows", []string{"mps2_an386", "host"}, func(t *testing.T, board string) {
		b, err := boards.Find(board, nil)
		must(t, err)
		more := int64(b.ArenaKiB)*1024 + 5
		candidates := func() []tune.Candidate {
			wide, hungry := operator("wide", right+"volatile int k = 1; (void)k;"), operator("hungry", `
  void* all = TVMBackendAllocWorkspace(kDLCPU, 0, `+strconv.FormatInt(more, 10)+`, kDLInt, 8);
  if (all == 0) return -1;
  TVMBackendFreeWorkspace(kDLCPU, 0, all);
`+right)
			wide.Args = append(wide.Args, argument(more))
			after := operator("after", right+"volatile int k; (void)k;")
			return []tune.Candidate{operator("before", right), hungry, wide, after}
		}
		var built []string
		r, _ := opened(t, tune.Options{OnEvent: on("building firmware", func(e tune.Event) {
			built = append(built, e.Text)
		})}, board)
		for _, c := range candidates() {
			wantTime(t, measured(t, r, c), true)
		}
		testkit.Equal(t, "firmware built", len(built), 1)
		if len(b.Memory) > 0 { // a process has room for it
			huge := operator("huge", right+"volatile int k = 2; (void)k;")
			huge.Args = append(huge.Args, argument(1<<28))
			wantFailure(t, measured(t, r, huge), failure.DoesNotFit, "arguments of 26843")
		}
		fixed, _ := opened(t, tune.Options{Memory: map[string]boards.Options{board: {ArenaKiB: b.ArenaKiB}}}, board)
		for i, c := range candidates() {
			if result := measured(t, fixed, c); i == 0 || i == 3 {
				wantFailure(t, result, "")
			} else {
				wantFailure(t, result, failure.DoesNotFit, "the option arena_kib of board ")
			}
		}
	})
}

// TestBoardsHaveOptionsOfTheirOwn generates firmware for two boards with different options. A placement of operators is
// an error.
func TestBoardsHaveOptionsOfTheirOwn(t *testing.T) {
	memory := map[string]boards.Options{
		"": {StackBytes: 12288}, "mps2_an385": {UploadKiB: 8, ArenaKiB: 96, Place: "packet=psram"},
	}
	r, dir := opened(t, tune.Options{Memory: memory}, "mps2_an385", "mps2_an386")
	one := operator("one", right)
	one.Kind = "mps2_an385"
	measured(t, r, one) // with a result, the folder has its options
	must(t, r.Close())
	for board, want := range map[string][]string{
		"mps2_an385": {"ARENA_BYTES 98304", "UPLOAD_BYTES 8192", "#define BOARDSMITH_IN_PACKET psram\n"},
		"mps2_an386": {"STACK_BYTES 12288", "UPLOAD_BYTES 65536"},
	} {
		headers, err := filepath.Glob(dir + "/firmware/" + board + "/crt_config/*.h")
		must(t, err)
		text := ""
		for _, path := range headers {
			text += string(readFile(t, path))
		}
		testkit.WantText(t, text, want...)
	}
	for _, memory := range []map[string]boards.Options{
		{"mps2_an500": {ArenaKiB: 64}}, {"": {OperatorOpt: "O3"}}, {"mps2_an385": {LogLevel: "info"}},
	} {
		wantError(t, refused(t, t.TempDir(), tune.Options{Memory: memory}, "mps2_an385"), failure.Config)
	}
	operators := tune.Options{Memory: map[string]boards.Options{"": {Place: "operators=psram,packet=psram"}}}
	wantError(t, refused(t, t.TempDir(), operators, "mps2_an385"), failure.Config, "operators cannot be placed")
	wantError(t, refused(t, dir, tune.Options{}, "mps2_an385", "mps2_an386"), failure.Config, "mps2_an385:arena_kib=96",
		"place=packet=psram")
}

// TestStackErrorNamesWorkingOption opens a run with the option that the error of a too small stack names.
func TestStackErrorNamesWorkingOption(t *testing.T) {
	o := tune.Options{Memory: map[string]boards.Options{"microbit": {StackBytes: 512}}}
	err := refused(t, t.TempDir(), o, "microbit", "mps2_an385")
	_, option, ok := strings.Cut(failure.Next(err), "repeat with Options.Memory=microbit:stack_bytes=")
	if failure.Of(err) != failure.DoesNotFit || !ok {
		t.Fatalf("%v, next step %q", err, failure.Next(err))
	}
	documented := regexp.MustCompile("`microbit:stack_bytes=([0-9]+)`").FindSubmatch(readFile(t, "../docs/tuning.md"))
	for _, size := range drawn.Of(t, "stacks that work", []string{option, string(documented[1])}, 1) {
		bytes, err := strconv.Atoi(size)
		must(t, err)
		r, _ := opened(t, tune.Options{Memory: map[string]boards.Options{"microbit": {StackBytes: bytes}}}, "microbit")
		wantFailure(t, measured(t, r, operator("one", right)), "")
	}
}
