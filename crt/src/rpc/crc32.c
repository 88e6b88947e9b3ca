// SPDX-License-Identifier: Apache-2.0
//
// boardsmith.crc32(tensor): confirms a long copy, for which a frame's 16-bit CRC is too weak. IEEE CRC-32, as in zlib.
#include <boardsmith/boardsmith.h>

static uint32_t crc32_update(uint32_t crc, const uint8_t* p, size_t bytes) {
  static const uint32_t nibble[16] = {0x00000000U, 0x1DB71064U, 0x3B6E20C8U, 0x26D930ACU, 0x76DC4190U, 0x6B6B51F4U,
                                      0x4DB26158U, 0x5005713CU, 0xEDB88320U, 0xF00F9344U, 0xD6D6A3E8U, 0xCB61B38CU,
                                      0x9B64C2B0U, 0x86D3D2D4U, 0xA00AE278U, 0xBDBDF21CU};
  for (; bytes != 0U; bytes--) {
    crc ^= *p;
    crc = (crc >> 4) ^ nibble[crc & 15U];
    crc = (crc >> 4) ^ nibble[crc & 15U];
    p++;
  }
  return crc;
}

uint32_t boardsmith_crc32_more(uint32_t crc, const void* data, size_t bytes) {
  return ~crc32_update(~crc, data, bytes);
}

uint32_t boardsmith_crc32(const void* data, size_t bytes) { return boardsmith_crc32_more(0, data, bytes); }

int boardsmith_crc32_packed(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                            void* resource_handle) {
  (void)resource_handle;
  size_t bytes = 0;
  if ((num_args != 1) || (type_codes[0] != kTVMDLTensorHandle)) {
    TVMAPISetLastError("boardsmith.crc32: needs one tensor");
    return -1;
  }
  const DLTensor* t = args[0].v_handle;  // in known memory: checked by the server
  const int error = boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &bytes);
  if (error != 0) {
    return error;
  }
  out_value->v_int64 = (int64_t)boardsmith_crc32(&((const uint8_t*)t->data)[t->byte_offset], bytes);
  *out_type = kTVMArgInt;
  return 0;
}
