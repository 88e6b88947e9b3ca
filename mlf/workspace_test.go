package mlf

import (
	"fmt"
	"testing"
)

func TestReadWorkspace(t *testing.T) {
	steps := map[string][]WorkStep{}
	readWorkspace([]byte(`
static const int8_t c[2] = {
    0x01, (0x02)
};
TVM_DLL int32_t tvmgen_m_fused_a(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle);
TVM_DLL int32_t tvmgen_m_fused_a(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle) {
  void* pad = TVMBackendAllocWorkspace(1, dev_id, (uint64_t)16000, 0, 16);
  if (pad == NULL) {
  void* conv = TVMBackendAllocWorkspace(1, dev_id, (uint64_t)32, 0, 32);
  if (TVMBackendFreeWorkspace(1, dev_id, conv) != 0) {
  if (TVMBackendFreeWorkspace(1, dev_id, pad) != 0) {
}
TVM_DLL int32_t tvmgen_m___tvm_main__(void* x) {
  void* sid_1 = TVMBackendAllocWorkspace(1, 0, (uint64_t)64, 2, 8);
  if (tvmgen_m_fused_a( (TVMValue*) stack_value , (int*) stack_tcode, 2, &ret_val, &ret_type_code, NULL) != 0){
  void* huge = TVMBackendAllocWorkspace(1, 0, (uint64_t)99999999999999999999, 2, 8);
  if (TVMBackendFreeWorkspace(1, 0, sid_1) != 0) {
}`), steps)
	want := "map[tvmgen_m___tvm_main__:[{64 sid_1 } {0  tvmgen_m_fused_a} {0 sid_1 }] tvmgen_m_fused_a:[{16000 pad } " +
		"{32 conv } {0 conv } {0 pad }]]"
	if got := fmt.Sprint(steps); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
