// SPDX-License-Identifier: 0BSD
// C = A × B for matrices of 48 × 48 numbers. ROWS × COLUMNS sums are kept at a time. One pass of the loop over k adds
// DEPTH products to each of them. The loops over these three are unrolled.
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

enum { SIZE = 48 };

#define UNROLLED _Pragma("GCC unroll 8")

static void block(const int8_t* a, const int8_t* b, int32_t* c) {
  int32_t sum[ROWS][COLUMNS] = {{0}};
  for (int k = 0; k < SIZE; k += DEPTH) {
    UNROLLED for (int p = k; p < k + DEPTH; p++) {
      UNROLLED for (int i = 0; i < ROWS; i++) {
        UNROLLED for (int j = 0; j < COLUMNS; j++) {
          sum[i][j] += a[i * SIZE + p] * b[p * SIZE + j];
        }
      }
    }
  }
  UNROLLED for (int i = 0; i < ROWS; i++) {
    UNROLLED for (int j = 0; j < COLUMNS; j++) {
      c[i * SIZE + j] = sum[i][j];
    }
  }
}

// A packed function, as TVM's operators are.
int matmul(TVMValue* args, int* codes, int count, TVMValue* result, int* result_code, void* resource) {
  const int8_t* a = (const int8_t*)((DLTensor*)args[0].v_handle)->data;
  const int8_t* b = (const int8_t*)((DLTensor*)args[1].v_handle)->data;
  int32_t* c = (int32_t*)((DLTensor*)args[2].v_handle)->data;
  for (int i = 0; i < SIZE; i += ROWS) {
    for (int j = 0; j < SIZE; j += COLUMNS) {
      block(a + i * SIZE, b + j, c + i * SIZE + j);
    }
  }
  return 0;
}
