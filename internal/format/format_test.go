package format

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/ndarray"
)

func int8s(shape []int64, values ...int8) *ndarray.Array {
	a := &ndarray.Array{DType: ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}, Shape: shape}
	for _, v := range values {
		a.Data = append(a.Data, byte(v))
	}
	return a
}

func int64s(values ...int64) *ndarray.Array {
	a := &ndarray.Array{DType: ndarray.DType{Code: ndarray.Int, Bits: 64, Lanes: 1}, Shape: []int64{int64(len(values))}}
	for _, v := range values {
		a.Data = binary.LittleEndian.AppendUint64(a.Data, uint64(v))
	}
	return a
}

func float32s(values ...float32) *ndarray.Array {
	a := &ndarray.Array{DType: ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}, Shape: []int64{int64(len(values))}}
	for _, v := range values {
		a.Data = binary.LittleEndian.AppendUint32(a.Data, math.Float32bits(v))
	}
	return a
}

func TestArgMax(t *testing.T) {
	for _, c := range []struct {
		a    *ndarray.Array
		want int
		ok   bool
	}{
		{int8s([]int64{1, 3}, -5, 7, 7), 1, true},
		{int8s([]int64{3}, -5, -7, -1), 2, true},
		{int8s([]int64{1, 1, 2, 1}, 3, 2), 0, true},
		{int8s([]int64{2, 2}, 1, 2, 3, 4), 0, false},
		{int8s([]int64{1}, 1), 0, false},
		{int8s([]int64{}, 1), 0, false},
		{int8s([]int64{0}), 0, false},
		{int64s(1<<60, 1<<60+1, 0), 1, true},
		{float32s(float32(math.NaN()), 1, 5), 0, false},
	} {
		if got, ok := ArgMax(c.a); got != c.want || ok != c.ok {
			t.Errorf("argMax of %v %v = %d, %v; want %d, %v", c.a.Shape, c.a.Data, got, ok, c.want, c.ok)
		}
	}
}

// Each element's JSON is a number or a boolean where it is one.
func TestElements(t *testing.T) {
	for _, c := range []struct {
		dtype ndarray.DType
		data  []byte
		want  string
	}{
		{ndarray.DType{Code: ndarray.UInt, Bits: 1, Lanes: 1}, []byte{1, 0}, `[true,false]`},
		{ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}, []byte{0xFF, 7}, `[-1,7]`},
		{
			ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1},
			[]byte{0, 0, 0xC0, 0x7F, 0, 0, 0x80, 0xFF, 0, 0, 0, 0x3F},
			`["NaN","-Inf",0.5]`,
		},
		{ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}, []byte{0, 0, 0x80, 0x7F}, `["+Inf"]`},
		{ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 4}, []byte{1, 2, 3, 4}, `["01020304"]`},
	} {
		got, err := json.Marshal(Elements(&ndarray.Array{
			DType: c.dtype,
			Shape: []int64{int64(len(c.data) / c.dtype.Size())}, Data: c.data,
		}))
		if err != nil || string(got) != c.want {
			t.Errorf("%v: %s, want %s: %v", c.dtype, got, c.want, err)
		}
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{
		2.5: "2.5 s", 0.0123: "12.3 ms", 19.64e-6: "19.64 µs", 3e-9: "3 ns",
		0: "0 ns",
	} {
		if got := Seconds(s); got != want {
			t.Errorf("seconds(%g) = %q, want %q", s, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 10239: "10239 B", 10240: "10240 B (10.0 KiB)", 57 << 20: "59768832 B (57.0 MiB)",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for path, want := range map[string]string{
		"a/kws.tar.gz": "kws", "kws.x.tar": "kws.x", "m.json": "m", "folder": "folder",
	} {
		if got := ArchiveName(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	for text, want := range map[string]string{"=1+1": "'=1+1", "@x": "'@x", "kws": "kws", "": ""} {
		if got := NoFormula(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestColumns(t *testing.T) {
	got := strings.Join(Columns([][]string{{"board", "µs"}, {"b", "12.5", "x"}, {"c"}}, []int{1}), "\n")
	if want := "board    µs\nb      12.5  x\nc"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPicture(t *testing.T) {
	set, err := samples.LoadTestSet()
	if err != nil {
		t.Fatal(err)
	}
	lines := Picture(set.Image(0))
	if len(lines) != 8 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, l := range lines {
		if len(l) != 16 {
			t.Errorf("line %q has %d characters", l, len(l))
		}
	}
	if all := strings.Join(lines, ""); !strings.Contains(all, "@") || !strings.Contains(all, "  ") {
		t.Errorf("neither dark nor light:\n%s", strings.Join(lines, "\n"))
	}
}
