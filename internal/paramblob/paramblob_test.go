package paramblob_test

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/internal/paramblob"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestParamsExample is the worked example of crt_abi.md §11.
func TestParamsExample(t *testing.T) {
	text := "b79c04054f8de5f7" + "0000000000000000" + "0100000000000000" + "0200000000000000" + "7030" +
		"0100000000000000" +
		"3fa1b496f0405edd" + "0000000000000000" + "0100000000000000" + "01000000" + "00080100" + "0200000000000000" +
		"0200000000000000" + "0102"
	blob, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	params, err := paramblob.Parse(blob)
	if err != nil || len(params) != 1 || params[0].Name != "p0" || params[0].DType.String() != "int8" ||
		!slices.Equal(params[0].Shape, []int64{2}) || string(params[0].Data) != "\x01\x02" {
		t.Errorf("%+v, %v", params, err)
	}
	if back, err := mlftest.EncodeParams(params); err != nil || !bytes.Equal(back, blob) {
		t.Errorf("encodes as %x, %v", back, err)
	}
	for n := range blob {
		if _, err := paramblob.Parse(blob[:n]); err == nil {
			t.Errorf("the first %d bytes were accepted", n)
		}
	}
	for at, what := range map[int]string{
		0: "magic", 8: "reserved", 16: "count", 34: "second count", 42: "array magic",
		58: "device", 62: "device id", 66: "rank", 72: "lanes", 74: "shape", 82: "length",
	} {
		bad := slices.Clone(blob)
		bad[at] ^= 0x40
		if _, err := paramblob.Parse(bad); err == nil {
			t.Errorf("a changed %s passes", what)
		}
	}
	if _, err := paramblob.Parse(append(blob, 0)); err == nil {
		t.Error("an extra byte was accepted")
	}
}
