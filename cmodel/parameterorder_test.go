package cmodel_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// TestParameterOrder replaces parameters by those of a blob in another order, as another version of TVM writes it, and
// by one that has a parameter twice.
func TestParameterOrder(t *testing.T) {
	a, err := mlf.Open(mlftest.Path(t, "sine.graph"))
	must(t, err)
	m, err := a.Model("")
	must(t, err)
	c, err := cmodel.Generate(a, m, cmodel.Options{RAMParameters: true})
	must(t, err)
	names, arrays := entries(t, m.Params)
	slices.Reverse(names)
	slices.Reverse(arrays)
	for i := range arrays { // the last byte of each tells which it is
		arrays[i] = slices.Clone(arrays[i])
		arrays[i][len(arrays[i])-1] = names[i][len(names[i])-1]
	}
	other := blobOf(names, arrays)
	names[0], arrays[0] = names[1], arrays[1]
	twice := blobOf(names, arrays)
	list := func(data []byte) string { return initializer(&ndarray.Array{Data: data}) }
	check(t, c, fmt.Sprintf(`#include <string.h>
#include <tvm_sine.h>
static const uint8_t is[] = {%s};
static const uint8_t other[] = {%s};
static const uint8_t twice[] = {%s};

int main(void) {
  EXPECT(TVM_sine_SetParameters(is, sizeof is, %#xU) == 0);
  EXPECT(TVM_sine_SetParameters(twice, sizeof twice, %#xU) == (int32_t)kTvmErrorFunctionCallInvalidArg);
  EXPECT(TVM_sine_SetParameters(other, sizeof other, %#xU) == 0);
  const TVMModelParameters* const p = tvm_sine.parameters;
  for (uint32_t i = 0; i < p->count; i++) {
    const uint8_t* const data = (const uint8_t*)p->data[i];
    const char* const name = p->tensors[i].name;
    EXPECT(data[p->tensors[i].size_bytes - 1U] == (uint8_t)name[strlen(name) - 1U]);
  }
  return (p->count == 6U) ? 0 : 1;
}
`, list(m.Params), list(other), list(twice), crc32.ChecksumIEEE(m.Params), crc32.ChecksumIEEE(twice),
		crc32.ChecksumIEEE(other)), ".c")
}

// entries splits a blob of parameters into its names, each with its length, and its arrays.
func entries(t *testing.T, blob []byte) (names, arrays [][]byte) {
	t.Helper()
	rest := blob[16:]
	number := func(at int) int { return int(binary.LittleEndian.Uint64(rest[at:])) }
	take := func(n int) []byte {
		piece := rest[:n]
		rest = rest[n:]
		return piece
	}
	for range binary.LittleEndian.Uint64(take(8)) {
		names = append(names, take(8+number(0)))
	}
	take(8)
	for range names {
		head := 24 + 8 + 8*int(binary.LittleEndian.Uint32(rest[24:]))
		arrays = append(arrays, take(head+8+number(head)))
	}
	if len(rest) != 0 {
		t.Fatalf("%d bytes behind the parameters", len(rest))
	}
	return names, arrays
}

// blobOf joins what entries split.
func blobOf(names, arrays [][]byte) []byte {
	blob := binary.LittleEndian.AppendUint64(nil, 0xF7E58D4F05049CB7)
	blob = binary.LittleEndian.AppendUint64(blob, 0)
	for _, list := range [][][]byte{names, arrays} {
		blob = binary.LittleEndian.AppendUint64(blob, uint64(len(list)))
		blob = append(blob, bytes.Join(list, nil)...)
	}
	return blob
}
