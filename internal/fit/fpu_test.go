package fit

import (
	"errors"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/mlf"
)

// TestCheckFPU compares objects of one compiler for several FPUs.
func TestCheckFPU(t *testing.T) {
	const cc = "arm-none-eabi-gcc"
	testkit.Need(t, cc)
	object := func(flags string) []byte {
		t.Helper()
		data, err := command.CompileEmpty(t.Context(), cc, append(strings.Fields(flags), "-mthumb"))
		testkit.Must(t, err)
		return data
	}
	const (
		none     = "-mcpu=cortex-m4 -mfloat-abi=soft"
		single   = "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard"
		softfp   = "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=softfp"
		single7  = "-mcpu=cortex-m7 -mfpu=fpv5-sp-d16 -mfloat-abi=hard"
		double7  = "-mcpu=cortex-m7 -mfpu=fpv5-d16 -mfloat-abi=hard"
		vectors  = "-mcpu=cortex-m55 -mfloat-abi=hard"
		integers = "-mcpu=cortex-m55+nofp -mfloat-abi=softfp" // vectors of integers only
	)
	check := func(of string, board func() ([]byte, error)) error {
		return CheckFPU(&boards.Board{Name: "b"}, []mlf.File{{Name: "net.o", Data: object(of)}}, board)
	}
	for _, c := range []struct{ board, object, want string }{
		{none, none, ""},
		{none, single, "VFPv4-D16 of single precision, but board b needs no FPU"},
		{none, softfp, "VFPv4-D16 of single precision, but"},
		{single, softfp, ""},
		{single, double7, "FPv5-D16 of double precision, but board b needs VFPv4-D16 of single precision, the unit"},
		{single, single7, "FPv5-D16 of single precision, but"},
		{single7, single, ""},
		{double7, single7, ""},
		{single7, double7, "FPv5-D16 of double precision, but"},
		{double7, vectors, "and vectors (MVE), but"},
		{vectors, vectors, ""},
		{vectors, double7, ""},
		{none, integers, "vectors (MVE), but board b needs no FPU"},
	} {
		asked := 0
		err := check(c.object, func() ([]byte, error) { asked++; return object(c.board), nil })
		testkit.WantErrorIf(t, c.want != "", err, "", "net.o is for ", c.want)
		if err != nil && !errors.Is(err, ErrTarget) {
			t.Error(err)
		}
		if uses := c.object != none; (asked == 1) != uses {
			t.Errorf("%s: the compiler ran %d times", c.object, asked)
		}
	}
	broken := errors.New("no compiler")
	if err := check(single, func() ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	testkit.WantError(t, check(single, func() ([]byte, error) { return []byte("text"), nil }), "")
}
