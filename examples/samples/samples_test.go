package samples

import (
	"testing"

	"github.com/boardsmith/boardsmith/ndarray"
)

func TestBundled(t *testing.T) {
	if n := len(Archive()); n != 112640 {
		t.Errorf("archive of %d bytes, want 112640", n)
	}
	in, err := Inputs()
	if err != nil || len(in) != 1 || in[0].Name != "image" || ndarray.ShapeString(in[0].Shape) != "(1, 1, 8, 8)" {
		t.Errorf("inputs = %v, %v", in, err)
	}
	out, err := Outputs()
	if err != nil || len(out) != 1 || out[0].Name != "output0" || out[0].DType.String() != "int32" {
		t.Errorf("outputs = %v, %v", out, err)
	}
}

func TestTestSet(t *testing.T) {
	s, err := LoadTestSet()
	if err != nil {
		t.Fatal(err)
	}
	if s.Len() != 360 {
		t.Fatalf("%d images, want 360", s.Len())
	}
	right := 0
	for i := range s.Len() {
		if err := s.Image(i).Check(); err != nil {
			t.Fatal(err)
		}
		if best(s.Logit(i)) == s.Labels.Int(i) {
			right++
		}
	}
	if right != 354 { // 98.3 %
		t.Errorf("the reference logits name %d of 360 digits, want 354", right)
	}
}

func best(a *ndarray.Array) int64 {
	at := 0
	for i := range a.Len() {
		if a.Int(i) > a.Int(at) {
			at = i
		}
	}
	return int64(at)
}
