package cmodel_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/paramblob"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/ndarray"
)

// TestParameterOrder replaces parameters by those of a blob in another order, as another version of TVM writes it, and
// by one that has a parameter twice.
func TestParameterOrder(t *testing.T) {
	path := mlftest.Path(t, "sine.graph")
	_, m := mlftest.Open(t, path)
	params, err := paramblob.Parse(bytes.Clone(m.Params)) // its arrays lie in the blob
	must(t, err)
	slices.Reverse(params)
	for _, p := range params { // the last byte of each tells which it is
		p.Data[len(p.Data)-1] = p.Name[len(p.Name)-1]
	}
	other, err := mlftest.EncodeParams(params)
	must(t, err)
	params[0] = params[1]
	twice, err := mlftest.EncodeParams(params)
	must(t, err)
	list := func(data []byte) string { return initializer(&ndarray.Array{Data: data}) }
	check(t, generate(t, path, cmodel.Options{RAMParameters: true}), fmt.Sprintf(`#include <string.h>
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
