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
		err := CheckFPU(&boards.Board{Name: "b"}, []mlf.File{{Name: "net.o", Data: object(c.object)}},
			func() ([]byte, error) { asked++; return object(c.board), nil })
		if (c.want == "") != (err == nil) || err != nil && (!errors.Is(err, ErrTarget) ||
			!strings.Contains(err.Error(), "net.o is for "+c.want) && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s on %s: %v, want %q", c.object, c.board, err, c.want)
		}
		if uses := c.object != none; (asked == 1) != uses {
			t.Errorf("%s: the compiler ran %d times", c.object, asked)
		}
	}
	broken := errors.New("no compiler")
	err := CheckFPU(&boards.Board{}, []mlf.File{{Data: object(single)}}, func() ([]byte, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := CheckFPU(&boards.Board{}, []mlf.File{{Data: object(single)}}, func() ([]byte, error) {
		return []byte("text"), nil
	}); err == nil {
		t.Error("what is no object was accepted")
	}
}
