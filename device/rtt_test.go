package device

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
)

// TestRTTBlock: the control block is at its symbol. Without an image it is searched in RAM, and an image without one is
// an error.
func TestRTTBlock(t *testing.T) {
	cc, err := exec.LookPath("arm-none-eabi-gcc")
	if err != nil {
		t.Skip("no arm-none-eabi-gcc")
	}
	compiled := func(source string) *image.Image {
		dir := t.TempDir()
		file, object := filepath.Join(dir, "x.c"), filepath.Join(dir, "x.o")
		must(t, os.WriteFile(file, []byte(source), 0o644))
		must(t, exec.Command(cc, "-c", "-o", object, file).Run())
		data, err := os.ReadFile(object)
		must(t, err)
		return &image.Image{Path: object, Digest: image.DigestOf(data)}
	}
	b, err := boards.Find("microbit", nil)
	must(t, err)
	where, err := rttBlock(expected{compiled("char _SEGGER_RTT[72];"), true}, b)
	if err != nil || len(where) != 1 || where[0].Size != 72 {
		t.Errorf("%v, %v", where, err)
	}
	where, err = rttBlock(expected{}, b)
	if err != nil || len(where) != 1 || where[0].Addr != 0x20000000 || where[0].Size != 16<<10 {
		t.Errorf("without an image: %v, %v", where, err)
	}
	where, err = rttBlock(expected{image: compiled("char _SEGGER_RTT[72];")}, b)
	if err != nil || len(where) != 2 || where[0].Size != 72 || where[1].Size != 16<<10 {
		t.Errorf("another image may run: %v, %v", where, err)
	}
	_, err = rttBlock(expected{compiled("int x;"), true}, b)
	if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), rttSymbol) {
		t.Errorf("an image without RTT: %v", err)
	}
}
