// Package samples holds the bundled model: digits_i8, an int8 network that reads 8×8 handwritten digits, with one
// input, its outputs, and a test set with the exact logits.
//
// Package mlf reads the archive, package executor runs it.
package samples

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"

	"github.com/boardsmith/boardsmith/ndarray"
)

// Name is the file name of the bundled archive.
const Name = "digits_i8.aot_packed.tar"

const (
	inputs  = "digits_i8.inputs.npz"
	outputs = "digits_i8.outputs.npz"
	testset = "digits_i8.testset.npz"
)

//go:embed digits_i8.*
var files embed.FS

// Archive returns the Model Library Format archive, an uncompressed tar. The caller owns the bytes.
func Archive() []byte { return read(Name) }

// Digest returns the SHA-256 of Archive, in hexadecimal.
func Digest() string {
	sum := sha256.Sum256(read(Name))
	return hex.EncodeToString(sum[:])
}

// Inputs returns one input of the model: "image", int8 (1, 1, 8, 8).
func Inputs() ([]ndarray.Named, error) { return arrays(inputs) }

// Outputs returns the model's outputs for Inputs: "output0", int32 (1, 10).
func Outputs() ([]ndarray.Named, error) { return arrays(outputs) }

// A TestSet holds labelled images and the model's exact outputs for them.
type TestSet struct {
	Images *ndarray.Array // int8 (n, 1, 8, 8): n inputs of the model
	Labels *ndarray.Array // int32 (n,), 0 to 9
	Logits *ndarray.Array // int32 (n, 10), from TVM's own run of the same model
}

// LoadTestSet reads the bundled test set of 360 images.
func LoadTestSet() (*TestSet, error) {
	all, err := arrays(testset)
	if err != nil {
		return nil, err
	}
	var s TestSet
	for _, a := range all {
		switch a.Name {
		case "images":
			s.Images = a.Array
		case "labels":
			s.Labels = a.Array
		case "logits":
			s.Logits = a.Array
		}
	}
	if s.Images == nil || s.Labels == nil || s.Logits == nil {
		return nil, fmt.Errorf("%s: images, labels or logits are missing", testset)
	}
	return &s, nil
}

// Len returns the number of images.
func (s *TestSet) Len() int { return s.Labels.Len() }

// Image returns image i as the model's input, a view of the set's bytes.
func (s *TestSet) Image(i int) *ndarray.Array { return row(s.Images, i) }

// Logit returns the model's output for image i, int32 (1, 10), a view of the set's bytes.
func (s *TestSet) Logit(i int) *ndarray.Array { return row(s.Logits, i) }

// row returns a[i:i+1].
func row(a *ndarray.Array, i int) *ndarray.Array {
	n := len(a.Data) / int(a.Shape[0])
	shape := append([]int64{1}, a.Shape[1:]...)
	return &ndarray.Array{DType: a.DType, Shape: shape, Data: a.Data[i*n : (i+1)*n]}
}

func arrays(name string) ([]ndarray.Named, error) {
	all, err := ndarray.DecodeNPZ(read(name))
	if err != nil {
		return nil, fmt.Errorf("bundled %s: %w", name, err)
	}
	return all, nil
}

// read cannot fail: the names are those embedded, which a test checks.
func read(name string) []byte {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return data
}
